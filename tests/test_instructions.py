"""What a chapter tells a learner to reach with a control can be reached with the control's own values."""

import re
from collections.abc import Callable

import pytest

from course_lib.draw.explorer import Explorer
from course_lib.folders import ROOT
from course_lib.operate import faults


def alts(explorer: Explorer, moved: str, **setting: object) -> dict[object, str]:
    """What the picture says at each value of one control; everything set must be a value of its control."""
    for name, value in setting.items():
        assert value in explorer.controls[name].values, (name, value)
    drawn = {
        value: explorer.draw(**{**explorer.setting, **setting, moved: value})
        for value in explorer.controls[moved].values
    }
    return {value: picture.alt for value, picture in drawn.items()}


def first_number(pattern: str, said: str) -> float:
    return float(re.search(pattern, said)[1].replace(",", ""))


def the_largest_job_makes_no_progress_and_an_interval_brings_most_back():
    from course_chapters.ch14 import widgets

    useful = {
        at: first_number(r"([\d.]+) % useful", said)
        for at, said in alts(widgets.month(), "interval", gpus=131_072).items()
    }
    assert useful[4 * 3600] < 0.1 and max(useful.values()) > 40
    restarts, spares = (alts(widgets.month(), each, interval=15 * 60.0) for each in ("restart", "spares"))
    for said in (restarts, spares):
        shares = [first_number(r"([\d.]+) % useful", each) for each in said.values()]
        assert max(shares) - min(shares) > 30


def a_higher_threshold_draws_no_more_alarms():
    from course_chapters.ch14 import widgets

    controls = widgets.spike().controls
    for height in controls["height"].values:
        for patience in controls["patience"].values:
            curve = faults.draw_curve(300, 1, spike=200, height=height)
            counts = [len(widgets.reacted(curve, threshold, patience)) for threshold in controls["threshold"].values]
            assert counts == sorted(counts, reverse=True), (height, patience)
        scores = [widgets.spike_score(threshold, 1, height) for threshold in controls["threshold"].values]
        assert [each.found for each in scores] == sorted((each.found for each in scores), reverse=True)


def decode_becomes_bound_by_compute_without_a_context_and_not_with_one():
    from course_chapters.ch16 import exercises, widgets  # noqa: F401
    from course_chapters.ch16.exercises import numbers

    bound = {
        context: [
            batch
            for batch, said in alts(widgets.phases(), "batch", context=context).items()
            if "Decode reaches 100 %" in said
        ]
        for context in (0, 2048)
    }
    assert bound[0] and not bound[2048]
    assert bound[0][0] / 2 < float(numbers.NUMBERS["ridge_batch"]()) <= bound[0][0]


def a_preemption_frees_fewer_pages_than_the_request_had_if_others_share_them():
    from course_chapters.ch16 import page_pool, widgets

    film = page_pool.pool_film(16)
    first = next(place for place, frame in enumerate(film) if frame.freed)
    ((name, freed),) = film[first].freed.items()
    had = film[first - 1].requests[name].pages
    shared = [page for page, names in enumerate(page_pool.owners(film[first - 1])) if name in names and len(names) > 1]
    assert freed == len(had) - len(shared) < len(had)
    said = alts(widgets.pages(), "step")[first + 1]
    assert f"{name} ({freed} pages freed)" in said
    running = {
        (size, share): max(first_number(r": (\d+) running", each) for each in found.values())
        for size in (16, page_pool.RESERVED)
        for share in (True, False)
        for found in [alts(widgets.pages(), "step", page_size=size, share=share)]
    }
    assert running[16, True] > running[16, False] > running[page_pool.RESERVED, False] == 3


def one_round_of_a_save_leaves_it_open_what_a_power_failure_loses():
    from course_chapters.ch14 import widgets

    doubt = [said for said in alts(widgets.save_and_load(), "moment").values() if said.count("possible disks") > 1]
    assert len(set(doubt)) == 1 and "rename the manifest" in doubt[0]
    last = list(alts(widgets.save_and_load(), "moment", fsync=False).values())[-1]
    assert first_number(r"nothing is loaded on (\d+) of", last) > 6


def a_wait_of_more_than_a_second_is_on_the_slider():
    from course_chapters.ch16 import serving_curves

    tails = [serving_curves.load_point(rate, "chunked", 1024)[1] for rate in serving_curves.RATES]
    assert tails[0] < 0.5 < 1 < tails[-1]


def nothing_is_exposed_in_the_made_up_step():
    from course_chapters.ch15 import wires

    controls = wires.timeline().controls
    (made_up,) = (name for name in controls["which"].values if name.startswith("made up"))
    said = [
        each
        for delay in controls["delay"].values[::10]
        for each in alts(wires.timeline(), "speed", which=made_up, delay=delay).values()
    ]
    assert any(each.startswith("0 s exposed") for each in said) and not said[0].startswith("0 s exposed")


