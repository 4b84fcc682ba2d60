"""Chapter 15's widgets, figures and numbers say what the evidence, the models and the published rows say, whatever was
recorded."""

import math
from statistics import median

import pytest

from course_chapters.ch15 import fsdp2, small_runs, tables
from course_chapters.ch15 import widgets as ch15
from course_chapters.ch15 import wires as ch15_wires
from course_chapters.ch15.exercises import numbers
from course_lib.cluster.intervals import exposed, length, outside, union
from course_lib.estimate import facts
from course_lib.estimate.facts import collectives, scaling
from course_lib.estimate.units import GB, MS, US, bytes_text
from course_lib.model.transformer import Config, build
from course_runs import forged_examples
from course_runs.evidence import sealed as seal
from course_runs.reading import choose, every, recorded, rows_of

RUNS = every("train", "recorded")
ROWS = rows_of(RUNS)


@pytest.fixture(autouse=True)
def only_shipped_evidence(tmp_path, monkeypatch):
    """Only what ships: pictures must not depend on the machine that runs this."""
    monkeypatch.setenv("COURSE_EVIDENCE", str(tmp_path))
    for kept in (ch15._runs, ch15.together, ch15_wires.sweeps, ch15_wires.traces):
        kept.cache_clear()


# --- predicted against measured


def test_sets_are_those_that_ship_and_ones_own_comes_first(tmp_path):
    from course_runs.evidence import write

    assert ch15.sets()[0] == RUNS[0].name.split("/")[0]
    write(recorded(RUNS[0].name), tmp_path, "mine")
    ch15._runs.cache_clear()
    assert ch15.sets()[0] == ch15.OWN and "Your own" in _second_line(ch15.draw_predicted("memory"))


def _second_line(picture):
    return picture.texts[1].get_text()


# --- one model under every layout


def test_every_layout_meets_the_same_batches_and_differs_by_rounding_alone():
    names = list(ch15.together())
    assert len(names) >= 4 and ch15.together()[names[0]].content["setup"]["layout"]["ranks"] == 1
    for name in names[1:]:
        assert all(a <= b for a, b in zip(ch15.apart(name), ch15.bound(name), strict=True)), name
        count = len(ch15.apart(name))
        assert f"{count} of {count} losses equal" in ch15.draw_losses(name, "difference").alt


def test_magnifying_tells_two_curves_apart():
    name = list(ch15.together())[1]
    plain, close = ch15.draw_losses(name, "loss", 0), ch15.draw_losses(name, "loss", 5)
    assert f"{10**5:,} times" in _second_line(close) and "magnified" not in _second_line(plain)
    shown = ch15.together()[name].content["raw"]["steps"]
    assert f"{shown[0]['loss']:.4f} at step 0" in plain.alt


# --- wires


def test_the_curve_is_alpha_and_beta_and_half_of_the_line_is_where_the_picture_says():
    sweep = ch15_wires.sweeps()["published: 8 × A100"]
    alpha, beta = 20 * US, 200 * GB
    said = ch15_wires.on_the_line(sweep, alpha, beta)
    for (nbytes, _), rate in zip(sweep.points, said, strict=True):
        sent = 2 * 7 / 8 * nbytes
        assert rate == pytest.approx(sent / (alpha + sent / beta))
    half = f"half of β is reached at {bytes_text(alpha * beta * 8 / 14)}"
    assert half in ch15_wires.draw_bandwidth(alpha, beta, sweep.name).alt


def test_all_recorded_kinds_and_the_published_series_can_be_laid_under_a_curve():
    names = list(ch15_wires.sweeps())
    links = every("collectives", "recorded")
    assert links and len(names) == sum(len({row["kind"] for row in each.content["raw"]["rows"]}) for each in links) + 2
    for key in ch15_wires._PUBLISHED:
        points = ch15_wires.sweeps()[f"published: {key}"].points
        assert points == tuple((row.nbytes, float(row.bus_bandwidth)) for row in collectives.series(key))


def test_no_alpha_and_beta_pass_near_all_of_the_published_points():
    sweep = ch15_wires.sweeps()["published: 8 × H200, switch sums"]

    def worst(alpha, beta):
        pairs = zip(ch15_wires.on_the_line(sweep, alpha, beta), (rate for _, rate in sweep.points), strict=True)
        return max(max(said / seen, seen / said) for said, seen in pairs)

    assert min(worst(alpha, beta) for alpha in ch15_wires.ALPHAS for beta in ch15_wires.BETAS) > 1 + ch15_wires.CLOSE


