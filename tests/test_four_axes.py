"""The file that trains on four axes against the whole model: losses, norms, every gradient and weight; and what it
sends."""

from dataclasses import replace
from functools import cache
from math import prod
from pathlib import Path

import pytest
import torch

from course_chapters.ch13.parity import sent_along, whole_model
from course_lib.cluster import RankError, simulate
from course_lib.cluster.parity import adam_tolerance, tolerance
from course_lib.estimate.memory import Layout
from course_lib.model import text
from course_lib.model.transformer import Config
from course_lib.parallel import four_axes, planner
from course_lib.parallel.four_axes import AXES, Job, cut_along, stage_of, train
from course_lib.parallel.mesh import Mesh
from course_lib.parallel.tensor import tp_bytes_per_step
from course_runs.real_ranks import launch
from tests.patience import patience
from tests.tables import each_of

SMALL = Job(config=Config(layers=2, hidden=16, heads=4, kv_heads=2, seq_len=8), sequences=4, steps=3)
DEEP = replace(SMALL, config=replace(SMALL.config, layers=4), steps=2)
WIDE = replace(SMALL, config=replace(SMALL.config, layers=1, kv_heads=4), steps=2)
ODD = Job(config=Config(layers=3, hidden=12, heads=6, kv_heads=3, ffn=18, vocab=63, seq_len=12), sequences=6, steps=2)
ALL = {"dp": 2, "pp": 2, "cp": 2, "tp": 2}

MESHES = [
    *(({axis: 2}, SMALL) for axis in AXES),
    ({"pp": 4}, DEEP),
    *(({axis: 4}, WIDE) for axis in ("cp", "tp")),
    *(({one: 2, two: 2}, SMALL) for place, one in enumerate(AXES) for two in AXES[place + 1 :]),
    ({"dp": 3, "pp": 1, "cp": 2}, replace(ODD, microbatches=1)),
    ({"pp": 3, "tp": 3}, replace(ODD, microbatches=3)),
    ({}, replace(SMALL, microbatches=4)),
    (ALL, SMALL),
]


@cache
def whole(job):
    """The whole model's training, the largest clipped gradient of all steps, and each number's smallest one."""
    runs = [whole_model(replace(job, steps=steps)) for steps in range(1, job.steps + 1)]
    largest = max(grad.abs().max().item() for run in runs for grad in run.gradients.values())
    smallest = {name: torch.stack([run.gradients[name].abs() for run in runs]).amin(0) for name in runs[0].weights}
    return runs[-1], largest, smallest


def own_part(name, tensor, at, mesh):
    dim = cut_along(name)
    return tensor if dim is None else tensor.chunk(mesh.sizes["tp"], dim)[at["tp"]]


def compare(results, sizes, job):
    """Whether every rank holds its part of what one process has, but for roundings of sums over the batch's tokens."""
    mesh = Mesh({axis: sizes.get(axis, 1) for axis in AXES})
    want, largest, smallest = whole(job)
    terms = job.sequences * job.config.seq_len
    off = tolerance(job.dtype, terms, job.steps)
    assert len(results) == mesh.size
    seen = {}
    for number, got in enumerate(results):
        at = mesh.coordinates(number)
        assert got.losses == results[0].losses and got.norms == results[0].norms
        assert got.losses == pytest.approx(want.losses, rel=off) and got.norms == pytest.approx(want.norms, rel=off)
        here = {name for name in want.weights if stage_of(name, job.config, mesh.sizes["pp"]) == at["pp"]}
        assert got.weights.keys() == got.gradients.keys() == here
        for name in here:
            grad, weight = (own_part(name, each[name], at, mesh) for each in (want.gradients, want.weights))
            assert got.gradients[name].dtype == got.weights[name].dtype == job.dtype
            assert (got.gradients[name] - grad).abs().max() <= off * largest, name
            allowed = adam_tolerance(
                job.dtype, terms, job.steps, job.lr, largest, own_part(name, smallest[name], at, mesh)
            )
            assert ((got.weights[name] - weight).abs() <= allowed).all(), name
            copy = seen.setdefault((name, at["tp"] if cut_along(name) is not None else None), got)
            assert torch.equal(copy.weights[name], got.weights[name]), f"replicas of {name} differ"
            assert torch.equal(copy.gradients[name], got.gradients[name]), f"gradients of {name} differ"
    assert {name for name, _ in seen} == want.weights.keys()


def named(case):
    return " ".join(f"{axis}{size}" for axis, size in case.items()) or "one rank" if isinstance(case, dict) else ""


@pytest.mark.slower
@each_of("sizes, job", MESHES, ids=named)
def test_every_mesh_trains_as_the_whole_model_does(sizes, job):
    compare(simulate(train, prod(sizes.values()), (sizes, job)).results, sizes, job)


def test_in_float32_it_differs_by_roundings_of_float32():
    job = replace(SMALL, dtype=torch.float32, steps=2)
    compare(simulate(train, 16, (ALL, job)).results, ALL, job)


