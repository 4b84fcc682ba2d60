"""Chapter 15's exercises on machines and rates: oracles are the library's, evidence's and the papers', cases mean what they say."""

import math
import random
import statistics
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib import collectives, compute, exercises, facts
from course_lib.exercises import killmatrix
from course_lib.exercises.ch15.cards import links as ch15_links
from course_lib.exercises.ch15.cards.links_audit import ITEMS
from course_lib.exercises.ch15.cards.links_more import CAUSES, GROWTH
from course_lib.exercises.ch15.judges import links_bus as bus
from course_lib.exercises.ch15.judges import links_logs as rates
from course_lib.exercises.ch15.judges import links_rented as machines
from course_lib.exercises.ch15.judges import links_scaling as scalings
from course_lib.exercises.ch15.judges import links_sweeps as sweeps
from course_lib.exercises.ch15.judges.links import JUDGINGS
from course_lib.exercises.ch15.judges.links_audits import KEYS
from course_lib.exercises.ch15.links_work import as_run, peaks_of
from course_lib.facts import scaling
from course_lib.grading.judge import grade
from course_lib.grading.worker.runners import InProcess
from course_lib.judging import judging
from course_lib.records import Outcome
from course_lib.roofline import fit_alpha_beta
from course_lib.runs import gates, look
from course_lib.runs.counting import ring_sent
from course_lib.runs.reading import recorded, recorded_names

CARDS = ch15_links.CARDS
SEEDS = [f"student-{n}" for n in range(3)]
by_card = pytest.mark.parametrize("card", CARDS, ids=lambda card: card.id)


@cache
def shipped(exercise):
    return killmatrix.read_bank(killmatrix.BANK / "ch15" / f"{exercise}.py")


def answers(exercise, sort="right"):
    return [
        (each.name, killmatrix.names_of(each.source, exercises.card(exercise).answers))
        for each in shipped(exercise)
        if each.sort == sort
    ]


def wrong_of(found):
    return [v for v in found if not v.ok]


# --- variants and unseen cases


@pytest.mark.parametrize("seed", SEEDS)
@by_card
def test_right_answers_pass_whatever_is_drawn(card, seed):
    params = card.params if card.structural else card.variant(seed)
    for name, given_ in answers(card.id):
        report = grade(card, InProcess(*given_), params=params, secret=seed)
        assert report.passed, (name, wrong_of(report.verdicts))


@by_card
def test_wrong_answers_fail_whatever_cases_are_drawn(card):
    for name, given_ in answers(card.id, "wrong"):
        assert not grade(card, InProcess(*given_), secret="another").passed, name


def test_the_other_law_of_growth_is_told_apart():
    card = exercises.card("scaling-fit")
    params = card.variant("student")
    assert params["growth"] == "servers" and set(GROWTH) == {"doublings", "servers"}
    public = grade(card, InProcess(*answers(card.id)[0][1]), params=params)
    assert not public.passed and "public-form" in {v.mistake for v in public.verdicts}
    own = (lambda rows: _law("servers", rows)), (lambda rows, ranks: scalings.efficiency(rows, "servers", ranks))
    assert grade(card, InProcess(*own), params=params).passed


def _law(growth, rows):
    kind = scalings.kind_of(rows)
    return ("mixed",) if kind == "mixed" else (kind, *scalings.constants(rows, growth))


# --- what comes back is never trusted

LOOP: list = []
LOOP.append([LOOP])
JUNK = [
    None,
    True,
    3,
    -1.0,
    math.nan,
    10**400,
    "refuse",
    "strong",
    b"x",
    [],
    (),
    {},
    {"a": 1},
    LOOP,
    object(),
    ("a", {}),
    ({}, "go"),
    [None] * 8,
    [None] * 14,
    [({}, [])] * 14,
    [({"versions": []}, "go")] * 14,
    [("healthy", "no-go")] * 14,
    [(None, None, None)] * 8,
    [("x", 1, 2)] * 8,
    [[1e300, 0.0, -1]] * 8,
    [("no ring", None)] * 9,
    [([], math.inf)] * 9,
    [("strong", 1, 2, None)],
    [("weak",)],
    [["mixed", []]],
    [[[]]],
    [0.0] * 12,
    [10**400] * 4,
    [None] * 5,
    [{}] * 5,
    [{"said": {}, "others": {}, "everything": {}}] * 5,
    [{"said": None, "others": None, "everything": None}] * 5,
]


