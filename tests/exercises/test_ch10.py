"""Chapter 10's exercises: the bound is one, and oracles are the real thing."""

import math
import random

import pytest
from contract.kit import graded, mistakes
from hypothesis import given, settings
from hypothesis import strategies as st

from course_chapters.ch10.exercises.judges.beat_1f1b import SETTINGS, bound, closed, lengths
from course_chapters.ch10.exercises.judges.predict_idle import idle_days
from course_chapters.ch10.exercises.judges.shared import shuffled
from course_chapters.ch10.exercises.probes import MOST
from course_chapters.ch10.exercises.read_a_gantt import NAMES
from course_chapters.ch10.published_pipelines import bubble_formula
from course_grader import exercises
from course_grader.judging import Worked, judging
from course_lib.parallel.planner.bubbles import idle, idle_over_work
from course_lib.parallel.schedules import gpipe, one_f_one_b, peak_activations, schedule_of, zb_h1
from course_lib.parallel.timeline import play
from tests.tables import each_of

# --- what comes back is never trusted


@each_of("name", ["three-schedules", "interleaved-rows", "beat-1f1b"])
def test_enormous_answers_are_refused_with_their_size(name):
    card = exercises.card(name)

    def flood(*_):
        return [[("F", 0, 0)] * MOST] * 50

    report = graded(card.id, *[flood] * len(card.answers))
    assert mistakes(report) >= {"too-many-operations"} and report.points == 0


# --- the bound

SMALL = [(p, m, times) for p, m in ((2, 2), (2, 3), (3, 2)) for times in SETTINGS]


def best_of_all(p, m, times):
    """The earliest end of any schedule that keeps the memory, by exhaustive search over active schedules."""
    took, total = dict(zip("FIW", times, strict=True)), 3 * m
    best = math.inf
    seen: dict = {}

    def go(now, count, done):
        nonlocal best
        if all(f + i + w == total for f, i, w in count):
            best = min(best, max(now))
            return
        work = [sum((m - c) * t for c, t in zip(row, times, strict=True)) for row in count]
        if max(a + b for a, b in zip(now, work, strict=True)) >= best - 1e-9:
            return
        key = (count, tuple(round(x, 9) for x in now), tuple(sorted((k, round(v, 9)) for k, v in done.items())))
        if key in seen:
            return
        seen[key] = True
        moves = []
        for s in range(p):
            f, i, w = count[s]
            if f < m and f - w < p and (s == 0 or ("F", s - 1, f) in done):
                moves.append((max(now[s], done.get(("F", s - 1, f), 0.0)), "F", s, f))
            source = ("F", s, i) if s == p - 1 else ("I", s + 1, i)
            if i < f and source in done:
                moves.append((max(now[s], done[source]), "I", s, i))
            if w < i:
                moves.append((now[s], "W", s, w))
        if not moves:
            return
        ends = min(start + took[kind] for start, kind, *_ in moves)
        for start, kind, s, x in moves:
            if start >= ends - 1e-9:
                continue  # something else would fit before it
            row = list(count[s])
            row["FIW".index(kind)] += 1
            later = list(now)
            later[s] = start + took[kind]
            go(tuple(later), (*count[:s], tuple(row), *count[s + 1 :]), {**done, (kind, s, x): later[s]})

    go((0.0,) * p, ((0, 0, 0),) * p, {})
    return best


@each_of("p, m, times", SMALL)
def test_no_schedule_ends_before_the_bound_and_the_best_one_reaches_it(p, m, times):
    assert best_of_all(p, m, times) == pytest.approx(bound(p, m, times))


@settings(max_examples=60, deadline=None)
@given(
    p=st.integers(2, 6), m=st.integers(1, 8), seed=st.integers(0, 2**31), times=st.tuples(*[st.floats(0.1, 4.0)] * 3)
)
def test_orders_without_a_plan_never_beat_the_bound(p, m, seed, times):
    rng = random.Random(seed)
    rows = [[] for _ in range(p)]
    for rank, row in enumerate(shuffled(p, m, rng)):
        owed = []
        for kind, s, x in row:
            rows[rank].append(("I" if kind == "B" else kind, s, x))
            owed += [("W", s, x)] * (kind == "B")
            if owed and rng.random() < 0.6:
                rows[rank].append(owed.pop(0))
        rows[rank] += owed
    schedule = schedule_of(rows, m)
    if max(peak_activations(schedule)) <= p:
        assert play(schedule, lengths(times)).makespan >= bound(p, m, times) - 1e-9


@settings(max_examples=80, deadline=None)
@given(p=st.integers(2, 8), more=st.integers(0, 12), times=st.sampled_from(SETTINGS))
def test_zb_h1_reaches_the_bound_at_equal_memory_and_1f1b_is_where_points_begin(p, more, times):
    m = p + more
    assert max(peak_activations(zb_h1(p, m))) <= p
    assert closed(zb_h1(p, m), times) == pytest.approx(1.0)
    assert closed(one_f_one_b(p, m), times) == pytest.approx(0.0)


def test_the_bound_is_the_published_bubble_where_all_three_are_alike():
    formula = bubble_formula("ZB-H1")
    for p, m in ((4, 8), (8, 16)):
        assert bound(p, m, (1.0, 1.0, 1.0)) == 3 * m + formula.idle(PP=p, F=1, B=2, W=1, M=m)


# --- oracles against the real thing


@each_of("p, m", [(2, 3), (4, 8), (16, 64), (1, 4)])
def test_the_bubble_is_that_of_the_played_schedules(p, m):
    for generate in (gpipe, one_f_one_b):
        times = play(generate(p, m))
        assert times.bubble_fraction == pytest.approx(idle(p, m)) == Worked("pipeline-bubble")[0](p, m)
        assert times.bubble_over_ideal == pytest.approx(idle_over_work(p, m))


def test_the_predicted_loss_is_the_bubble_of_the_run():
    card = exercises.card("predict-idle")
    times = play(one_f_one_b(card.params["stages"], card.params["microbatches"]))
    assert idle_days(card.params) == pytest.approx(card.params["gpus"] * card.params["days"] * times.bubble_fraction)
    assert f"{idle_days(card.params):,.0f} GPU-days" in judging(card.id).reveal(card.params)


def test_the_charts_are_of_all_names_and_keep_what_their_card_promises():
    card = exercises.card("read-a-gantt")
    for seed in range(6):
        cases = judging(card.id).cases(card.variant(str(seed)), random.Random(seed))
        assert {case.secret[0] for case in cases if case.kind == "values"} == set(NAMES)
        for case in cases:
            _, ranks, microbatches, _ = case.secret
            spans = case.args[0]
            assert microbatches > ranks >= 2
            assert list(spans) != sorted(spans, key=lambda span: span[1])
