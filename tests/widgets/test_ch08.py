"""Chapter 08's film, widgets and numbers say what the library's runs, the conventions and the published rows say."""

import math
from itertools import pairwise

import pytest

from course_chapters.ch08 import step_time as ch08_time
from course_chapters.ch08 import who_holds_when
from course_chapters.ch08 import widgets as ch08
from course_chapters.ch08.exercises import numbers
from course_chapters.ch08.sharded_film import GATHERED, MODEL, MOVING, OWN, RANKS, UNITS, WAYS, WHOLE, film
from course_lib.estimate import memory
from course_lib.estimate.facts import scaling
from course_lib.estimate.units import GB
from course_lib.parallel.sharding import step_bytes
from tests.tables import each_of

by_way = pytest.mark.parametrize("way", WAYS)
NORM = MODEL.hidden  # numbers of the last norm, which is in no column


def params():
    return sum(film().elements)


def boxes(moment, role, *kinds):
    return [(unit, start, stop) for unit, start, stop, how in moment.boxes[role] if how in kinds]


def elements(found, shown):
    return sum((stop - start) * shown.elements[unit] for unit, start, stop in found)


# --- the film


@by_way
def test_all_ways_are_looked_at_in_the_same_moments(way):
    passes = [(what, unit) for what in ("forward", "backward") for unit in range(len(UNITS))]
    forward, back = passes[: len(UNITS)], passes[: len(UNITS) - 1 : -1]
    want = [("start", -1), *forward, *back, ("averaged", -1), ("stepped", -1), ("end", -1)]
    for rank in range(RANKS):
        assert [(ranks[rank].phase, ranks[rank].unit) for ranks in film(way).moments] == want
    assert len(want) == len(ch08.MOMENTS)


@by_way
def test_every_element_of_what_is_cut_has_one_owner_at_every_moment(way):
    shown, stage = film(way), WAYS[way][0]
    cut = [role for role, since in (("moments", 1), ("grads", 2), ("weights", 3)) if stage >= since]
    for ranks in shown.moments:
        for role in cut if ranks[0].phase in ("averaged", "stepped") else set(cut) - {"grads"}:
            parts = sorted(box for moment in ranks for box in boxes(moment, role, OWN))
            assert elements(parts, shown) == pytest.approx(params())
            for (unit, _, stop), (other, start, _) in pairwise(parts):
                assert unit != other or start >= stop - 1e-9, f"{role} of {UNITS[unit]} lie on two ranks"


@each_of(
    "way, per", [("data parallel", (4, 4, 8)), ("stage 1", (4, 0, 2)), ("stage 2", (4, 0, 2)), ("stage 3", (1, 0, 2))]
)
def test_between_steps_a_rank_holds_what_its_stage_says(way, per):
    want = pytest.approx([each * (params() + NORM) for each in per], rel=0.002)
    for moment in (film(way).moments[0][1], film(way).moments[-1][1]):
        assert [moment.nbytes[role] for role in ("weights", "grads", "moments")] == want


@each_of("way, most", [("stage 3", 2), ("stage 3, no prefetch", 1), ("stage 3, weights kept", len(UNITS))])
def test_no_more_units_are_gathered_than_prefetch_allows(way, most):
    found = [len({unit for unit, *_ in boxes(ranks[0], "weights", GATHERED, MOVING)}) for ranks in film(way).moments]
    assert max(found) == most and found[0] == found[-1] == 0


def test_with_prefetch_the_next_unit_travels_while_one_computes_in_both_passes():
    for ranks in film("stage 3").moments[1 : 2 * len(UNITS) + 1]:
        moment = ranks[2]
        following = moment.unit + (1 if moment.phase == "forward" else -1)
        travels, gathered = ({unit for unit, *_ in boxes(moment, "weights", how)} for how in (MOVING, GATHERED))
        if (moment.phase, moment.unit) == ("backward", 0):  # an embedding's backward pass needs no weight
            assert (travels, gathered) == ({0}, set()), "this gather is for nothing"
            continue
        assert travels == ({following} if 0 <= following < len(UNITS) else set())
        assert gathered == {moment.unit}


