"""Chapter 17's exercises: oracles agree with the library and with torch's own gradients, and every task can be solved
and survived."""

import math
import operator
import random

import numpy as np
import pytest
import torch

from course_chapters.ch17 import diagnosis
from course_chapters.ch17.exercises.diagnosis_exam import QUESTIONS
from course_chapters.ch17.exercises.first_remedy import REMEDIES
from course_chapters.ch17.exercises.judges.diagnosis_exam import key
from course_chapters.ch17.exercises.judges.first_remedy import drawn
from course_chapters.ch17.exercises.judges.one_sentence import bandwidth, exposed
from course_chapters.ch17.exercises.judges.pareto_front import telling
from course_chapters.ch17.exercises.judges.plan_rubric import broken, good
from course_chapters.ch17.exercises.judges.predict_slower_wire import slower_ratio
from course_chapters.ch17.exercises.judges.sturdiest_plan import NOW, best
from course_chapters.ch17.exercises.judges.sturdiest_plan import telling as telling_plans
from course_chapters.ch17.exercises.parallelism_table import STRATEGIES
from course_chapters.ch17.exercises.plan_rubric import LINES
from course_chapters.ch17.exercises.predict_slower_wire import WIRE_RUNS
from course_grader.judging import Worked
from course_grader.judging.cases import shown
from course_grader.judging.shipped import answers
from course_grader.judging.worked import judged_variant, run
from course_lib.operate import capstone
from course_lib.parallel import mesh, planner
from tests.tables import each_of


def test_each_remedy_is_drawn_and_one_byte_decides():
    rng = random.Random(1)
    first_remedy = Worked("first-remedy")
    for at in range(6):
        assert first_remedy(*drawn(rng, at)) == REMEDIES[at]
    for at in range(5):
        assert first_remedy(*drawn(rng, at, 0)) == REMEDIES[at] != first_remedy(*drawn(rng, at, -1))


def test_the_table_moves_what_formulas_and_the_library_say():
    model = {"parameters": 8e9, "layers": 32, "hidden": 4096, "kv": 1024, "tokens": 2**17}
    sent, state = Worked("parallelism-table")[0], Worked("parallelism-table")[1]
    moved = sent(model, 8)
    assert moved["fsdp"] == 1.5 * moved["dp"]
    with judged_variant("parallelism-table", {"reshard": "kept"}):
        assert sent(model, 8)["fsdp"] == moved["dp"]
    assert all(value == 0 for value in sent(model, 1).values())
    rows = {row.name: row for row in capstone.parallelisms()}
    assert rows["FSDP"].sent / rows["DP"].sent == pytest.approx(1.5, rel=0.01)
    assert set(moved) == set(state(model, 8)) == set(STRATEGIES)