def a_tile_passes_the_ridge_and_a_smaller_one_does_not():
    from course_chapters.ch03 import widgets
    from course_lib.estimate import roofline

    ridge = roofline.machine("H100 SXM", wire=None).ridge
    reached = [first_number(r": ([\d,]+) FLOP per byte", said) for said in alts(widgets.tiles(), "tile").values()]
    assert reached[0] < ridge < reached[-1]


def an_update_is_lost_below_half_a_spacing_and_kept_above():
    from course_chapters.ch05 import widgets

    assert min(widgets.SHARES) < 0.5 < max(widgets.SHARES)


def an_outlier_spoils_e4m3_only_when_it_is_large():
    from course_chapters.ch05 import widgets

    errors = [
        first_number(r"per tensor ([\d.]+) %", said)
        for said in alts(widgets.outlier(), "outlier", form="fp8_e4m3").values()
    ]
    assert errors[0] < 5 < 50 < errors[-1]


def more_buckets_expose_less_and_one_hides_nothing():
    from course_chapters.ch07 import widgets

    hidden = {way: first_number(r"([\d.]+) % of their time hidden", said) for way, said in
              alts(widgets.bucket_life(), "way").items()}  # fmt: skip
    assert hidden["one bucket"] == hidden["after the backward pass"] == 0
    assert hidden["one all-reduce per tensor"] > hidden["buckets of 16 kB"] > hidden["buckets of 48 kB"] > 50


def messages_are_first_hidden_and_then_exposed():
    from course_chapters.ch06 import widgets

    said = list(alts(widgets.overlap(), "tokens").values())
    assert "exposed" in said[0] and "all hidden" in said[-1]


def nothing_is_dropped_at_a_finite_capacity_and_something_at_one():
    from course_chapters.ch12 import widgets

    dropped = {
        factor: first_number(r"Dropped: (\d+) of", said) for factor, said in alts(widgets.buffers(), "factor").items()
    }
    assert dropped[1.0] > 0 and any(not count and factor < float("inf") for factor, count in dropped.items())


def dividing_sends_less_than_a_quarter_for_every_number_of_experts():
    from course_chapters.ch12 import widgets

    for said in alts(widgets.whole_or_split(), "top_k").values():
        pairs = re.findall(r"([\d.]+) and ([\d.]+)", said)
        assert any(float(divided) < float(split) / 4 for divided, split in pairs)


def your_model_changes_its_color():
    from course_chapters.ch13 import regimes

    said = alts(regimes.regimes(), "device", model=regimes.YOURS).values()
    assert len({re.search(r"your model [^(]*\((\w+)\)", each)[1] for each in said}) > 1


CASES: list[tuple[str, str, Callable[[], None]]] = [  # (chapter, what it says, what must be so)
    ("14", "take the largest job and save every four hours",
        the_largest_job_makes_no_progress_and_an_interval_brings_most_back),
    ("14", "A higher threshold, or waiting for several outliers in a row", a_higher_threshold_draws_no_more_alarms),
    ("16", "set the context to zero and move the batch",
        decode_becomes_bound_by_compute_without_a_context_and_not_with_one),
    ("16", "waits more than a second for its first token", a_wait_of_more_than_a_second_is_on_the_slider),
    ("07", "Which way hides nothing, and why", more_buckets_expose_less_and_one_hides_nothing),
    ("16", "At the first preemption, how many pages did the request have",
        a_preemption_frees_fewer_pages_than_the_request_had_if_others_share_them),
    ("14", "After one round, a power failure may leave the checkpoint of either step",
        one_round_of_a_save_leaves_it_open_what_a_power_failure_loses),
    ("15", "make the link faster until nothing is exposed", nothing_is_exposed_in_the_made_up_step),
    ("03", "find the smallest one whose intensity exceeds the ridge",
        a_tile_passes_the_ridge_and_a_smaller_one_does_not),
    ("05", "make the update larger than half a spacing", an_update_is_lost_below_half_a_spacing_and_kept_above),
    ("05", "find the size at which E4M3 starts to suffer", an_outlier_spoils_e4m3_only_when_it_is_large),
    ("06", "does the exposed time disappear", messages_are_first_hidden_and_then_exposed),
    ("12", "find the smallest capacity factor at which nothing is dropped",
        nothing_is_dropped_at_a_finite_capacity_and_something_at_one),
    ("12", "find the smallest number of ranks at which dividing sends less than a quarter",
        dividing_sends_less_than_a_quarter_for_every_number_of_experts),
    ("13", "find a cluster on which its color changes", your_model_changes_its_color),
]  # fmt: skip


@pytest.mark.parametrize(("chapter", "words", "reached"), CASES, ids=[case[2].__name__ for case in CASES])
def test_an_instruction_can_be_followed(chapter, words, reached):
    (path,) = ROOT.glob(f"solutions/{chapter}_*/{chapter}_*.ipynb")
    prose = re.sub(r'\\n",\s*"', " ", path.read_text(encoding="utf-8"))
    assert words in prose
    reached()