def test_a_units_gradient_is_whole_then_on_the_wire_then_a_part():
    backward = [ranks[0] for ranks in film("stage 3").moments if ranks[0].phase == "backward"]
    for moment, following in pairwise([*backward, None]):
        assert elements(boxes(moment, "grads", WHOLE), film()) == film().elements[moment.unit]
        if following:
            assert {unit for unit, *_ in boxes(following, "grads", MOVING)} == {moment.unit}


def test_stage_1_keeps_whole_gradients_until_the_end_and_stage_2_does_not():
    last = 2 * len(UNITS)  # the moment at which the last gradient is there
    whole = {way: elements(boxes(film(way).moments[last][0], "grads", WHOLE), film(way)) for way in WAYS}
    assert whole["stage 1"] == pytest.approx(params()) and whole["stage 2"] < 0.3 * params()


@by_way
def test_bytes_by_role_add_up_to_what_the_account_sees_and_little_is_without_a_role(way):
    for nbytes in (moment.nbytes for ranks in film(way).moments for moment in ranks):
        assert min(nbytes.values()) >= 0 and nbytes["temporary"] < 0.12 * sum(nbytes.values())


def test_bytes_sent_are_those_of_the_formulas():
    rows = [NORM, *film().elements]
    assert set(film("data parallel").sent) == set(film("stage 1").sent) == set(film("stage 2").sent)
    assert set(film("stage 3").sent) == {step_bytes(rows, RANKS, 3, 4, 4)}
    assert set(film("stage 3, weights kept").sent) == {step_bytes(rows, RANKS, 3, 4, 4, kept=True)}


def test_an_unknown_way_is_answered_with_what_there_is():
    with pytest.raises(ValueError, match="stage 3"):
        film("stage 4")


def test_a_moment_is_told_in_words():
    said = who_holds_when.draw_moment(film(), 3).alt
    assert "forward of block 1" in said and "moments 25 %" in said and "grads 0 %" in said
    assert "weights 100 %" in who_holds_when.draw_moment(film("stage 2"), 3).alt


# --- stages, and the tree of walls


def test_the_picture_of_stages_says_the_papers_formulas():
    said = ch08.draw_stages(3, 64, "70B").alt
    for stage, held in ((0, "1.12 TB"), (1, "293 GB"), (2, "155 GB"), (3, "17.5 GB")):
        assert f"stage {stage} {held}" in said
    assert "413 GB sent" in said and "from 16 ranks on" in said
    assert "276 GB sent" in ch08.draw_stages(2, 64, "70B").alt
    assert "never fits" in ch08.draw_stages(2, 64, "70B").alt


@each_of("model", ch08.MODELS)
@each_of("stage", ch08.STAGES)
def test_computing_activations_again_frees_no_byte_of_state(model, stage):
    kept, again = (ch08.peak_of(model, 64, stage, "B", how) for how in ("none", "full"))
    assert float(kept.state) == float(again.state) == pytest.approx(memory.zero_bytes(ch08.MODELS[model][0], stage, 64))
    assert again.activations < 0.2 * kept.activations


@each_of(
    "asked, answers",
    (("70B", 8, 3, 1, "full"), [False, None, None, None]),
    (("70B", 64, 2, 1, "full"), [False, None, None, None]),
    (("405B", 128, 3, 1, "full"), [True, True, False, False]),
    (("70B", 64, 3, 1, "none"), [True, True, False, True]),
    (("70B", 64, 3, 1, "full"), [True, True, True, None]),
    (("405B", 86, 3, 1, "full"), [True, False, None, None]),
)
def test_each_wall_sends_elsewhere(asked, answers):
    assert ch08.verdict(*asked)[0] == answers
    said = ch08.draw_wall(*asked).alt
    cures = ("shard it", "split layers", "recompute", "split the sequence")
    no = [place for place, each in enumerate(answers) if each is False]
    assert (cures[3 if 3 in no else no[0]] if no else "it fits") in said


