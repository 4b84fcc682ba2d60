"""Chapter 01's exercises: canonical numbers, and oracles against closed forms and the library."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from contract.kit import graded
from hypothesis import given
from hypothesis import strategies as st

from course_lib import exercises, facts, memory, walls
from course_lib.exercises.ch01.judges import (
    audit_one_step,
    audit_run_length,
    cost_sensitivity,
    first_wall,
    mfu_bug,
    mfu_waste,
    predict_weeks,
    state_13b,
    triage_six,
    years_to_weeks,
)
from course_lib.judging import draws as ch01_draws
from course_lib.units import DAY, GB

CARDS = {card.id: card for card in exercises.cards("01")}
SEEDS = [str(seed) for seed in range(50)]


# --- canonical numbers -----------------------------------------------------------------------------------


def test_13b_is_208_gb_on_3_gpus_with_room_of_10_7_28_and_54_gb():
    card = CARDS["state-13b"].params
    nbytes = state_13b.state_of(card["params"], card["convention"])
    assert nbytes == 208e9 and card["memory"] == 80e9 and nbytes / card["memory"] == 2.6
    assert state_13b.least_gpus(nbytes, card["memory"]) == 3
    assert [round((80e9 - nbytes / n) / GB, 1) for n in (3, 4, 8)] == [10.7, 28.0, 54.0]
    rooms = state_13b.JUDGING.cases(card, random.Random(0))[2]
    assert [row[2] for row in rooms.args[1]] == [3, 4, 8]


def test_7b_on_2t_tokens_is_1966_days_and_66_gpus():
    card = CARDS["train-days-7b"].params
    assert (card["params"], card["tokens"], card["flops"], card["utilization"]) == (7e9, 2e12, 989e12, 0.5)
    days = ch01_draws.days_alone(7e9, 2e12, 989e12, 0.5)
    assert round(days) == 1966 and math.isclose(days, 1965, rel_tol=1e-3) and math.ceil(days / card["days"]) == 66


@pytest.mark.parametrize(
    ("baseline", "lost", "more"), [(1.0, 6.5e6, 1.857), (0.5, 3.0e6, 0.4286), (0.45, 2.22e6, 0.2857)]
)
def test_35_per_cent_of_10_million_depends_on_the_baseline(baseline, lost, more):
    card = CARDS["mfu-waste"].params
    assert (card["spent"], card["mfu"], card["usd_per_hour"]) == (10e6, 0.35, 2.0)
    assert baseline in (1.0, card["achievable"], card["typical"])
    got = mfu_waste.money("dollars", 10e6, 2.0, 0.35, baseline)
    assert got == pytest.approx((lost, more), rel=2e-3)
    assert mfu_waste.money("GPU-hours", 5e6, 2.0, 0.35, baseline) == pytest.approx(got)


@pytest.mark.parametrize(("sparse", "years"), [(False, 10.1), (True, 5.0)], ids=["dense", "sparse"])
def test_gpt3_takes_10_1_years_dense_and_5_sparse(sparse, years):
    card = CARDS["which-peak"].params
    device = facts.device(card["device"])
    peak = device.sparse_flops if sparse else device.dense_flops
    assert round(6 * card["params"] * card["tokens"] / peak / (365.25 * DAY), 1) == years


def test_the_article_s_45_per_cent_are_under_3():
    card = CARDS["mfu-bug"].params
    row = [card[name] for name in ("params", "sequence", "batch", "steps")]
    mfu = mfu_bug.true_mfu("all", *row, card["hours"] * 3600, card["gpus"], card["flops"])
    assert round(mfu * card["gpus"], 3) == pytest.approx(0.454) and mfu == pytest.approx(0.02836, rel=1e-3)


AUDITED = [
    ("step-70b-8ms", 8.60),
    ("llama70b-500-years", 499),
    ("llama70b-6-months", 5.85),
    ("llama3-17-days", 43.4),
    ("gpt3-5-years", 10.1),
    ("cluster-24-eflops", 24.3),
    ("54-days-by-flops", 66.0),
    ("54-days-by-hours", 78.4),
    ("forty-percent-burns-sixty", 0.20),
    ("llama3-1170-years", 1168),
    ("seven-b-1966-days", 1966),
    ("waste-3-million", 3.0),
]


@pytest.mark.parametrize(("item", "number"), AUDITED, ids=[name for name, _ in AUDITED])
def test_audited_statements_have_the_numbers_we_know(item, number):
    assert (audit_one_step.STEP_KEYS | audit_run_length.RUN_KEYS)[item].number == pytest.approx(number, rel=5e-3)


def test_one_point_of_mfu_is_worth_two_hundred_thousand_dollars():
    card = CARDS["cost-sensitivity"].params
    row = [card[name] for name in ("params", "tokens", "flops", "usd_per_hour", "mfu")]
    saved = ch01_draws.days_alone(*row[:3], 0.4) * 24 * 2.0 * (1 - 0.40 / 0.41)
    assert cost_sensitivity.run_cost(*row) - cost_sensitivity.run_cost(*row[:4], 0.41) == pytest.approx(saved)
    assert saved == pytest.approx(215_800, rel=1e-3)


def test_the_predicted_run_takes_half_a_year():
    assert predict_weeks.weeks_truth(CARDS["predict-weeks"].params) == pytest.approx(25.7, rel=2e-3)
    assert "25.7" in predict_weeks._weeks_reveal(CARDS["predict-weeks"].params)


# --- oracles against other routes ------------------------------------------------------------------------

POSITIVE = st.floats(1e6, 1e13, allow_nan=False)


@given(nbytes=POSITIVE, card=st.floats(1e9, 3e11))
def test_the_fewest_gpus_hold_it_and_one_fewer_do_not(nbytes, card):
    n = state_13b.least_gpus(nbytes, card)
    assert Fraction(nbytes) <= n * Fraction(card) and (n == 1 or Fraction(nbytes) > (n - 1) * Fraction(card))


@pytest.mark.parametrize("letter", memory.CONVENTIONS)
def test_the_state_oracle_agrees_with_the_library(letter):
    assert state_13b.state_of(13e9, letter) == pytest.approx(memory.state_bytes(13e9, letter))


@given(keep=st.floats(0.6, 1.0), alone=st.floats(0.01, 3e4), weeks=st.floats(0.05, 500))
def test_the_fewest_gpus_with_a_loss_per_doubling_match_the_closed_form(keep, alone, weeks):
    n = years_to_weeks.fewest_for("doubling", alone, keep, weeks)
    exact = (alone / weeks) ** (1 / (1 + math.log2(keep)))
    assert max(1.0, exact * (1 - 1e-9)) <= n <= max(1.0, exact * (1 + 1e-9)) + 1


@given(keep=st.floats(0.5, 1.0), alone=st.floats(0.01, 3e4), weeks=st.floats(0.05, 500))
def test_the_fewest_gpus_under_a_serial_part_match_the_closed_form_or_do_not_exist(keep, alone, weeks):
    n = years_to_weeks.fewest_for("serial", alone, keep, weeks)
    spare = weeks / alone - (1 - keep)
    if n is None:
        assert spare <= 1e-9
    elif spare > 1e-6:
        assert max(1.0, keep / spare * (1 - 1e-6)) <= n <= max(1.0, keep / spare * (1 + 1e-6)) + 1


def library_job(job, letter="B"):
    return walls.Job(
        params=job["params"],
        tokens=job["tokens"],
        step_tokens=job["step_tokens"],
        devices=job["gpus"],
        device_memory=job["gpu_memory"],
        reserve=job["reserve"],
        flops_per_s=job["dense_flops"],
        mfu=job["mfu"],
        target_step_s=job["step_s"],
        deadline_s=job["deadline_s"],
        latest_s=job["latest_s"],
        sharded=job["sharded"],
        convention=letter,
    )


def test_the_brute_force_agrees_with_the_library_on_the_first_wall_of_500_jobs():
    draw = random.Random("walls")
    for job in (first_wall.random_job(draw, 16) for _ in range(500)):
        wall, fix, gpus = first_wall.solve(job, 16)
        assert wall == (walls.walls(library_job(job)).first or "none")
        changed = {**job, "sharded": job["sharded"] or fix in ("shard state", "more GPUs"), "gpus": gpus}
        if fix == "longer deadline":
            changed["deadline_s"] = job["latest_s"]
        assert max(walls.walls(library_job(changed)).loads.values()) <= 1 + 1e-9
        if fix == "more GPUs":  # one fewer would not do
            fewer = walls.walls(library_job({**changed, "gpus": gpus - 1}))
            assert gpus > job["gpus"] and max(fewer.loads.values()) > 1


def test_every_fix_and_every_mistake_comes_up_among_the_unseen_jobs():
    draw = random.Random("frequencies")
    jobs = [first_wall.random_job(draw, 16) for _ in range(200)]
    right = [first_wall.solve(job, 16) for job in jobs]
    assert {fix for _, fix, _ in right} == {"nothing", "shard state", "longer deadline", "more GPUs"}
    assert {wall for wall, _, _ in right} == {"none", "memory", "compute", "deadline"}
    for mistake in first_wall.MISTAKES:
        caught = sum(mistake.on(job, 16) != want for job, want in zip(jobs, right, strict=True))
        assert caught >= 5, mistake.name


def test_triage_agrees_with_the_library_on_training_and_latency():
    draw = random.Random("triage")
    for _ in range(200):
        card = draw.choice([one for one in facts.devices().values() if one.dense_flops])
        job = triage_six._project(
            ch01_draws.log_uniform(draw, 1e8, 1e11),
            card,
            0.4,
            tokens=ch01_draws.log_uniform(draw, 1e9, 1e13),
            qps=1.0,
            user_tokens_s=ch01_draws.log_uniform(draw, 1, 300),
            replica_qps=2.0,
        )
        library = walls.triage(
            job["params"],
            card,
            tokens=job["tokens"],
            deadline_s=job["deadline_s"],
            mfu=0.4,
            qps=1e-9,
            tokens_per_s_per_user=job["user_tokens_s"],
        )
        assert tuple(triage_six.triage_walls(job)) == library.hit


@pytest.mark.parametrize("seed", SEEDS[:10])
def test_the_six_projects_are_what_they_are_called(seed):
    params = CARDS["triage-six"].variant(seed)
    hit = [triage_six.triage_walls(job) for _, job in triage_six.six_projects(params)]
    assert hit == [[], ["memory"], ["deadline"], ["memory", "deadline"], ["latency"], ["traffic"]]


@pytest.mark.parametrize("seed", SEEDS[:20])
def test_the_shown_jobs_of_every_variant_show_each_fix(seed):
    params = CARDS["first-wall"].variant(seed)
    shown = [first_wall.solve(job, params["bytes_per_param"]) for job in first_wall.shown_jobs(params)]
    assert [wall for wall, _, _ in shown] == ["none", "memory", "deadline", "compute", "memory"]
    assert [fix for _, fix, _ in shown] == ["nothing", "shard state", "longer deadline", "more GPUs", "more GPUs"]


# --- right answers in other clothes ------------------------------------------------------------------------


def days(p, d, f, u):
    return 6 * p * d / (f * u) / DAY


CLOTHES = [
    ("float counts", lambda n, m: float(max(1, math.ceil(n / m)))),
    ("numpy counts", lambda n, m: np.ceil(np.float64(n) / m).clip(1)),
    ("numpy whole numbers", lambda n, m: np.int32(max(1, math.ceil(n / m)))),
    ("arrays without a dimension", lambda n, m: np.array(max(1, math.ceil(n / m)))),
]


@pytest.mark.parametrize("fewest", [c[1] for c in CLOTHES], ids=[c[0] for c in CLOTHES])
def test_a_count_may_be_any_kind_of_number(fewest):
    report = graded("state-13b", lambda p: np.float32(1) * 0 + 16.0 * p, fewest, lambda n, m, g: m - n / g)
    assert report.passed, [v.message for v in report.verdicts if not v.ok]


def test_days_within_a_thousandth_and_years_of_365_days_pass():
    gpus = [lambda p, d, f, u, t: math.ceil(days(p, d, f, u) / t)]
    assert graded("train-days-7b", lambda *row: float(f"{days(*row):.4g}"), *gpus).passed
    assert not graded("train-days-7b", lambda *row: float(f"{days(*row):.2g}"), *gpus).passed


# --- judges never raise ------------------------------------------------------------------------------------


def test_a_number_of_five_thousand_digits_is_described_not_printed():
    report = graded("state-13b", lambda p: 10**5000, lambda n, m: [10**5000], lambda n, m, g: -(10**5000))
    assert report.points == 0 and all(len(v.message) < 300 for v in report.verdicts)