@by_card
def test_junk_gets_a_message_and_no_full_points(card):
    contract = judging(card.id)
    for case in contract.cases(card.params, random.Random(7)):
        for junk in JUNK:
            found = contract.verdicts(card.params, case, Outcome(state="answered", value=junk))
            assert wrong_of(found) and all(v.message for v in wrong_of(found)), (case.name, junk)


FIRST = [(card, case) for card in CARDS for case in JUDGINGS[card.id].cases(card.params, random.Random(3))[:3]]


@settings(max_examples=40, deadline=None)
@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.tuples(inner, inner)
            | st.dictionaries(st.text(max_size=3), inner, max_size=2)
        ),
        max_leaves=6,
    )
)
def test_no_value_upsets_the_judges(value):
    for card, case in FIRST:
        rows = len(case.args[1]) if case.args else 1
        for given_ in (value, [value] * rows, [(value, value)] * rows):
            judging(card.id).verdicts(card.params, case, Outcome(state="answered", value=given_))


# --- the machine

LIMITS = {name: tuple(pair) for name, pair in exercises.card("preflight-verdict").params["limits"].items()}
MEANT = {
    "a rank with another version": ("versions", "refuse"),
    "a GPU held down": ("clocks", "degraded"),
    "a pair of one group without NVLink": ("links", "refuse"),
    "groups without NVLink between them": ("links", "degraded"),
    "one GPU that copies slowly": ("copy", "degraded"),
    "one GPU that hardly copies": ("copy", "refuse"),
    "a slow all-reduce": ("all-reduce", "degraded"),
    "an all-reduce that crawls": ("all-reduce", "refuse"),
    "little shared memory": ("shared memory", "degraded"),
    "hardly any shared memory": ("shared memory", "refuse"),
    "few open files": ("open files", "degraded"),
    "hardly any open files": ("open files", "refuse"),
}


@pytest.mark.parametrize("tp", [2, 4])
def test_a_sound_machine_goes_and_each_fault_is_seen_on_its_line_alone(tp):
    for seed in range(10):
        row = machines.machine((), random.Random(seed), tp, LIMITS)
        assert set(machines.lines_of(*row).values()) == {"healthy"} and machines.run_of(machines.lines_of(*row)) == "go"
        for name, (line, word) in MEANT.items():
            lines = machines.lines_of(*machines.machine((name,), random.Random(seed), tp, LIMITS))
            assert lines[line] == word and all(other == "healthy" for key, other in lines.items() if key != line), name
    assert set(machines.FAULTS) == {*MEANT, "something not measured"}


def test_what_was_not_measured_is_degraded_and_never_healthy():
    for seed in range(10):
        lines = machines.lines_of(*machines.machine(("something not measured",), random.Random(seed), 4, LIMITS))
        assert sorted(lines.values()) == ["degraded"] + ["healthy"] * 6 and machines.run_of(lines) == "with care"


def test_bits_and_bandwidth_are_those_of_the_look_before_a_run():
    held = {bit for bit in (1 << place for place in range(9)) if look._reasons(bit)}
    assert sum(held) == machines.HELD and not any(look._reasons(bits) for bits in machines.HARMLESS)
    made = machines.sound(random.Random(1), LIMITS)
    done = made["all_reduce"]
    rate = collectives.bus_bandwidth("all_reduce", done["nbytes"], done["seconds"], 8)
    assert machines.bus_share(made) == pytest.approx(rate / float(facts.device("H100 SXM").link_one_way))


# --- the message


@pytest.mark.parametrize("kind", sweeps.KINDS)
def test_regimes_are_what_their_names_say(kind):
    for seed in range(20):
        rng = random.Random(seed)
        lines, edge = sweeps.regimes(kind, 12e-6, 9e9, rng)
        if kind == "one regime":
            assert lines == [(12e-6, 9e9)] and edge == math.inf
            continue
        before, after = (alpha + edge / beta for alpha, beta in lines)
        jump = {"a quicker way for large messages": 1.0}.get(kind)
        assert after == pytest.approx(before) if jump else after > 1.3 * before
        assert (lines[1][1] < lines[0][1]) == (kind == "slower beyond the cache")


