"""Chapter 14's widgets, plots and numbers show what the library computes."""

import numpy as np
import pytest
import torch

from course_chapters.ch14 import draw_save, plots, save_film
from course_chapters.ch14 import widgets as ch14
from course_chapters.ch14.exercises import numbers
from course_lib.estimate.units import MINUTE
from course_lib.operate import faults
from tests.tables import each_of


def test_the_strip_shows_every_second_of_the_month_once():
    cells = ch14.month_cells(16_384, 15 * MINUTE, 60.0)
    assert cells.shape == (30, 360, len(ch14.INKS)) and np.allclose(cells.sum(-1), 1.0)
    ledger = ch14.month_of(16_384, 15 * MINUTE, 60.0)
    for place, cause in enumerate(ch14.INKS):
        assert cells[..., place].mean() == pytest.approx(ledger.seconds[cause] / ledger.total, abs=1e-9)
    said = ch14.draw_month().alt
    assert f"{ledger.failures} failures" in said and f"{100 * ledger.goodput:.1f} % useful" in said


def test_a_job_that_is_too_large_makes_no_progress():
    assert ch14.month_of(131_072, 240 * MINUTE, 300.0).goodput < 0.001


def test_the_chosen_interval_is_compared_with_the_best():
    said = ch14.draw_interval(60 * MINUTE).alt
    best = numbers.NUMBERS["best"]()
    assert best in said and numbers.NUMBERS["goodput"]() in said


@each_of("writers", draw_save.WRITERS)
def test_the_film_of_a_save_holds_what_the_disk_holds_and_promises_what_a_crash_leaves(writers):
    film, disk = save_film.saved(writers)
    assert set(film[-1].files) == {str(path).removeprefix("run/") for path, file in disk.entries.items() if file >= 0}
    assert set(film[-1].files.values()) == {"durable"} and film[-1].power == {save_film.NEW: save_film.DISKS}
    renamed = next(place for place, moment in enumerate(film) if "rename the manifest" in moment.did)
    assert {moment.killed for moment in film[:renamed]} == {save_film.OLD}
    assert [place for place, moment in enumerate(film) if len(moment.power) > 1] == [renamed]  # what the text asks for
    assert "fsync the folder" in film[renamed + 1].did
    careless, _ = save_film.saved(writers, fsync=False)
    assert careless[-1].power[0] > save_film.DISKS / 2 and careless[-1].killed == save_film.NEW
    assert f"nothing is loaded on {careless[-1].power[0]} of 12" in draw_save.draw_save(99, writers, fsync=False).alt


@each_of("writers", draw_save.WRITERS)
@each_of("readers", draw_save.READERS)
def test_new_ranks_read_each_byte_once_and_get_what_was_saved(writers, readers):
    film, shares = save_film.loaded(writers, readers)
    spans = sorted((span, rank) for moment in film for rank, span in moment.reads)
    edges = save_film.cuts(readers)
    assert [start for (start, _), _ in spans] == [0, *(stop for (_, stop), _ in spans[:-1])]
    assert spans[-1][0][1] == edges[-1] == save_film.cuts(writers)[-1]
    assert all(edges[rank] <= start < stop <= edges[rank + 1] for (start, stop), rank in spans)
    whole = torch.cat([each.flatten() for each in save_film.state_at(save_film.NEW).values()])
    assert torch.equal(torch.cat([piece for share in shares for piece in share]), whole)


def test_a_higher_threshold_gives_fewer_false_alarms_and_misses_more():
    low, high = ch14.spike_score(3.0, 1, 0.1), ch14.spike_score(12.0, 1, 0.1)
    assert low.false_alarms > high.false_alarms and low.found > high.found
    assert ch14.spike_score(6.0, 5, 1.6).mean_delay > ch14.spike_score(6.0, 1, 1.6).mean_delay
    assert "never in time" in ch14.draw_spike(12.0, 5, 0.1).alt


def test_the_tables_agree_with_the_formulas():
    assert "3.09 h" in plots.rates_table().data and "RSC-1" in plots.rates_table().data
    assert numbers.NUMBERS["young"]() in plots.interval_table().data
    assert "more than 90 %" in plots.against_published().data
    assert f"{faults.expected_max(64, 1.0, 0.03) * 100 - 100:.1f} % on 64" in plots.jitter().alt
    assert "35" in plots.causes().alt and "Faulty GPU 148" in plots.causes().alt
    assert "847 GB" in plots.plan_table().data
    assert "killed, rank 1" in plots.survived_table().data


def test_only_a_complete_checkpoint_goes_on_with_the_same_bits():
    found = plots.left_out()
    assert found[""][0] is None and all(step for item, (step, _) in found.items() if item)
    assert found["optimizer"][0] > 1 < found["schedule"][0]  # not in the first loss
    assert "never: the same bits" in plots.left_out_table().data


def test_every_number_of_the_prose_is_a_text():
    assert all(isinstance(make(), str) and make() for make in numbers.NUMBERS.values())


def test_three_ways_to_lose_a_job_at_one_price():
    rows = [[cell.strip() for cell in line.split("|")[2:-1]] for line in plots.three_cases().data.splitlines()[2:]]
    assert [row[1] for row in rows] == ["31.2 %", "0 %", "until then 100 %"]
    assert "4.9 % on 64, 55 % on 1,000 GPUs" in rows[2][0] and "step zero" in rows[1][0]
    lost = [float(row[2].replace(",", "")) for row in rows]
    assert lost[:2] == [40 * 64 * 44 / 64, 40 * 64] and lost[2] == pytest.approx(0.049 * 40 * 64 / 2, rel=0.02)


def test_validating_at_youngs_interval_costs_least():
    rows = [line.split("|") for line in plots.validation_table().data.splitlines()[2:]]
    both = [float(row[5].strip(" %")) for row in rows]
    assert min(both) == both[2] and "(best)" in rows[2][1] and both[1] > both[2] < both[3]
    cost = plots.validation_seconds()
    assert 3 * cost == pytest.approx(6 * 70.55e9 * plots.VALIDATION / (64 * 989e12 * 0.4), rel=1e-3)


def test_a_restart_and_spares_cost_a_month_what_the_formula_says():
    plan = {"interval": 15 * MINUTE, "cost": 60.0}
    for restart, spares in ((ch14.MINUTE, ch14.ENOUGH), (30 * MINUTE, ch14.ENOUGH), (ch14.RESTART, 8)):
        found = ch14.month_of(16_384, **plan, restart=restart, spares=spares).goodput
        between = faults.mtbf(16_384, ch14.RATE)
        waits = 0.0 if spares == ch14.ENOUGH else faults.waiting_fraction(spares, between, ch14.REPAIR)
        want = (1 - waits) * faults.expected_goodput(plan["interval"], plan["cost"], between, restart)
        assert found == pytest.approx(want, rel=0.05), (restart, spares)
    assert "wait" in ch14.draw_month(spares=4).alt and "wait" not in ch14.draw_month().alt


def test_the_tables_of_lost_hours_and_of_validation_say_what_they_assume():
    assert "1.27 TB of state, 18 bytes per parameter" in plots.three_cases().data
    assert "nothing was saved" in plots.three_cases().data and "expected" in plots.three_cases().data
    heading = plots.validation_table().data.splitlines()[0]
    seconds = 2 * 70.55e9 * 10e6 / (64 * 989e12 * 0.4)  # a forward pass over the held-out tokens
    assert seconds == pytest.approx(55.7, rel=1e-3) and "its cost, 55.7 s each" in heading
    assert "10 million tokens every" in heading and "a fault in 10 days" in heading
