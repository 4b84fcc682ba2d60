"""Chapter 03's pictures: every setting draws, says what the library says, and the committed copies are the code's."""

import re

import pytest

from course_chapters.ch03 import plots, roofline_map, tables
from course_chapters.ch03 import widgets as ch03
from course_chapters.ch03.measured_roofline import Run
from course_chapters.ch03.roofline import Point, Roof
from course_chapters.ch03.roofline import roofline as draw_roof
from course_chapters.ch03.server import server
from course_lib.estimate import facts, roofline
from tests.tables import each_of

# --- the roofline ------------------------------------------------------------------------------


@each_of("kernel", ch03.KERNELS)
@each_of("wire", ch03.WIRES)
def test_the_picture_names_the_roof_that_the_library_finds(kernel, wire):
    machine = roofline.machine("H100 SXM", wire=ch03.WIRES[wire])
    for batch in (1, 512, 8192):
        found = roofline.place(ch03.KERNELS[kernel](batch), machine)
        assert f"bound by {found.bound}:" in ch03.draw_roofline("H100 SXM", kernel, batch, wire).alt


def test_decode_climbs_to_the_ridge_and_attention_over_a_cache_does_not():
    h100 = roofline.machine("H100 SXM", wire="link")
    decode, cached = ch03.KERNELS["decode, 70B over 8 devices"], ch03.KERNELS["attention over a KV cache"]
    assert decode(1).memory_intensity == pytest.approx(1)
    assert roofline.place(decode(256), h100).bound == "memory" and roofline.place(decode(512), h100).bound == "compute"
    assert cached(1).memory_intensity == pytest.approx(cached(4096).memory_intensity)
    assert roofline.place(cached(4096), h100).bound == "memory"


@each_of("wire", ["link", "network"])
def test_a_training_step_leaves_the_network_roof_at_two_thirds_of_its_ridge(wire):
    machine = roofline.machine("H100 SXM", wire=wire)
    least = 4 / 6 * machine.network_ridge
    step = ch03.KERNELS["linear layer, training step"]
    assert roofline.place(step(int(least * 0.99)), machine).bound == "network"
    assert roofline.place(step(int(least * 1.01) + 1), machine).bound == "compute"


def test_a_roof_is_where_its_two_parts_meet_and_says_so():
    roof = Roof(peak=1e15, bandwidth=5e12)
    assert roof.ridge == 200 and roof.at(100) == 5e14 and roof.at(400) == 1e15
    alt = draw_roof(roof, [Point("left", 20), Point("right", 2000), Point("measured", 2000, 4e14)], title="three").alt
    assert "left: 20 FLOP per byte, 100 TFLOP/s, under the memory roof" in alt
    assert "right: 2,000 FLOP per byte, 1,000 TFLOP/s, under the compute roof" in alt
    assert "measured: 2,000 FLOP per byte, 400 TFLOP/s" in alt


def test_no_dashed_line_runs_through_a_name_under_the_roof():
    points = [Point(side, 20, side=side) for side in ("left", "right", "over", "under")]
    axes = draw_roof(Roof(peak=1e15, bandwidth=5e12), points).axes[0]
    grounds = {text.get_text(): text.get_bbox_patch() for text in axes.texts}
    assert all(grounds[point.name] is not None for point in points)


def test_measured_kernels_stand_where_they_were_measured_and_copies_nowhere():
    runs = [
        Run("matmul 64", 2.0 * 64**3, 3 * 4 * 64**2, (1e-5,)),
        Run("copy 1 MB", 0, 1e6, (1e-4,)),
        Run("matmul 512", 2.0 * 512**3, 3 * 4 * 512**2, (1e-3,)),
    ]
    alt = ch03.draw_measured(runs, 3e11, 2e10, "a machine").alt
    assert "matmul 64: 10.7 FLOP per byte, 52.4 GFLOP/s" in alt and "matmul 512: 85.3" in alt and "copy" not in alt


def test_the_map_has_all_three_regions_inhabited():
    alt = roofline_map.transformer_map().alt
    assert all(f": {part}" in alt for part in roofline.PARTS)
    assert "decode, batch 1: memory" in alt and "8,192: compute" in alt


# --- tiles, chip, levels, generations ----------------------------------------------------------