@pytest.mark.parametrize("kind", sweeps.KINDS)
def test_our_own_fit_is_well_inside_what_is_asked_and_one_line_is_not(kind):
    off = {"cuts": [], "raw": [], "mean": []}
    for seed in range(8):
        rng = random.Random(seed)
        for skip in (2, 4, 8, None):
            (rows, nbytes), true = sweeps._asked(kind, 10e-6, 8e9, rng, skip, 16)
            assert nbytes not in {row["nbytes"] for row in rows}
            off["cuts"].append(abs(sweeps.predicted(rows, nbytes) / true - 1))
            off["raw"].append(abs(sweeps.one_line(rows, nbytes, raw=True) / true - 1))
            off["mean"].append(abs(sweeps.predicted(rows, nbytes, statistics.fmean) / true - 1))
    assert (
        max(off["cuts"]) < sweeps.SOLVABLE < sweeps.CLOSE / 2
        and max(off["raw"]) > sweeps.CLOSE
        and min(off["mean"]) > 0.15
    )


def test_in_one_regime_our_fit_is_the_librarys_line():
    lines, edge = sweeps.regimes("one regime", 2e-5, 1e10, random.Random(0))
    rows = sweeps.sweep(lines, edge, random.Random(4))
    alpha, beta = fit_alpha_beta(
        *zip(*sorted((row["nbytes"], statistics.median(row["seconds"])) for row in rows), strict=True)
    )
    for nbytes in (3e4, 3e6, 1e9):
        assert sweeps.predicted(rows, nbytes) == pytest.approx(alpha + nbytes / beta, rel=0.1)


@pytest.mark.parametrize("kind", ["all_reduce", "send"])
def test_recorded_sweeps_have_enough_sizes_to_leave_one_out(kind):
    rows = sweeps.recorded_sweep(kind)
    assert len(rows) >= 7 and all(len(row["seconds"]) >= 3 for row in rows)
    for row in rows:
        assert math.isfinite(sweeps.predicted([other for other in rows if other is not row], row["nbytes"]))


# --- the MFU


@pytest.mark.parametrize(
    "name", [name for name in recorded_names("train") if recorded(name)["measured"].get("model_flops_per_step")]
)
def test_what_evidence_calls_its_mfu_is_ours_or_refused(name):
    content = recorded(name)
    found = rates.honest(as_run(content))
    if isinstance(found, str):
        assert found in ch15_links.REASONS
    else:
        assert found[0] == pytest.approx(content["measured"]["mfu"], rel=1e-6) and found[1] <= found[0] <= found[2]


@pytest.mark.parametrize("reason", rates.DOCTORED)
def test_a_doctored_log_has_the_fault_that_it_is_named_after(reason):
    for seed in range(12):
        rng = random.Random(seed)
        sound = rates.gpu_run(rng, rng.choice(("H100 SXM", "A100 SXM 80GB")), rng.choice((1, 8)))
        assert not isinstance(rates.honest(sound), str)
        assert rates.honest(rates.DOCTORED[reason](sound, rng)) == reason
    assert list(rates.DOCTORED) == list(ch15_links.REASONS)


def test_a_clock_that_missed_a_part_of_each_step_stays_below_the_roof():
    """So that the roof alone does not find it out."""
    rng = random.Random(2)
    made = [rates.launched(rates.gpu_run(rng, "H100 SXM"), rng) for _ in range(10)]
    assert all(rates.mfu(run, statistics.median(rates.step_seconds(run))) < rates.ROOF for run in made)


def test_bounds_are_those_of_the_gates():
    assert ch15_links.SPREAD == gates.SPREAD and ch15_links.ROOF == gates.SYNCHRONISED
    assert machines.HELD == 0xE8 and exercises.card("preflight-verdict").params["limits"]["copy"][0] == pytest.approx(
        look.DEGRADED * look.COPY, rel=0.02
    )


def test_the_mfu_is_the_librarys_and_peaks_are_the_data_sheets():
    run = rates.gpu_run(random.Random(5), "H100 SXM")
    seconds = statistics.median(rates.step_seconds(run))
    params = run["model_flops_per_token"] / 6
    want = compute.mfu(
        params, run["tokens_per_step"] / seconds, float(facts.device("H100 SXM").dense_flops), run["ranks"]
    )
    assert rates.honest(run)[0] == pytest.approx(want)
    h100 = facts.device("H100 SXM")
    assert peaks_of("H100 SXM")["sparse_flops"]["bfloat16"] == pytest.approx(float(h100.sparse_flops), rel=1e-3)
    assert peaks_of("H100 SXM")["dense_flops"]["float8"] == float(h100.fp8_flops)


