"""Chapter 01's exercises: canonical numbers, and worked answers against closed forms and the library."""

import math
import random

import numpy as np
import pytest
from contract.kit import graded, mistakes
from hypothesis import given
from hypothesis import strategies as st

from course_chapters.ch01 import walls
from course_chapters.ch01.exercises.judges import first_wall, predict_weeks, triage_six
from course_grader import exercises
from course_grader.judging import Worked, random_inputs
from course_grader.judging.worked import judged_variant
from course_lib.estimate import facts, memory
from course_lib.estimate.units import DAY, GB
from tests.tables import each_of

CARDS = {card.id: card for card in exercises.cards("01")}
DAYS, PLAN, MONEY, POINT, WALL = map(
    Worked, ("train-days-7b", "years-to-weeks", "mfu-waste", "cost-sensitivity", "first-wall")
)


def run_of(exercise, *names):
    """The numbers of the public variant, in the order of the function's arguments."""
    return [CARDS[exercise].params[name] for name in names]


def money(baseline):
    return MONEY(*run_of("mfu-waste", "spent", "usd_per_hour", "mfu"), {"it": baseline})["it"]


STATE, ROOM = Worked("state-13b")[0], Worked("state-13b")[2]
RUN = run_of("train-days-7b", "params", "tokens", "flops", "utilization")
SHEET = [{"precision": "BF16", "tflops": facts.device("H100 SXM").dense_flops / 1e12, "sparsity": False}]
ARTICLE = run_of("mfu-bug", "params", "sequence", "batch", "steps", "hours", "gpus", "flops")
NUMBERS = {  # what the chapter says -> what the worked answers give
    "208 GB": (208, STATE(13e9) / GB),
    "3 GPUs": (3, Worked("state-13b")[1](208e9, 80e9)),
    "10.7, 28 and 54 GB left": ([10.7, 28, 54], [ROOM(208e9, 80e9, gpus) / GB for gpus in (3, 4, 8)]),
    "1,966 days": (1966, DAYS[0](*RUN)),
    "66 GPUs": (66, DAYS[1](*RUN, 30)),
    "lost against the peak": ((6.5e6, 1.857), money(1.0)),
    "lost against 50 %": ((3e6, 0.4286), money(CARDS["mfu-waste"].params["achievable"])),
    "lost against 45 %": ((2.22e6, 0.2857), money(CARDS["mfu-waste"].params["typical"])),
    "10.1 years": (10.1, Worked("which-peak")(*run_of("which-peak", "params", "tokens"), SHEET)[1]),
    "under 3 % for 45 %": (0.02836, Worked("mfu-bug")(*ARTICLE[:4], ARTICLE[4] * 3600, *ARTICLE[5:])),
    "a point": (215_800, POINT(*run_of("cost-sensitivity", "params", "tokens", "flops", "usd_per_hour", "mfu"))),
    "25.7 weeks": (25.7, predict_weeks.weeks_truth(CARDS["predict-weeks"].params)),
    "an audited step and runs": (
        [8.60, 499, 5.85, 43.4, 10.1, 24.3],
        [number for number, _, _ in Worked("audit-one-step")().values()],
    ),
    "audited lengths and losses": (
        [66.0, 78.4, 0.20, 1168, 1966, 3.0],
        [number for number, _, _ in Worked("audit-run-length")().values()],
    ),
}


@each_of("number, got", NUMBERS.values(), ids=list(NUMBERS))
def test_the_numbers_we_know(number, got):
    assert got == pytest.approx(number, rel=5e-3)


def test_the_reveal_of_the_predicted_run_says_how_long_it_takes():
    assert "25.7" in predict_weeks._weeks_reveal(CARDS["predict-weeks"].params)


def test_a_rounded_number_of_an_audit_is_called_after_its_mistake():
    given = Worked("audit-one-step")() | {"llama3-17-days": (17.4, "wrong", "missing factor")}
    assert mistakes(graded("audit-one-step", lambda: given)) == {"mfu-forgotten"}


# --- worked answers against other routes -------------------------------------------------------------------


@each_of("letter", memory.CONVENTIONS)
def test_the_state_agrees_with_the_library(letter):
    with judged_variant("state-13b", {**CARDS["state-13b"].params, "convention": letter}):
        assert STATE(13e9) == pytest.approx(memory.state_bytes(13e9, letter))


def fewest(law, alone, keep, weeks):
    """The GPUs of a run that takes `alone` weeks on one GPU."""
    with judged_variant("years-to-weeks", {**CARDS["years-to-weeks"].params, "law": law}):
        return PLAN(1.0, alone * 7 * DAY / 6, 1.0, 1.0, keep, 1, weeks)[1]


@given(keep=st.floats(0.6, 1.0), alone=st.floats(0.01, 3e4), weeks=st.floats(0.05, 500))
def test_the_fewest_gpus_with_a_loss_per_doubling_match_the_closed_form(keep, alone, weeks):
    exact = (alone / weeks) ** (1 / (1 + math.log2(keep)))
    assert max(1.0, exact * (1 - 1e-9)) <= fewest("doubling", alone, keep, weeks) <= max(1.0, exact * (1 + 1e-9)) + 1