def test_the_floor_is_drawn_from_the_peaks_and_lies_above_state():
    picture = ch08.floor()
    drawn = {each.get_label(): each.get_ydata() for each in picture.axes[0].lines}
    for model in ("70B", "405B"):
        total, state = drawn[f"{model}: total"], drawn[f"{model}: state alone"]
        assert total[-1] == pytest.approx(float(ch08.peak_of(model, 2**14, 3).total) / GB)
        assert state[-1] < 0.1 * total[-1], "state has gone, the rest has not"


# --- time


def test_one_unit_ahead_is_enough_where_units_are_equal_and_not_where_they_differ():
    equal, uneven = (
        [ch08_time.step_of(cut, depth, 8192, 50 * GB).exposed for depth in ch08_time.DEPTHS]
        for cut in ("twelve equal layers", "alternating small and large")
    )
    assert equal[1] < 0.1 * equal[0] and equal[2] == pytest.approx(equal[1]) == pytest.approx(equal[4])
    assert uneven[2] < 0.8 * uneven[1]
    assert "1: 105 ms" in ch08_time.draw_prefetch().alt


def test_groups_have_their_knee_where_the_picture_puts_the_ring():
    assert "Ring: the shortest step that fits, 8." in ch08_time.draw_groups().alt
    for name, values in (("slow", (12.5e9, 25e9, 50e9, 100e9)), ("latency", (0, 1e-6, 2e-6, 5e-6, 10e-6))):
        pictures = {ch08_time.draw_groups(**{name: value}).svg() for value in values}
        assert len(pictures) == len(values), f"{name} moves what is hidden, too"
    eight = next(each for each in ch08_time.groups_of("70B", 1024, 4096) if each.ranks == 8)
    assert eight.state > 80 * GB * 0.8 and eight.exposed == 0
    assert "does not fit" in ch08_time.draw_groups(8, "70B").alt
    assert "No group fits" in ch08_time.draw_groups(64, "405B", 64).alt
    assert "fits, 64" in ch08_time.draw_groups(64, "405B", 1024, card="GB200").alt


# --- numbers of the prose


def test_the_papers_first_figure_is_what_the_formulas_give():
    found = numbers.zero_table()
    assert len(found) == 4
    for stage, ranks, printed in found.values():
        assert math.isclose(memory.zero_bytes(7.5e9, stage, ranks) / GB, printed, abs_tol=0.06)


def test_published_differences_of_memory_are_state_to_about_a_tenth():
    found = numbers.memory_differences()
    assert len(found) == 4
    for few, many, said, seen in found.values():
        assert said == pytest.approx(16 * 8.03e9 * (1 / few - 1 / many) / 2**30, rel=1e-3)
        assert few != 8 or seen == pytest.approx(said, rel=0.12)


def test_published_steps_lie_near_the_bound_at_which_all_is_hidden():
    for point in scaling.series(numbers.EVIDENCE)[1:]:
        hidden, exposed = numbers.bounds(point)
        assert hidden <= point.step_seconds < hidden * 1.1 < exposed


def test_the_plan_fits_and_hides_nearly_everything():
    peak, step = ch08.peak_of("70B", 64, 3, numbers.CONVENTION), numbers.plan_step()
    assert peak.total < ch08.GPU_MEMORY and float(peak.state) == 18 * 70e9 / 64
    assert step.exposed < 0.02 * step.seconds
    assert step.computing == pytest.approx(6 * 70e9 * 8192 / numbers.REAL, rel=1e-6)
    half = numbers.plan_step(tokens=4096)
    assert half.exposed > 0.2 * half.seconds, "with half the tokens a GPU waits nearly a quarter of the time"


def test_tokens_that_hide_an_offloaded_step_make_both_times_equal():
    for moved, bandwidth in numbers.OFFLOAD.values():
        tokens = numbers.offload_tokens(moved, bandwidth)
        assert 6 * 70e9 * tokens / numbers.REAL == pytest.approx(moved * 70e9 / 64 / bandwidth)


def test_all_ways_are_filmed_before_a_menu_asks_for_them(capsys, monkeypatch):
    monkeypatch.setattr(ch08, "in_notebook", lambda: True)
    film.cache_clear()
    ch08.step_by_step()
    assert film.cache_info().currsize == len(WAYS)
    capsys.readouterr()