def test_an_axis_uses_the_level_that_the_library_s_mesh_gives():
    axes = {"dp": (3, 1.0, 0.0), "pp": (2, 1.0, 0.0), "tp": (4, 1.0, 0.0)}
    levels = [(4, 3.0), (8, 2.0), (24, 1.0)]
    placed = mesh.Mesh({name: size for name, (size, _, _) in axes.items()})
    groups = {axis: placed.groups(axis) for axis in axes}
    for axis, found in groups.items():
        fits = [rate for units, rate in levels if all(len({rank // units for rank in group}) == 1 for group in found)]
        assert bandwidth(list(axes), (axes, levels), axis) == fits[0]
    hidden = ({"a": (2, 8.0, 3.0), "b": (2, 8.0, 9.0)}, [(2, 4.0), (4, 1.0)])
    assert exposed("in turn", ("b", "a"), hidden) == 0 < exposed("in turn", ("a", "b"), hidden)


def test_pure_sharding_has_nothing_to_fight_with_and_recomputation_repeats_half_of_the_messages():
    hsdp, recompute = Worked("two-that-fight")[0], Worked("two-that-fight")[1]
    pure = hsdp(70 * 10**9, 64, 64, 8, 450e9, 50e9, 8, 0.0)
    assert pure == pytest.approx(8 * 3 * 63 / 64 * 140e9 / 50e9)
    apart, shared = (hsdp(70 * 10**9, 64, size, 8, 450e9, 50e9, 1, 0.0) for size in (8, 16))
    assert shared > apart > 0
    without = recompute(80, 8192, 8192, 8, math.inf, 1e15)
    messages = recompute(80, 8192, 8192, 8, 450e9, 1e15) - without
    assert messages == pytest.approx(80 * 2 * 2 * 7 / 8 * 2 * 8192 * 8192 / 450e9)


@each_of("metric", ["seconds", "speed"])
def test_the_front_is_the_planner_s(metric):
    with judged_variant("pareto-front", {"metric": metric}):
        runs = telling(random.Random(2), metric, "", 9, 5)
        found = Worked("pareto-front")(runs)
    sign = 1 if metric == "seconds" else -1
    keep = planner.pareto(*np.array([(r["loss"], r["memory"], r["usd"], sign * r[metric]) for r in runs]).T)
    assert found == [run["name"] for run, kept in zip(runs, keep, strict=True) if kept]


def test_a_good_plan_fails_no_line_and_each_line_can_fail_alone():
    rng = random.Random(3)
    failing = Worked("plan-rubric")
    for billed in ("used", "all"):
        with judged_variant("plan-rubric", {"billed": billed}):
            assert failing(*good(rng)) == []
            assert [failing(*broken(rng, line)) for line in LINES] == [[line] for line in LINES]


def test_a_slower_wire_costs_something_and_less_than_its_factor():
    for model, cluster, sequences in WIRE_RUNS:
        run = {"model": model, "cluster": cluster, "sequences": sequences, "seq": 4096}
        assert 1.2 < slower_ratio({**run, "slower": 4}) < slower_ratio({**run, "slower": 12}) < 12


def test_the_plan_to_choose_has_the_least_score_of_those_that_run_today():
    def times(takes, limits):
        return math.inf if takes is None else max(map(operator.truediv, takes, limits))

    for ranking in ("changes", "worst"):
        with judged_variant("sturdiest-plan", {"ranking": ranking}):
            plans, limits = telling_plans(random.Random(4), "dead chosen")
            chosen = best(plans, limits)
        alive = [name for name in plans if all(map(operator.le, plans[name][NOW], limits[NOW]))]
        ratios = {name: {at: times(plans[name][at], limits[at]) for at in limits} for name in alive}
        counts = {name: -sum(each <= 1 for at, each in ratios[name].items() if at != NOW) for name in alive}
        scores = {name: (counts[name], max(ratios[name].values())) for name in alive}
        scores = {name: score if ranking == "changes" else score[::-1] for name, score in scores.items()}
        assert chosen == [name for name in alive if scores[name] == min(scores.values())]


def test_an_exam_has_twelve_faults_no_two_alike():
    for seed in ("exam-0", "exam-17"):
        assert len(set(key(seed))) == QUESTIONS and set(key(seed)) <= set(diagnosis.FAULTS)
    assert key("exam-0") != key("exam-17")


def test_the_gradient_is_autograd_s_and_with_one_batch_the_bug_is_right():
    coin = torch.Generator().manual_seed(5)
    ranks = [
        [(torch.randn(n, 3, generator=coin).double(), torch.randn(n, generator=coin).double()) for n in (4, 8)]
        for _ in range(2)
    ]
    w = torch.randn(3, generator=coin).double()
    every = [pair for batches in ranks for pair in batches]
    weight = w.clone().requires_grad_()
    means = torch.stack([((x @ weight - y) ** 2).mean() for x, y in every]).mean()
    rows = torch.cat([(x @ weight - y) ** 2 for x, y in every]).mean()
    step = Worked("accumulate-in-stages")
    both = shown("two batches", "values:many", per_rank=tuple((w, batches, 2) for batches in ranks))
    single = shown("one batch", "values:one", per_rank=tuple((w, batches[:1], 2) for batches in ranks))
    for weights, loss in (("batches", means), ("rows", rows)):
        with judged_variant("accumulate-in-stages", {"weights": weights}):
            assert torch.allclose(torch.autograd.grad(loss, weight)[0], step.value(both)[1])
    wrong = {each.name: each for each in answers("accumulate-in-stages")}
    for name in ("as it was", "reduced again"):
        assert torch.allclose(run(wrong[name], step.params, single).value[1], step.value(single)[1])
        assert not torch.allclose(run(wrong[name], step.params, both).value[1], step.value(both)[1])
