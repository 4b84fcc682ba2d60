"""Chapter 10's widgets and pictures say what the schedules, the timeline and the published closed forms say."""

import re

import numpy as np
import pytest

from course_chapters import real_processes
from course_chapters.ch10 import bubble_rates, real_steps, schedule_rows, tables
from course_chapters.ch10 import widgets as ch10
from course_chapters.ch10.exercises import numbers
from course_chapters.ch10.grids import in_time
from course_chapters.ch10.layers_apart import LAYERS, RANKS, layers_apart
from course_lib.draw.palette import contrast, ink_on
from course_lib.parallel import schedules
from course_lib.parallel.planner import bubbles
from course_lib.parallel.timeline import Durations, play
from tests.tables import each_of


def test_the_three_schedules_side_by_side_idle_as_the_lesson_says():
    said = ch10.draw_schedules().alt
    for name, idle, held, end in (("naive", "75 %", 1, 96), ("GPipe", "27.3 %", 8, 33), ("1F1B", "27.3 %", 4, 33)):
        assert re.search(rf"{name}: {idle} idle \(\S+ % of working time\), holds up to {held}, takes {end}\.", said)


@each_of("name", ch10.MAKERS)
@each_of("ranks, microbatches", [(2, 4), (4, 8), (8, 16)])
def test_every_schedule_is_drawn_with_what_its_timeline_says(name, ranks, microbatches):
    timeline = ch10.timeline_of(name, ranks, microbatches)
    figure = ch10.draw_schedules(name, ranks, microbatches)
    assert figure.alt == schedule_rows.said(timeline) + "."
    patches = [each for each in figure.axes[0].patches if each.get_zorder() == 2]
    boxes = sum((each.get_path().codes == each.get_path().MOVETO).sum() for each in patches)
    assert boxes == sum(map(len, timeline.schedule.rows)) + ranks, "a box for each operation, and a strip for each rank"


def test_a_message_makes_a_step_longer_and_a_longer_backward_leaves_the_share():
    plain, slow = ch10.timeline_of("1F1B", 4, 8), ch10.timeline_of("1F1B", 4, 8, message=0.5)
    assert slow.makespan > plain.makespan
    assert ch10.timeline_of("1F1B", 4, 8, ratio=3.0).bubble_fraction == pytest.approx(plain.bubble_fraction)


def test_what_cannot_be_seen_or_does_not_exist_is_said():
    with pytest.raises(ValueError, match="would fit"):
        ch10.draw_schedules("interleaved 1F1B", 4, 7)
    with pytest.raises(ValueError, match="too many for one picture"):
        schedule_rows.schedule_rows([play(schedules.gpipe(16, 400))])


def test_all_panels_share_one_scale_of_time_and_a_far_longer_schedule_is_cut_off():
    longest = ch10.timeline_of("1F1B", 4, 8).makespan
    figure = schedule_rows.schedule_rows([ch10.timeline_of(name, 4, 8) for name in ("GPipe", "1F1B", "ZB-H1")])
    assert figure.axes[0].get_xlim() == (0, longest) and "continues →" not in _texts(figure)
    figure = schedule_rows.schedule_rows([ch10.timeline_of(name, 4, 8) for name in ("naive", "1F1B")])
    assert figure.axes[0].get_xlim() == (0, pytest.approx(1.2 * longest)) and _texts(figure).count("continues →") == 1
    ends = [box.get_path().get_extents().x1 for box in figure.axes[0].patches]
    assert max(ends) == pytest.approx(1.2 * longest)


def _texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def test_later_chunks_are_paler_and_their_numbers_stay_readable():
    made = schedules.interleaved(4, 8, 4)
    fills = [schedule_rows.fill_of(made, kind, stage) for kind in "FB" for stage in (0, 4, 8, 12)]
    assert len(set(fills)) == len(fills)
    assert all(
        contrast(ink_on(fill), fill) >= 4.5 for fill in [*fills, schedule_rows.fill_of(schedules.zb_h1(4, 8), "W", 0)]
    )


# --- the bubble against micro-batches


@each_of("name", ch10.PLAYED)
@each_of("ranks, microbatches, chunks", [(2, 4, 2), (4, 8, 2), (8, 32, 4), (16, 64, 3)])
def test_dots_of_played_schedules_lie_on_the_published_curves(name, ranks, microbatches, chunks):
    played = ch10.timeline_of(name, ranks, microbatches, chunks).bubble_fraction
    assert played == pytest.approx(float(ch10.closed_form(name, ranks, microbatches, chunks)))


def test_the_naive_curve_is_flat_and_the_rule_of_four_leaves_a_fifth():
    counts = np.array([1.0, 8.0, 512.0])
    assert ch10.closed_form("naive", 4, counts) == pytest.approx([0.75] * 3)
    assert all(ch10.closed_form("GPipe and 1F1B", ranks, 4.0 * ranks) <= 0.2 for ranks in ch10.STAGES)