def with_gaps(step, sequences, seq_len):
    """A batch in which ranks have different numbers of targets, and some none."""
    tokens, targets = text.batch(step, sequences, seq_len)
    targets[0], targets[1, : seq_len // 2], targets[-1, 1:] = -100, -100, -100
    return tokens, targets


def test_the_loss_is_a_mean_over_all_tokens_not_over_ranks_or_micro_batches():
    job, sizes = replace(SMALL, batch=with_gaps, steps=2), {"dp": 2, "cp": 2}
    compare(simulate(train, 4, (sizes, job)).results, sizes, job)


def test_clipping_takes_part():
    free, bound = (whole(replace(SMALL, max_norm=most))[0] for most in (1e9, 1.0))
    assert min(bound.norms) > 1 and free.losses[-1] != bound.losses[-1]
    compare(
        simulate(train, 2, ({"tp": 2}, replace(SMALL, max_norm=1e9))).results, {"tp": 2}, replace(SMALL, max_norm=1e9)
    )


@each_of(
    "sizes, job, words",
    ({"ep": 2}, SMALL, "no axis 'ep' here; the axes are dp, pp, cp, tp"),
    ({"dp": 3}, SMALL, "dp=3 needs a multiple of 6 sequences for 2 micro-batches; there are 4"),
    ({"pp": 3}, SMALL, "pp=3 needs a multiple of 3 layers; there are 2"),
    ({"cp": 3}, SMALL, "cp=3 needs a multiple of 6 tokens in a sequence, two blocks a rank; there are 8"),
    ({"tp": 3}, SMALL, "tp=3 needs a multiple of 3 heads; there are 4"),
    ({"tp": 4}, SMALL, "tp=4 needs a multiple of 4 key-value heads; there are 2"),
    ({"tp": 2}, replace(SMALL, config=replace(SMALL.config, ffn=33)), "2 columns of the MLP; there are 33"),
    ({"tp": 2}, replace(SMALL, config=replace(SMALL.config, vocab=63)), "2 tokens in the vocabulary; there are 63"),
    ({}, replace(SMALL, config=replace(SMALL.config, tied=True)), "Tied, biases, dropout"),
    ({}, replace(SMALL, config=replace(SMALL.config, dropout=0.1)), "Tied, biases, dropout"),
)
def test_what_cannot_be_divided_is_refused_in_a_sentence(sizes, job, words):
    with pytest.raises(RankError, match=words):
        simulate(train, prod(sizes.values()), (sizes, job))


def test_a_mesh_of_another_size_is_refused():
    with pytest.raises(RankError, match="has 4 ranks, and 2 run this program"):
        simulate(train, 2, ({"tp": 4}, WIDE))


@each_of("sizes", [{"dp": 2}, {"pp": 2}, {"cp": 4}, {"tp": 2}, {"dp": 2, "cp": 2}, ALL], ids=named)
def test_bytes_by_axis_are_those_that_the_chapters_and_the_planner_count(sizes):
    job = SMALL
    width, one = job.dtype.itemsize, job.config
    dp, pp, cp, tp = (sizes.get(axis, 1) for axis in AXES)
    got = sent_along(sizes, job)
    asked = planner.Job(
        model=one, seq=one.seq_len, sequences=job.sequences, software=planner.Software(split_messages=False)
    )
    where = Layout(tp=tp, cp=cp, pp=pp, dp=dp, microbatches=job.microbatches)
    said = {axis: float(each) for axis, each in planner.traffic(asked, where, width, gradient=width).items()}
    assert got["cp"] == said["cp"] and got["pp"] == said["pp"]
    tensor = tp_bytes_per_step(one, job.sequences // dp, one.seq_len // cp, tp, element_bytes=width, loss_bytes=width)
    assert got["tp"] == pytest.approx(tensor.total / pp) and tensor.layers / pp == pytest.approx(said["tp"])
    held = [  # numbers of the parameters of a (stage, tp rank), once for each
        sum(
            part.numel() // (1 if cut_along(name) is None else tp)
            for name, part in whole(job)[0].weights.items()
            if stage_of(name, one, pp) == stage
        )
        for stage in range(pp)
    ]
    replicas = dp * cp
    assert got["dp"] == 2 * (replicas - 1) / replicas * width * sum(held) / pp
    if pp == 1:
        assert got["dp"] == pytest.approx(said["dp"], rel=0.02)  # the planner leaves the final norm out


def test_the_file_can_be_read_in_one_sitting():
    lines = Path(four_axes.__file__).read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 400 and max(map(len, lines)) <= 120


# --- real processes


@pytest.mark.slower
@pytest.mark.parametrize("sizes", [{"cp": 2}, {"pp": 2, "tp": 2}], ids=named)
def test_real_processes_train_as_the_whole_model_does(sizes):
    results = launch(train, prod(sizes.values()), args=(sizes, SMALL), timeout=patience(120)).results
    compare(results, sizes, SMALL)
