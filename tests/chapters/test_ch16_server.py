"""Chapter 16's real server: the recorded run is shown whole, and nothing in it is left out where it was not
measured."""

import math

from course_chapters.ch16 import real_server
from course_runs.reading import Chosen, recorded
from course_runs.serving import Engine, Limits


def shipped():
    return Chosen("recorded", "cpu1/serve", recorded("cpu1/serve"))


def test_the_load_table_has_a_row_for_each_rate_with_prediction_and_measurement():
    run = shipped()
    lines = real_server.load_table(run).data.splitlines()[2:]
    assert len(lines) == len(run.content["raw"]["rows"]) == 6
    first = run.content["measured"]["rows"][0]
    assert f"→ {1e3 * first['ttft']['50']:.1f} |" in lines[0] and "0 → 0" in lines[0]
    run.content["measured"]["rows"][0]["ttft"]["50"] = math.nan  # every request was refused
    assert "→ – |" in real_server.load_table(run).data


def test_the_load_plot_says_in_words_what_it_shows():
    picture = real_server.load_plot(shipped())
    assert picture.alt.startswith("Median time to the first token in ms at 2.6, 5.3") and "measured 3" in picture.alt
    assert all(math.isfinite(limit) for limit in picture.axes[0].get_ylim())


def test_the_iterations_table_stops_where_it_is_told():
    limits = Limits(context=8, pages=4, page_size=2)
    engine = Engine(limits, lambda work: [0] * len(work))
    engine.submit([1, 2, 3], 4)
    steps = [engine.step() for _ in range(4)]
    lines = real_server.iterations_table(steps, 2).data.splitlines()
    assert lines[2:] == ["| 1 | 3 | 0 | 1 | 0 | 2 | 1 |", "| 2 | 0 | 1 | 1 | 0 | 2 | 1 |"]
