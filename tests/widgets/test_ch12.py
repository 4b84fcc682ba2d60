"""Chapter 12's pictures show what the library computes, and its tables and recorded trainings agree with it."""

import re

import numpy as np
import pytest

from bench import experts as bench
from course_chapters.ch12 import moe_film, moe_run, runs, tables
from course_chapters.ch12 import widgets as ch12
from course_chapters.ch12.exercises import numbers
from course_chapters.ch12.published_experts import recorded
from course_chapters.ch12.traffic_matrix import traffic_matrix
from course_lib.draw.explore import explore
from course_lib.estimate import facts
from course_lib.parallel.expert import costs
from tests.tables import each_of


@each_of("top_k", [1, 2])
@each_of("routing", moe_run.POPULAR)
def test_the_film_of_a_layer_shows_what_its_run_recorded(top_k: int, routing: str) -> None:
    film = moe_run.record(top_k, routing)
    home = [
        [(t + 3 * rank, e) for t, ids in enumerate(each[0]) for e in ids] for rank, each in enumerate(film.run.results)
    ]
    by_expert = [sorted(copies, key=lambda copy: copy[1]) for copies in home]
    arrived = [[copy for copies in by_expert for copy in copies if copy[1] // 2 == rank] for rank in range(4)]
    grouped = [sorted(copies, key=lambda copy: copy[1]) for copies in arrived]
    for stage, want in enumerate((home, by_expert, arrived, grouped, grouped, arrived, by_expert), 1):
        assert [list(map(tuple, memory)) for memory in film.memory[stage]] == want, moe_run.STAGES[stage]
    pairs = film.run.meter.pairs
    for source in range(4):
        for target in range(4):
            went, came = film.rows[0][source][target], film.rows[1][target][source]
            crossing = sum(copy[1] // 2 == target for copy in by_expert[source]) if source != target else 0
            assert went == came == crossing
            if source != target:
                back = film.rows[1][source][target]
                assert pairs[source, target][0] == 4 * moe_run.HIDDEN * (went + back) + 8 * moe_run.LOCAL
    for step in range(len(moe_run.STAGES)):
        lines = moe_film.draw_journey(step, top_k, routing).alt.split("In memory, by token and expert, ")[1]
        assert len(re.findall(r"\d+ for \d", lines)) == (12 * top_k if 0 < step < 8 else 0)


def test_the_film_says_where_the_followed_token_is() -> None:
    film = moe_run.record()
    for rank in range(4):
        said = moe_film.draw_journey(moe_film.DISPATCHED, rank=rank).alt
        for at, memory in enumerate(film.memory[moe_film.DISPATCHED]):
            for place, copy in enumerate(memory):
                assert (f"at place {place} of rank {at} for expert {copy.expert}" in said) == (
                    copy.token == 3 * rank + 1
                )
    assert numbers.NUMBERS["film_crossed"]() in said and len(film.memory[moe_film.BY_EXPERT][1]) > 1


@each_of("top_k", [1, 2])
@each_of("factor", ch12.FACTORS)
def test_buffers_keep_and_drop_every_copy_once(factor: float, top_k: int) -> None:
    for skew in ch12.SKEWS:
        room, kept, dropped = ch12.assigned(factor, skew, top_k)
        assert sum(map(len, kept + dropped)) == ch12.TOKENS * top_k
        if room is None:
            assert not any(dropped)
        else:
            assert max(map(len, kept)) <= room and all(len(kept[e]) == room for e in range(4) if dropped[e])


def test_a_more_popular_expert_drops_more() -> None:
    dropped = [sum(map(len, ch12.assigned(1.0, skew, 1).dropped)) for skew in ch12.SKEWS]
    assert dropped == sorted(dropped) and dropped[0] < dropped[-1]


def test_keeping_by_weight_drops_as_many_but_other_copies() -> None:
    first, heavy = (ch12.assigned(1.0, "expert 0 is popular", 2, by) for by in ("position", "weight"))
    assert list(map(len, first.kept)) == list(map(len, heavy.kept)) and first.kept != heavy.kept


def test_the_wire_and_the_matmul_take_equally_long_at_the_width_in_the_prose() -> None:
    chip = facts.device("H100 SXM")
    for name, field in ch12.LINKS.items():
        width = numbers.wire_width(float(getattr(chip, field)))
        assert ch12.wire_over_matmul(width, name, numbers.MFU, 10**9) == pytest.approx(1)
    tokens, hidden, top_k, ranks, ffn = 100, 64, 4, 8, 2048
    seconds = 2 * costs.even_bytes(tokens, hidden, top_k, ranks) / float(chip.network_one_way)
    matmul = 6 * top_k * tokens * hidden * ffn / (0.5 * float(chip.dense_flops))
    assert ch12.wire_over_matmul(ffn, list(ch12.LINKS)[1], 0.5, ranks) == pytest.approx(seconds / matmul)


def test_the_matrix_says_who_sends_what() -> None:
    said = traffic_matrix([[5, 1], [2, 4]]).alt
    assert "5, 1; 2, 4" in said and "Computed by each: 7, 5" in said


def test_loads_of_the_pictures_are_the_recorded_ones() -> None:
    run = recorded("bias")
    assert f"bias {run.imbalance[-1]:.3g}" in ch12.draw_loads((len(run.imbalance) - 1) * run.every).alt
    assert len(run.imbalance) == len(run.last_layer) == -(-len(run.losses) // run.every)
    explorer = explore(ch12.draw_loads, step=ch12.play(ch12.MARKS, 0))
    assert np.isclose(sum(run.last_layer[0]), bench.SIZE * bench.SHAPE.seq_len * 2) and explorer.setting == {"step": 0}


def test_recorded_trainings_are_those_that_the_program_makes() -> None:
    for name in ("balance loss", "capacity 1, no balancing"):
        made = bench.run(bench.RUNS[name], 3)
        assert made["losses"] == pytest.approx(recorded(name).losses[:3], abs=2e-3)
        assert (made["parameters"], made["active"]) == (recorded(name).parameters, recorded(name).active)


def test_what_the_prose_says_about_the_trainings_holds() -> None:
    final = {name: recorded(name).final for name in bench.RUNS}
    assert final["dense, same parameters"] < final["balance loss"] < final["dense, same FLOPs"]
    assert max(final["no balancing"], final["balance loss"], final["bias"]) < final["capacity 1, balance loss"]
    assert recorded("no balancing").settled > 1.5 * recorded("balance loss").settled


def test_the_metered_layer_is_predicted_to_the_byte() -> None:
    measured = runs.measured_layer()
    predicted = costs.layer_bytes(measured.counts, runs.HIDDEN, 4)
    assert measured.run.meter.bytes_sent == predicted and len(set(predicted)) > 1
    assert measured.bytes_table(predicted).data.count("| 1.000 |") == runs.RANKS


def test_tables() -> None:
    doubled, right = runs.wrong_scale().data.splitlines()[2:]
    assert doubled.split("|")[2:4] == [" 1.000 ", " 2.000 "] and right.split("|")[2:4] == [" 1.000 ", " 1.000 "]
    hops = [line.split("|") for line in runs.two_hops().data.splitlines()[2:]]
    assert [float(cells[4].split()[0]) for cells in hops] == sorted(
        (float(cells[4].split()[0]) for cells in hops), reverse=True
    )
    assert "671 billion | 37.6 billion" in tables.published().data
    dense = numbers.PLAN_CHOICES["dense"]
    assert dense is None and all(
        numbers.active_parameters(shape) == pytest.approx(numbers.DENSE.params, rel=1e-3)
        for shape in numbers.PLAN_CHOICES.values()
    )
    assert all(tables.plan_table().data.count(choice) == 1 for choice in numbers.PLAN_CHOICES)


def test_a_shared_expert_hides_at_most_the_dispatch() -> None:
    cells = [line.split("|")[1:4] for line in runs.shared_expert_times((0.0, 0.5, 1.0, 1.5)).data.splitlines()[2:]]
    first, during = ([float(row[column].split()[0]) for row in cells] for column in (1, 2))
    assert len(set(first)) == 1
    assert during == pytest.approx([share * first[0] for share in (1, 0.75, 0.5, 0.5)], rel=0.01)


def test_a_router_rounded_at_its_output_has_ties() -> None:
    exact, rounded = (line.split("|") for line in runs.router_flips(512, 64, 64, 4).data.splitlines()[2:])
    assert exact[3].strip() == "0 %" and float(rounded[3].split()[0]) > 50
    assert 0 < float(exact[2].split()[0]) < float(rounded[2].split()[0]) < 5