# --- traces


def test_moved_messages_keep_their_order_and_never_overlap():
    wire = [(0.0, 2.0), (1.0, 3.0), (5.0, 6.0)]
    assert ch15_wires.moved(wire, 0.0, 1.0) == [(0.0, 3.0), (5.0, 6.0)]
    assert ch15_wires.moved(wire, -4.0, 0.5) == [(0.0, 6.0), (6.0, 8.0)]
    assert ch15_wires.moved(wire, 1.0, 2.0) == [(1.0, 2.5), (6.0, 6.5)]


@pytest.mark.parametrize("delay", (ch15_wires.DELAYS[0], 0.0, ch15_wires.DELAYS[-1]))
@pytest.mark.parametrize("speed", (ch15_wires.SPEEDS[0], 1.0, ch15_wires.SPEEDS[-1]))
def test_the_exposed_lane_is_as_long_as_the_exposed_time(delay, speed):
    for kept in ch15_wires.traces().values():
        end = max(stop for parts in kept.values() for _, stop in parts)
        wire = ch15_wires.moved(list(kept["communication"]), delay * end, speed)
        bare = outside(union(wire), union(kept["compute"]))
        want = exposed({"compute": list(kept["compute"]), "communication": wire})
        assert length(bare) == pytest.approx(want, abs=1e-9)


def test_short_cuts_err_in_the_direction_that_the_chapter_says():
    for kept in ch15_wires.traces().values():
        ways = ch15_wires.wrong_ways(kept)
        assert ways["communication minus computing"] <= ways["exposed"] + 1e-12
        assert ways["exposed"] <= min(ways["all communication"], ways["the step minus computing"]) + 1e-12
    late = ch15_wires.wrong_ways({"compute": [(0.0, 1.0)], "communication": [(3.0, 4.0)]})
    assert late["exposed"] == 1.0 and late["the step minus computing"] == 3.0, "idle time is mistaken for communication"
    made_up = ch15_wires.wrong_ways(ch15_wires.traces()[ch15_wires.MADE_UP])
    assert made_up["exposed"] == pytest.approx(7 * MS), "the last message"


def test_a_lane_of_thousands_of_kernels_is_drawn_with_few_boxes():
    many = [(place * 1e-5, place * 1e-5 + 9e-6) for place in range(5000)]
    shown = ch15_wires._closed(many, 0.05)
    assert len(shown) <= ch15_wires._MOST and shown[0][0] == 0.0 and shown[-1][1] == many[-1][1]


# --- numbers of the prose


def test_what_the_prose_says_of_the_runs_is_what_the_rows_say():
    wire, seconds = ([row[name] for row in ROWS if row[name]] for name in ("wire_ratio", "seconds_ratio"))
    assert numbers.ratios("wire") == wire and max(abs(ratio - 1) for ratio in wire) < 1e-3, "bytes sent are counted"
    assert numbers.ratios("seconds") == seconds and set(numbers.ratios("seconds", ranks=1)) < set(seconds)


def test_parts_of_a_step_add_up_to_it_and_both_models_are_ends_of_one_scale():
    for each in RUNS:
        timed = each.content["raw"]["steps"][each.content["setup"]["warm_up"] :]
        found = tables.parts(each.content)
        assert sum(found.values()) == pytest.approx(math.fsum(row["seconds"] for row in timed) / len(timed))
        both = tables.models(each.content)
        assert both["max"] <= both["sum"] == pytest.approx(each.content["predicted"]["step_seconds"])


def test_the_ladder_grows_with_the_gpus_and_is_the_tours_own_plan():
    rungs = [line.split(" | ") for line in tables.ladder().data.splitlines()[2:]]
    assert [int(rung[0].strip("| ")) for rung in rungs] == list(tables.LADDER)
    stages = [int(rung[1]) for rung in rungs]
    low, high = ([numbers.tour_dollars(gpus, price) for gpus in tables.LADDER] for price in tables.PRICES)
    assert stages == sorted(set(stages)) and low == sorted(set(low))
    assert all(cheap < dear for cheap, dear in zip(low, high, strict=True))
    assert numbers.tour_dollars(8) == pytest.approx(8 * numbers.tour_seconds(8) / 3600 * facts.price("H100 hour"))
    assert sum(len(rung[-1].split(", ")) for rung in rungs) >= int(rungs[-1][1])