# --- the bus


@pytest.mark.parametrize("why", CAUSES)
def test_a_report_has_its_cause_and_no_wire_is_faster_than_its_line(why):
    for seed in range(40):
        made = bus.report(why, random.Random(seed), 50e9)
        assert bus.cause(made) == why and bus.rate(made) < made["line"]
        assert (made["printed"] > made["line"]) == (why != bus.FINE), (why, seed)
        assert bus.by_rule(made) * made["seconds"] == pytest.approx(
            ring_sent(made["collective"], made["nbytes"], made["ranks"])
        )


def test_eight_h200_are_below_their_links_where_the_switch_adds_up():
    made = bus.published()
    assert (
        made["printed"] > made["line"] > bus.rate(made) == pytest.approx(made["printed"] * 8 / 14)
        and bus.cause(made) == "no ring"
    )


# --- scaling


@pytest.mark.parametrize("growth", GROWTH)
@pytest.mark.parametrize("kind", ["strong", "weak"])
def test_constants_without_noise_are_those_put_in(kind, growth):
    ranks, first, second = (8, 16, 64, 256), 0.4, 9.0 if kind == "strong" else 0.03
    rows = []
    for n in ranks:
        seconds = first + second * float(scalings.column(kind, growth, float(n), 8.0))
        tokens = 2**20 if kind == "strong" else 4096 * n
        rows.append({"ranks": n, "batch_tokens": tokens, "tokens_per_s": tokens / n / seconds})
    assert scalings.kind_of(rows) == kind
    assert scalings.constants(rows, growth) == (pytest.approx(first), pytest.approx(second), pytest.approx(0, abs=1e-9))
    measured = rows[-1]["tokens_per_s"] / rows[0]["tokens_per_s"]
    assert scalings.efficiency(rows, growth, 256) == pytest.approx(measured) and scalings.efficiency(
        rows, growth, 8
    ) == pytest.approx(1)


def test_drawn_rows_are_of_their_kind_and_published_series_of_theirs():
    for seed in range(20):
        for kind in ("strong", "weak", "mixed"):
            assert scalings.kind_of(scalings.made(kind, "doublings", random.Random(seed))) == kind
    assert (scalings.kind_of(scalings.series(scalings.STRONG)), scalings.kind_of(scalings.series(scalings.WEAK))) == (
        "strong",
        "weak",
    )
    one = scaling.series(scalings.WEAK)[0]
    assert scalings._arrays(scalings.series(scalings.WEAK))[1][0] == pytest.approx(one.step_seconds)
    assert (
        scalings.constants(scalings.series(scalings.STRONG), "doublings")[2] < 0.15
        and scalings.constants(scalings.series(scalings.WEAK), "doublings")[2] < 0.05
    )


# --- the audit


def test_every_statement_of_the_audit_has_its_key_and_controls_are_right_as_printed():
    assert set(KEYS) == set(facts.claims("15")) == {item.id for item in ITEMS}
    for item in ITEMS:
        printed, key = float(facts.claim(item.id).value) / item.scale, KEYS[item.id]
        assert math.isclose(key.number, printed, rel_tol=0.05) == (key.said == "right"), item.id
    assert 3 <= sum(key.said == "right" for key in KEYS.values()) <= 6


def test_the_audit_agrees_with_the_runs_in_the_facts():
    assert KEYS["palm-46-mfu"].number == pytest.approx(100 * float(facts.run("PaLM 540B").mfu), rel=0.02)
    assert KEYS["llama3-41-mfu"].number == pytest.approx(100 * float(facts.run("Llama 3.1 405B").mfu), rel=0.02)


# --- the whole


def test_every_kind_of_verdict_decides_somewhere():
    kinds = {each.expected for card in CARDS for each in shipped(card.id) if each.sort == "wrong"}
    assert {"values", "protocol", "generality", "not-answered"} <= kinds


def test_points_and_minutes_are_those_of_the_chapters_plan():
    assert {card.id: (card.points, card.minutes) for card in CARDS} == {
        "preflight-verdict": (8, 15),
        "held-out-message": (8, 15),
        "honest-mfu": (8, 15),
        "bus-above-line": (5, 10),
        "scaling-fit": (6, 15),
        "audit-runs": (6, 10),
    }
    assert all(card.kind == ("core" if card.id in ("held-out-message", "honest-mfu") else "more") for card in CARDS)