@given(keep=st.floats(0.5, 1.0), alone=st.floats(0.01, 3e4), weeks=st.floats(0.05, 500))
def test_the_fewest_gpus_under_a_serial_part_match_the_closed_form_or_do_not_exist(keep, alone, weeks):
    n = fewest("serial", alone, keep, weeks)
    spare = weeks / alone - (1 - keep)
    if n is None:
        assert spare <= 1e-9
    elif spare > 1e-6:
        assert max(1.0, keep / spare * (1 - 1e-6)) <= n <= max(1.0, keep / spare * (1 + 1e-6)) + 1


def library_job(job):
    same = ("params", "tokens", "step_tokens", "reserve", "mfu", "deadline_s", "latest_s", "sharded")
    return walls.Job(
        **{name: job[name] for name in same},
        devices=job["gpus"],
        device_memory=job["gpu_memory"],
        flops_per_s=job["dense_flops"],
        target_step_s=job["step_s"],
        convention="B",
    )


def test_the_worked_answer_agrees_with_the_library_on_the_first_wall_of_500_jobs():
    draw = random.Random("walls")
    fixes, hit = set(), set()
    for job in (first_wall.random_job(draw) for _ in range(500)):
        wall, fix, gpus = WALL(job)
        fixes.add(fix)
        hit.add(wall)
        assert wall == (walls.walls(library_job(job)).first or "none")
        changed = {**job, "sharded": job["sharded"] or fix in ("shard state", "more GPUs"), "gpus": gpus}
        if fix == "longer deadline":
            changed["deadline_s"] = job["latest_s"]
        assert max(walls.walls(library_job(changed)).loads.values()) <= 1 + 1e-9
        if fix == "more GPUs":  # one fewer would not do
            fewer = walls.walls(library_job({**changed, "gpus": gpus - 1}))
            assert gpus > job["gpus"] and max(fewer.loads.values()) > 1
    assert fixes == {"nothing", "shard state", "longer deadline", "more GPUs"}
    assert hit == {"none", "memory", "compute", "deadline"}


def test_triage_agrees_with_the_library_on_training_and_latency():
    draw = random.Random("triage")
    for _ in range(200):
        card = draw.choice([one for one in facts.devices().values() if one.get("dense_flops")])
        size, tokens, rate = (random_inputs.log_uniform(draw, *ends) for ends in ((1e8, 1e11), (1e9, 1e13), (1, 300)))
        job = triage_six._project(size, card, 0.4, tokens=tokens, qps=1.0, user_tokens_s=rate, replica_qps=2.0)
        library = walls.triage(
            size, card, tokens=tokens, deadline_s=job["deadline_s"], mfu=0.4, qps=1e-9, tokens_per_s_per_user=rate
        )
        assert tuple(triage_six.triage_walls(job)) == library.hit


@each_of("seed", [None, *map(str, range(20))])
def test_what_is_shown_of_every_variant_hits_the_walls_that_it_is_meant_to(seed):
    six, five = (
        card.params if seed is None else card.variant(seed) for card in (CARDS["triage-six"], CARDS["first-wall"])
    )
    hit = [triage_six.triage_walls(job) for _, job in triage_six.six_projects(six)]
    assert hit == [[], ["memory"], ["deadline"], ["memory", "deadline"], ["latency"], ["traffic"]]
    with judged_variant("first-wall", five):
        shown = [WALL(job) for job in first_wall.shown_jobs(five)]
    assert [wall for wall, _, _ in shown] == ["none", "memory", "deadline", "compute", "memory"]
    assert [fix for _, fix, _ in shown] == ["nothing", "shard state", "longer deadline", "more GPUs", "more GPUs"]


# --- right answers in other clothes ------------------------------------------------------------------------

CLOTHES = {
    "float counts": lambda n, m: float(max(1, math.ceil(n / m))),
    "numpy counts": lambda n, m: np.ceil(np.float64(n) / m).clip(1),
    "numpy whole numbers": lambda n, m: np.int32(max(1, math.ceil(n / m))),
    "arrays without a dimension": lambda n, m: np.array(max(1, math.ceil(n / m))),
}


@each_of("fewest", CLOTHES.values(), ids=list(CLOTHES))
def test_a_count_may_be_any_kind_of_number(fewest):
    report = graded("state-13b", lambda p: np.float32(1) * 0 + 16.0 * p, fewest, lambda n, m, g: m - n / g)
    assert report.passed, [v.message for v in report.verdicts if not v.ok]


def test_days_within_a_thousandth_pass():
    assert graded("train-days-7b", lambda *row: float(f"{DAYS[0](*row):.4g}"), DAYS[1]).passed
    assert not graded("train-days-7b", lambda *row: float(f"{DAYS[0](*row):.2g}"), DAYS[1]).passed


def test_a_number_of_five_thousand_digits_is_described_not_printed():
    report = graded("state-13b", lambda p: 10**5000, lambda n, m: [10**5000], lambda n, m, g: -(10**5000))
    assert report.points == 0 and all(len(v.message) < 300 for v in report.verdicts)