def test_published_runs_have_the_printed_utilization_and_keep_the_batch_or_that_of_a_gpu():
    run = facts.run("Llama 3 405B, 8,192 GPUs, 8,192 tokens")
    said = float(run.flops_per_device / facts.device(run.device).dense_flops)
    assert said == pytest.approx(float(run.mfu), abs=0.006), "relative to the dense peak"
    strong, weak = (scaling.series(key) for key in tables.SERIES)
    assert len({row.tokens * row.ranks for row in strong}) == 1 and len({row.tokens for row in weak}) == 1
    assert numbers.efficiencies(tables.SERIES[0])[-1] < 0.5 < 0.9 < numbers.efficiencies(tables.SERIES[1])[-1]


def test_the_run_whose_mfu_is_computed_six_ways_has_an_honest_one_in_its_file():
    run = choose("train", layout="ddp", origin="recorded").content
    measured, timed = run["measured"], [row["seconds"] for row in run["raw"]["steps"]][run["setup"]["warm_up"] :]
    available = median(timed) * run["setup"]["layout"]["ranks"] * measured["peak_flops"]
    assert measured["mfu"] == pytest.approx(measured["model_flops_per_step"] / available)


# --- tables of the chapter


def test_a_small_consistent_lie_passes_and_what_the_other_lies_contradict_is_named():
    sound = recorded("cpu4/ddp")
    half, tenth = forged_examples.times(sound, 0.5), forged_examples.times(sound, 0.9, True)
    lies = {"half": half, "resealed": seal(half), "tenth": seal(tenth)}
    _, _, *lines = tables.refusals({"sound": sound, **lies}).data.splitlines()
    assert ["does not fit" in line for line in lines] == [False, True, False, False]
    assert ["| none |" in line for line in lines] == [True, False, False, True]


def test_every_table_of_the_chapter_has_a_row_for_each_thing_it_shows():
    run = choose("train", layout="fsdp")
    shown = (tables.gap(run), tables.step_parts(run), tables.mfu_six_ways(run.content), tables.machine_lines())
    assert [len(one.data.splitlines()) - 2 for one in shown[:3]] == [3, len(tables.PARTS) + 1, 6]
    assert all(verdict in shown[3].data for verdict in tables.VERDICTS.values())
    assert len(tables.ladder().data.splitlines()) - 2 == len(tables.LADDER)
    assert tables.scaling().data.count("H100s") == 1 and tables.parity().data.count("| yes |") >= 4
    assert "killed" in tables.failures().data and "gloo" in tables.hardware().data


def test_the_traced_runs_show_their_fault_and_no_other():
    (sound, planned), (lost, rates) = small_runs.traced("sound"), small_runs.traced("schedule lost")
    assert rates[: small_runs.RESUMED] == planned[: small_runs.RESUMED]
    assert rates[small_runs.RESUMED] == planned[0] != planned[small_runs.RESUMED]
    assert lost[: small_runs.RESUMED + 1] == sound[: small_runs.RESUMED + 1], "the norm changes after the rate"
    norms, _ = small_runs.traced("noise")
    assert max(range(small_runs.STEPS), key=norms.__getitem__) == small_runs.NOISE


def test_where_no_two_processes_can_run_the_table_has_recorded_ones(monkeypatch, capsys):
    def refuse(*_, **__):
        raise OSError("no sockets here")

    monkeypatch.setattr(fsdp2, "launch", refuse)
    assert "reshard_after_forward=True" in fsdp2.in_two_processes(build, Config(), {}).data
    assert "no sockets here" in capsys.readouterr().out


def test_the_waterfall_ends_at_the_runs_mfu_and_loses_the_rest_once():
    run = choose("train", layout="ddp")
    stairs = ch15.waterfall_stairs(run.content)
    assert sum(stairs.values()) == pytest.approx(1.0) and all(share >= 0 for share in stairs.values())
    # there by the median step, here by the mean
    assert stairs["MFU"] == pytest.approx(run.content["measured"]["mfu"], rel=0.1)
    said = ch15.waterfall(run).alt
    assert run.name in said and "communication" in said and "matmuls below the peak" in said


def test_a_rate_of_thrice_the_measured_peak_is_refused_and_one_of_half_as_much_again_may_be_a_busy_machine():
    sound = recorded("cpu4/ddp")
    for factor, refused in ((1.5, False), (1.99, False), (2.01, True), (3, True)):
        told = seal(forged_examples.times(sound, sound["measured"]["mfu"] / factor, True))
        assert told["measured"]["mfu"] == pytest.approx(factor)
        assert ("not above the roofline" in tables.refusals({"forged": told}).data) is refused