@each_of("ranks", [2, 4, 16])
@each_of("overhead", [0.001, 0.02])
def test_the_marked_count_makes_the_shortest_step(ranks, overhead):
    best = ch10.best_count(ranks, overhead)
    least = ch10.lost(ranks, best, overhead)
    assert least < min(ch10.lost(ranks, best * factor, overhead) for factor in (0.7, 0.9, 1.1, 1.4))
    assert ch10.lost(ranks, 8.0, 0.0) == pytest.approx(float(ch10.closed_form("GPipe and 1F1B", ranks, 8.0)))
    assert ch10.best_count(ranks, 0.0) == float("inf")


def test_the_bubble_picture_says_the_played_shares():
    said = ch10.draw_bubble(4, 8).alt
    assert "1F1B 27.3 %" in said and "naive 75 %" in said and "interleaved 1F1B 15.8 %" in said
    assert "interleaved" not in ch10.draw_bubble(4, 6).alt, "six micro-batches make no rounds of four"


# --- all of them


def test_every_choice_of_the_menu_is_drawn_with_the_most_ranks(capsys):
    explorer = ch10.gantt()
    explorer.set(ranks=ch10.RANKS[-1], microbatches=ch10.MICROBATCHES[-1], chunks=ch10.CHUNKS[-1])
    for choice in ch10.CHOICES:
        explorer.set(schedule=choice)
        assert explorer.page()[0].startswith("<img alt=")
    capsys.readouterr()


def test_layers_are_dealt_out_evenly():
    assert LAYERS % RANKS == 0 and f"{LAYERS // RANKS} on each" in layers_apart().alt


# --- numbers of the prose


@each_of("stages, microbatches", [(4, 8), (16, 64)])
def test_shares_in_prose_are_those_of_played_schedules(stages, microbatches):
    played = play(schedules.gpipe(stages, microbatches), Durations(forward=1, backward=2))
    assert bubbles.idle(stages, microbatches) == pytest.approx(played.bubble_fraction)
    assert bubbles.idle_over_work(stages, microbatches) == pytest.approx(played.bubble_over_ideal)


def test_the_first_stage_keeps_as_much_however_many_stages_there_are():
    kept = {stages: float(numbers.plan_peak(stages).activations) for stages in (2, 4, 8)}
    assert kept[2] == pytest.approx(kept[4], rel=0.01) and kept[8] == pytest.approx(kept[4], rel=0.01)


def test_the_plan_uses_every_gpu_and_every_token():
    assert numbers.PLAN.ranks == numbers.GPUS
    assert numbers.PLAN.microbatches * numbers.PLAN.dp * numbers.SEQ == numbers.BATCH
    assert numbers.SHAPE.layers % (numbers.PLAN.pp * numbers.PLAN_CHUNKS) == 0
    assert max(numbers.plan_peaks()) <= numbers.H100.memory


def test_the_published_estimate_is_eighty_four_days():
    assert numbers.MEGATRON.seconds / 86_400 == pytest.approx(84, rel=0.01)
    assert numbers.MEGATRON.bubble == pytest.approx(0.123, abs=0.0005)


# --- the chapter's tables


def test_the_grid_in_time_shows_every_operation_and_the_bubble_as_dots():
    schedule = schedules.one_f_one_b(3, 4)
    lines = [line.split()[2:] for line in in_time(schedule).splitlines()]
    assert [[cell for cell in row if cell != "·"] for row in lines] == [list(map(str, row)) for row in schedule.rows]
    idle = sum(row.count("·") for row in lines)
    assert idle / sum(map(len, lines)) == pytest.approx(bubbles.idle(3, 4))


def test_every_table_of_the_chapter_has_its_rows():
    shown = tables.closed_forms(), tables.published_bubbles(bubble_rates.table(["1.5B"])), tables.border_bytes()
    assert [len(one.data.splitlines()) - 2 for one in shown] == [4, 8, 2]
    (row,) = tables.plan()
    assert row["fits one GPU"] == "yes" and "84 days" in tables.run_length()


def test_the_plan_without_sharded_optimizer_state_needs_more_and_still_fits():
    assert all(many > few for many, few in zip(numbers.plan_peaks(zero=0), numbers.plan_peaks(), strict=True))
    assert max(numbers.plan_peaks(zero=0)) <= numbers.H100.memory


def test_where_no_processes_can_run_a_played_schedule_is_shown(monkeypatch, capsys):
    def refuse(*_, **__):
        raise OSError("no sockets here")

    monkeypatch.setattr(real_processes, "launch", refuse)
    assert real_steps.measured([schedules.naive(2, 8)], None) == {}
    assert "1F1B" in real_steps.busy({}).alt and "no sockets here" in capsys.readouterr().out
