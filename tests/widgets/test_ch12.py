"""Chapter 12's pictures show what the library computes, and its tables and recorded trainings agree with it."""

import numpy as np
import pytest

from bench import experts as bench
from course_chapters.ch12 import runs, tables
from course_chapters.ch12 import widgets as ch12
from course_chapters.ch12.exercises import numbers
from course_chapters.ch12.published_experts import recorded
from course_chapters.ch12.token_exchange import FRAMES, token_exchange, traffic_matrix
from course_lib.draw.explore import explore
from course_lib.estimate import facts
from course_lib.parallel.expert import costs
from tests.tables import each_of


@each_of("top_k", [1, 2])
@each_of("factor", ch12.FACTORS)
def test_the_journey_keeps_and_drops_every_copy_once(factor: float, top_k: int) -> None:
    for skew in ch12.SKEWS:
        shown = ch12.exchange(factor, skew, top_k)
        assert sum(shown.loads) + shown.dropped == ch12.RANKS * ch12.TOKENS * top_k
        if factor == float("inf"):
            assert shown.dropped == 0
        else:
            assert max(shown.loads) <= ch12.RANKS * shown.capacity
        assert FRAMES[top_k + 3] in token_exchange(shown, top_k + 3).alt


def test_a_more_popular_expert_drops_more() -> None:
    dropped = [ch12.exchange(1.0, skew, 1).dropped for skew in ch12.SKEWS]
    assert dropped == sorted(dropped) and dropped[0] < dropped[-1]


def test_keeping_by_weight_drops_as_many_but_other_copies() -> None:
    first, heavy = (ch12.exchange(1.0, "expert 0 is popular", 2, by) for by in ("position", "weight"))
    assert first.loads == heavy.loads and (first.kept != heavy.kept).any()


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
    assert len(set(first)) == 1 and during == pytest.approx(
        [share * first[0] for share in (1, 0.75, 0.5, 0.5)], rel=0.01
    )


def test_a_router_rounded_at_its_output_has_ties() -> None:
    exact, rounded = (line.split("|") for line in runs.router_flips(512, 64, 64, 4).data.splitlines()[2:])
    assert exact[3].strip() == "0 %" and float(rounded[3].split()[0]) > 50
    assert 0 < float(exact[2].split()[0]) < float(rounded[2].split()[0]) < 5
