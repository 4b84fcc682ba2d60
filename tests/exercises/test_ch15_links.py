"""Chapter 15's exercises on machines and rates: oracles are the library's, evidence's and the papers', cases mean what they say."""

import math
import random
import statistics

import pytest

from course_lib import compute, facts
from course_lib.exercises.ch15.cards import links as ch15_links
from course_lib.exercises.ch15.cards.links_more import CAUSES
from course_lib.exercises.ch15.judges import links_machines as machines
from course_lib.exercises.ch15.judges import links_mfu as rates
from course_lib.exercises.ch15.judges import links_more as more
from course_lib.exercises.ch15.judges import links_sweeps as sweeps
from course_lib.exercises.ch15.judges.links_audits import KEYS
from course_lib.exercises.ch15.judges.links_mfu import recorded_runs
from course_lib.exercises.ch15.work import peaks_of
from course_lib.facts import scaling
from course_lib.roofline import fit_alpha_beta
from course_lib.runs import gates, look
from course_lib.runs.reading import recorded
from course_lib.runs.ring_bytes import ring_sent

# --- the machine

LIMITS = machines.SHOWN
MEANT = {
    "a rank with another NCCL or CUDA": ("versions", "refuse"),
    "a rank with another torch": ("versions", "refuse"),
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


def test_the_bits_of_a_clock_are_those_of_the_look_before_a_run():
    held = {bit for bit in (1 << place for place in range(9)) if look._reasons(bit)}
    assert sum(held) == machines.HELD and not any(look._reasons(bits) for bits in machines.HARMLESS)


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
        joined = kind == "a quicker way for large messages"
        assert after == pytest.approx(before) if joined else after > 1.3 * before
        assert (lines[1][1] < lines[0][1]) == (kind == "slower beyond the cache")


def test_in_one_regime_our_fit_is_the_librarys_line():
    lines, edge = sweeps.regimes("one regime", 2e-5, 1e10, random.Random(0))
    rows = sweeps.sweep(lines, edge, random.Random(4))
    alpha, beta = fit_alpha_beta(*sweeps._points(rows))
    for nbytes in (3e4, 3e6, 1e9):
        assert sweeps.predicted(rows, nbytes) == pytest.approx(alpha + nbytes / beta, rel=0.1)


# --- the MFU


@pytest.mark.parametrize(("name", "run"), recorded_runs().items())
def test_what_evidence_calls_its_mfu_is_ours_or_refused(name, run):
    found = rates.honest(run)
    if isinstance(found, str):
        assert found in ch15_links.REASONS
    else:
        assert found[0] == pytest.approx(recorded(name)["measured"]["mfu"]) and found[1] <= found[0] <= found[2]


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
    assert LIMITS["copy"][0] == pytest.approx(look.DEGRADED * look.COPY, rel=0.02)


def test_the_mfu_is_the_librarys_and_peaks_are_the_data_sheets():
    run = rates.gpu_run(random.Random(5), "H100 SXM")
    speed = run["tokens_per_step"] / statistics.median(rates.step_seconds(run))
    h100, peaks = facts.device("H100 SXM"), peaks_of("H100 SXM")
    want = compute.mfu(run["model_flops_per_token"] / 6, speed, float(h100.dense_flops), run["ranks"])
    assert rates.honest(run)[0] == pytest.approx(want)
    assert peaks["sparse_flops"]["bfloat16"] == pytest.approx(float(h100.sparse_flops), rel=1e-3)
    assert peaks["dense_flops"]["float8"] == float(h100.fp8_flops)


# --- the bus


@pytest.mark.parametrize("why", CAUSES)
def test_a_report_has_its_cause_and_no_wire_is_faster_than_its_line(why):
    for seed in range(40):
        made = more.report(why, random.Random(seed), 50e9)
        assert more.cause(made) == why and more.rate(made) < made["line"]
        assert (made["printed"] > made["line"]) == (why != more.FINE), (why, seed)
        sent = ring_sent(made["collective"], made["nbytes"], made["ranks"])
        assert more.by_rule(made) * made["seconds"] == pytest.approx(sent)


def test_eight_h200_are_below_their_links_where_the_switch_adds_up():
    made = more.published()
    assert made["printed"] > made["line"] > more.rate(made) == pytest.approx(made["printed"] * 8 / 14)
    assert more.cause(made) == "no ring"


# --- scaling


@pytest.mark.parametrize(("name", "kind", "off"), [(more.STRONG, "strong", 0.15), (more.WEAK, "weak", 0.05)])
def test_a_published_series_is_of_its_kind_and_near_its_law(name, kind, off):
    rows = more.series(name)
    assert more.kind_of(rows) == kind
    assert more.seconds_of(rows)[1][0] == pytest.approx(scaling.series(name)[0].step_seconds)
    assert abs(more.fitted(rows, "doublings")[1]).max() < off


# --- the audit


def test_the_audit_agrees_with_the_runs_in_the_facts():
    assert KEYS["palm-46-mfu"].number == pytest.approx(100 * float(facts.run("PaLM 540B").mfu), rel=0.02)
    assert KEYS["llama3-41-mfu"].number == pytest.approx(100 * float(facts.run("Llama 3.1 405B").mfu), rel=0.02)
