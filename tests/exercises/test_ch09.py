"""Chapter 09's exercises: floors and ceilings are those of real runs, and worked answers those of one process."""

import random

import pytest
import torch
from torch.nn import functional as F

from course_chapters.ch09.exercises.judges.regions import ring_most, traffic
from course_grader import exercises
from course_grader.judging import Worked, judging
from course_lib.cluster import simulate
from course_lib.model.transformer import attend
from course_lib.parallel.tensor.traffic import tp_bytes_per_layer
from tests.tables import each_of


@each_of("n", [2, 3, 4, 5, 8])
@each_of("elements", [1, 7, 24, 101])
def test_floor_and_ceiling_fit_a_real_all_reduce(n, elements):
    run = simulate(lambda comm, x: comm.all_reduce(x), n, (torch.ones(elements),))
    meter = run.meter.as_dict()
    assert traffic(meter, 2 * (n - 1) * elements * 4, ring_most(elements, 4, n)) is None
    assert sum(meter["bytes_sent"]) == 2 * (n - 1) * elements * 4


# --- what a rank holds of each input and along which dimension it is cut, and the whole computation


def mlp(w, *_):
    return F.linear(F.gelu(F.linear(w["x"], w["up"], w["up_bias"])), w["down"], w["down_bias"])


def attention(w, head_dim, *_):
    q, k, v = (F.linear(w["x"], w[name]).unflatten(-1, (-1, head_dim)).transpose(1, 2) for name in ("wq", "wk", "wv"))
    return F.linear(attend(q, k, v, "manual").transpose(1, 2).flatten(2), w["wo"])


REGIONS = {
    "row-bias": ({"x": -1, "weight": 1, "bias": None}, lambda w: F.linear(w["x"], w["weight"], w["bias"])),
    "parallel-mlp": ({"x": None, "up": 0, "down": 1, "up_bias": 0, "down_bias": None}, mlp),
    "parallel-attention": ({"x": None, "wq": 0, "wk": 0, "wv": 0, "wo": 1}, attention),
    "vocab-embedding": ({"weight": 0}, lambda w, tokens, _: F.embedding(tokens, w["weight"])),
    "vocab-cross-entropy": (
        {"logits": -1},
        lambda w, targets, *_: F.cross_entropy(w["logits"].flatten(0, 1), targets.flatten()),
    ),
}


def given(exercise, args):
    """What one rank is given: its inputs by name, the gradient that comes back, and the rest."""
    if exercise == "row-bias":
        return dict(zip(("x", "weight", "bias"), args[1:], strict=True)), args[0], ()
    if exercise in ("parallel-mlp", "parallel-attention"):
        return {"x": args[0], **args[-1]}, args[1], args[2:-1]
    if exercise == "vocab-embedding":
        return {"weight": args[2][1]}, args[1], (args[0], args[2][0])
    return {"logits": args[3]}, None, args[:3]


@each_of("exercise", REGIONS)
def test_a_worked_answer_is_what_one_process_computes(exercise):
    dims, whole = REGIONS[exercise]

    def joined(pieces):
        return {
            name: pieces[0][name] if dim is None else torch.cat([p[name] for p in pieces], dim)
            for name, dim in dims.items()
        }

    case = judging(exercise).cases(exercises.card(exercise).params, random.Random(1))[0]
    inputs = [given(exercise, args)[0] for args in case.per_rank]
    _, gradient, rest = given(exercise, case.per_rank[0])
    leaves = {name: each.clone().requires_grad_() for name, each in joined(inputs).items()}
    y = whole(leaves, *rest)
    y.backward(gradient)
    results = Worked(exercise).value(case)
    grads = joined([result["grads"] for result in results])
    torch.testing.assert_close(results[0]["y"], y.detach(), rtol=1e-4, atol=1e-4)
    for name, leaf in leaves.items():
        torch.testing.assert_close(grads[name], leaf.grad, rtol=1e-4, atol=1e-4)


@each_of("ranks", [2, 8, 64])
def test_seconds_of_a_layer_are_its_bytes_over_the_bandwidth(ranks):
    assert Worked("largest-tp")[0](512, 256, ranks, 1e9) == pytest.approx(tp_bytes_per_layer(512, 256, ranks) / 1e9)
