"""The Gantt chart of a played schedule: what it shows, says, and refuses."""

import pytest

from course_chapters.ch10.gantt import gantt, gantt_alt
from course_lib.draw import svg
from course_lib.parallel.schedules import GENERATORS, gpipe, one_f_one_b
from course_lib.parallel.timeline import Durations, play
from tests.tables import each_of


@each_of("name", GENERATORS)
def test_every_schedule_can_be_drawn_and_said(name):
    played = play(GENERATORS[name](2, 4), Durations(overlapped=2.5))
    picture = gantt(played, path=True, mark=[(0, 1)])
    assert svg(picture) == svg(gantt(played, path=True, mark=[(0, 1)])), "the same data, the same bytes"
    assert played.schedule.name in picture.alt and "of the ranks' time is idle" in picture.alt
    boxes = [c for c in picture.axes[0].collections if len(c.get_paths()) == sum(map(len, played.schedule.rows))]
    assert boxes, "one box an operation"


def test_the_words_give_the_numbers():
    assert gantt_alt(play(one_f_one_b(4, 8))) == (
        "1F1B on 4 ranks with 8 micro-batches takes 33; 27.3 % of the ranks' time is idle. "
        "At most they hold activations of 1 to 4 micro-batches."
    )


def test_a_mark_frames_its_step_in_red():
    plain, marked = (gantt(play(gpipe(2, 2)), mark=mark).axes[0].collections for mark in ((), [(1, 2)]))
    assert sum(len(c.get_paths()) for c in marked) == sum(len(c.get_paths()) for c in plain) + 1


def test_two_charts_can_share_their_scales():
    wide = gantt(play(one_f_one_b(2, 2)), until=40.0, holds=8.0)
    assert wide.axes[0].get_xlim() == (0, 40.0)


def test_too_much_for_a_picture_is_refused():
    with pytest.raises(ValueError, match="65,536 operations are more than a picture can show"):
        gantt(play(one_f_one_b(32, 1024)))
