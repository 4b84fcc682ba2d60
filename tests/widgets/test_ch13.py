"""Chapter 13's widgets and tables say what meshes, wires and plans say."""

from itertools import permutations

import pytest

from course_chapters.ch13 import mesh_film, parity, tables
from course_chapters.ch13 import plan_widgets as ch13_plans
from course_chapters.ch13 import regimes as ch13
from course_chapters.ch13.cube import flat
from course_chapters.ch13.exercises import numbers
from course_chapters.ch13.triangle import MOVES, triangle
from course_grader import exercises
from course_lib.parallel.mesh import Mesh
from tests.tables import each_of


def test_the_placement_says_the_groups_and_the_place_among_all_orders():
    best = ch13_plans.draw_placement("tp cp dp pp", 21).alt
    assert "tp 10.7 s over NVLink" in best and "place 1 of 6" in best and "dp [21, 29]" in best
    assert str(list(Mesh({"pp": 4, "dp": 2, "tp": 8}).group(21, "pp"))) in best
    places = {ch13_plans.draw_placement(" ".join(order)).alt for order in permutations(ch13_plans.PLACES)}
    assert sum("place 1 of" in alt for alt in places) >= 1 and any("network" in alt.split(";")[0] for alt in places)


def test_a_preset_moves_all_controls_and_what_cannot_be_is_said():
    explorer = ch13_plans.strategy("7B on 8 GPUs")
    assert "does not fit" in explorer.page()[1]
    ch13_plans.apply(explorer, "405B on 128 GPUs")
    assert "fits: 60.8 GB of 80 GB; 4 replicas of 32 GPUs" in explorer.page()[1] and explorer.setting["tp"] == 8
    explorer.set(gpus=1)
    assert "Not possible" in explorer.page()[1] and "that fit are 32" in explorer.page()[1]


def test_a_cube_seen_from_any_side_keeps_distances_and_colors_follow_the_largest_load():
    ends = [flat(place, 0, 0) for place in ((0, 0, 0), (1, 0, 0), (0, 0, 1))]
    assert ends[1][0] - ends[0][0] == pytest.approx(ends[2][1] - ends[0][1]) and ends[0][0] == ends[2][0]
    one, turned = ch13.draw_cube(turn=0), ch13.draw_cube(turn=90)
    assert one.svg() != turned.svg() and one.alt.split("Chosen")[0] == turned.alt.split("Chosen")[0]
    assert "Llama 3.1 405B 81, 289, 0.399 (compute)" in one.alt and "1B 0.2, " in one.alt


def test_mechanisms_on_the_front_are_beaten_by_none():
    ways = ch13_plans.ways_of("70B", 64, 400, "H100 SXM")
    for one in ways:
        beaten = any(o.memory <= one.memory and o.seconds <= one.seconds and o != one for o in ways)
        assert one.best != beaten


def test_every_strategy_of_the_triangle_is_named_once():
    assert len({name for name, *_ in MOVES}) == len(MOVES) and all(name in triangle().alt for name, *_ in MOVES)


def test_tables_quote_what_the_library_computes():
    assert "| server | 8 | 450 | 900 |" in tables.levels().data and "÷ 9 |" in tables.levels().data
    assert tables.recipes().data.count("| 16,384 |") >= 2
    assert "best that fits" in tables.hsdp().data and numbers.NUMBERS["least_group"]() == "128"
    assert max(parity.apart({"dp": 2, "cp": 2})) < 1e-12
    assert sum(card.minutes for card in exercises.cards("13") if card.kind == "core") <= 90


def test_number_formats_are_a_point_of_the_trade_off():
    held = {way.name: way for way in ch13_plans.ways_of("70B", 64, 400, "H100 SXM")}
    mixed, narrow = held["DP"], held["DP, all in bf16"]
    assert narrow.memory < 0.6 * mixed.memory
    assert narrow.seconds == pytest.approx(mixed.seconds / 2, rel=0.01), "its gradients travel in 16 bits, not in 32"


def test_the_step_of_sharded_groups_is_computed_at_the_rate_that_the_page_names():
    computing = 6 * 405.853e9 * 16 * 2**20 / 16_384 / 794.5e12
    assert numbers.NUMBERS["hsdp_computing"]() == f"{computing:.2f} s" == "3.14 s"
    assert numbers.NUMBERS["hsdp_rate"]().startswith("79") and numbers.NUMBERS["hsdp_rate"]().endswith("TFLOP/s")


def test_the_explorer_sends_gradients_as_wide_as_it_holds_them():
    start = ch13_plans.PRESETS["7B on 8 GPUs"]
    sheet = ch13_plans.draw_strategy(**{**ch13_plans.START, **start}).alt
    assert "gradients 13.5 GB" in sheet and "dp 23.6 GB over NVLink" in sheet


@each_of("order", mesh_film.ORDERS)
def test_the_film_of_a_step_shows_what_its_run_recorded(order):
    film = mesh_film.record(order)
    mesh = Mesh(dict.fromkeys(mesh_film.ORDERS[order], 2))
    sent = [each for scene in film.scenes for each in scene]
    assert len(sent) == len(film.run.messages) and [mesh.coordinates(rank) for rank in range(16)] == list(film.at)
    for level, border in (("node", False), ("network", True)):
        inside = [each.message.nbytes for each in sent if each.border == border]
        assert (sum(inside), len(inside)) == film.run.meter.levels[level]
    for message, axis, _ in sent:
        assert message.dst in mesh.group(message.src, *axis.split(" × "))
    hops = film.scenes[mesh_film.GRADIENTS : -1]
    assert len(hops) == 2 * mesh_film.HOPS
    for hop in hops:
        ways = {message.src: message.dst for message, *_ in hop}
        assert len(ways) == len(hop) == 16
        for rank, after in ways.items():
            group = mesh.group(rank, "dp", "cp")
            ring = sorted(group)
            assert after == ring[(ring.index(rank) + 1) % 4]
            assert {film.weights[each] for each in group} == {film.weights[rank]}, "the same part of the weights"
    for rank in range(16):
        nbytes = sum(message.nbytes for hop in hops for message, *_ in hop if message.src == rank)
        assert nbytes == 2 * 3 / 4 * film.weights[rank] * 8


def test_both_orders_send_the_same_along_each_axis_and_the_film_says_what_crosses():
    last = len(mesh_film.SCENES) - 1
    inner, outer = (mesh_film.record(order) for order in mesh_film.ORDERS)
    for axis in ("tp", "cp", "pp", mesh_film.BOTH):
        assert len({sum(film.nbytes(axis, border, last) for border in (True, False)) for film in (inner, outer)}) == 1
    assert numbers.NUMBERS["film_inside"]() + " of 650 kB across borders" in mesh_film.draw_step(last).alt
    assert "417 kB of 650 kB across borders" in mesh_film.draw_step(last, "dp inside the servers").alt
    assert "384 of 384 messages across" in mesh_film.draw_step(1, "dp inside the servers").alt
    assert "ranks 0, 2, 8, 10: 2,080 weights" in mesh_film.draw_step(mesh_film.GRADIENTS).alt