@each_of("tile", ch03.SIDES)
def test_a_tile_of_side_t_reads_at_half_its_side_in_16_bits(tile):
    alt = ch03.draw_tiles(tile, ch03.FRAMES).alt
    loads = roofline.tile_loads(ch03.SIDE, ch03.SIDE, ch03.SIDE, tile, tile)
    assert 2 * ch03.SIDE**3 / (2 * loads) == tile / 2
    assert re.match(rf"A tile of {tile}: {tile // 2:,} FLOP per byte read", alt)


def test_a_chip_multiplies_out_to_its_sheet():
    for name in facts.chips():
        core, gpu = ch03.draw_chip("tensor core", name).alt, ch03.draw_chip("GPU", name).alt
        assert f"{facts.chip(name).sms:g} SMs" in gpu and "multiply-adds, each of them two FLOP" in core
    assert "= 989.4 TFLOP/s" in ch03.draw_chip("GPU", "H100 SXM").alt
    with pytest.raises(ValueError, match="tensor core, SM, GPU"):
        ch03.draw_chip("die")


def test_the_zoom_says_what_the_levels_say():
    levels = roofline.levels("Llama 3 cluster")
    alts = [ch03.draw_zoom(place).alt for place in range(len(levels))]
    assert all(f"{level.devices:,} devices" in alt for level, alt in zip(levels[1:], alts[1:], strict=True))
    assert "50 GB/s one way: 9 × slower" in alts[2] and "as fast as one level in" in alts[3]
    assert "7.14 GB/s one way, 7 : 1 oversubscribed: 7 × slower" in alts[4]
    assert ch03.draw_zoom(4, "DGX H100 server").alt == ch03.draw_zoom(1, "DGX H100 server").alt  # past the last level


def test_a_torus_has_neighbors_and_no_halves_between_switches():
    alt = ch03.draw_zoom(1, "TPU v5p pod").alt
    assert "540 GB/s one way, to its neighbors in the torus together" in alt and "bisection" not in alt
    assert "Half of it can send 76.8 TB/s to its other half (bisection)" in ch03.draw_zoom(3).alt


def test_generations_keep_dense_and_sparse_one_way_and_both_ways_apart():
    assert "2,250 TFLOP/s, 446 × the K40 of 2013 (fp32)" in ch03.draw_generations("peak", "B200 SXM").alt
    assert "4,500 TFLOP/s" in ch03.draw_generations("peak", "B200 SXM", printed=True).alt
    assert "450 GB/s" in ch03.draw_generations("link", "H100 SXM").alt
    assert "900 GB/s" in ch03.draw_generations("link", "H100 SXM", printed=True).alt
    assert "no value with a source" in ch03.draw_generations("link", "K40").alt
    with pytest.raises(ValueError, match="choose from peak"):
        ch03.draw_generations("price")


# --- tables and plots of the chapter -----------------------------------------------------------


def test_the_server_says_what_one_gpu_gets_inside_and_outside():
    alt = server("H100 SXM").alt
    assert "8 H100s" in alt and "450 GB/s" in alt and "50 GB/s" in alt and "shared by its 7 peers" in alt


def test_tables_say_what_the_library_says():
    shape, machine = facts.model("llama3-70b"), roofline.machine("H100 SXM", wire=None)
    rows = tables.operators(shape, 4096, machine).data
    assert re.search(r"attention, scores written \|[^|]*\| memory", rows)
    assert re.search(r"attention, fused \|[^|]*\| compute", rows)
    counted = tables.loads_by_cache(96, 16).data
    assert "| three tiles | 55,296 | 55,296 | 1.00 |" in counted
    assert "| all three matrices | 9,216 | 9,216 | 0.17 |" in counted
    steps = tables.roofs_by_tokens((512, 16_384)).data
    assert steps.count("network") == 2 and steps.count("compute, 100 % of peak") == 2
    assert "| cluster | 24,576 | 7.14 GB/s | 14.3 GB/s | 57.1 GB/s |" in tables.levels("Llama 3 cluster").data
    assert "989.4 TFLOP/s" in tables.peaks_from_counts().data and "H100 SXM" in tables.best_matmuls().data
    assert "122" in tables.torus_sums(facts.device("TPU v5p"), (16, 20, 28), 140e9).data
    assert tables.devices().data.count("\n") == len(facts.devices(announced=True)) + 1
    assert tables.devices().data.count("(announced)") == 2
    assert "dip beyond 2,000" in plots.waves(128, 132).alt
