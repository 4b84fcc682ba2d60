"""Chapter 01's widgets say what the library computes."""

import math
import re

import pytest

from course_chapters.ch01 import plots, tables, walls
from course_chapters.ch01 import widgets as ch01
from course_chapters.ch01.transformer_layer import layer_weights, transformer_layer
from course_lib.estimate import compute, facts
from course_lib.estimate.units import BILLION, DAY, TRILLION, bytes_text
from course_lib.operate import capstone

# --- chapter 01 -----------------------------------------------------------------------------------------


def test_the_first_wall_of_the_picture_is_that_of_the_library():
    small = ch01.draw_budgets(1 * BILLION, gpus=8)
    assert "no wall" in small.alt and "All within budget" in small.alt
    large = ch01.draw_budgets(70 * BILLION, gpus=8)
    h100 = facts.device("H100 SXM")
    job = walls.Job(
        params=70e9,
        tokens=0.3e12,
        step_tokens=5e5,
        device_memory=h100.memory,
        flops_per_s=h100.dense_flops,
        target_step_s=10,
        deadline_s=90 * DAY,
        devices=8,
    )
    assert f"First wall: {walls.walls(job).first}" in large.alt


def test_years_become_weeks_at_the_same_price():
    one = ch01.draw_years_to_weeks(70 * BILLION, 15 * TRILLION, gpus=1, mfu=0.4)
    many = ch01.draw_years_to_weeks(70 * BILLION, 15 * TRILLION, gpus=16384, mfu=0.4)
    assert "505 years" in one.alt and "11.2 days" in many.alt
    assert re.search(r"\$[\d.]+ million", one.alt)[0] == re.search(r"\$[\d.]+ million", many.alt)[0]


def test_two_baselines_give_two_wastes():
    alt = ch01.draw_cost(gpus=1024, days=30, price=2.0, mfu=0.35, achievable=0.5).alt
    assert "100 % of peak 65 % is wasted" in alt and "achievable 50 % 30 % is wasted" in alt


def test_the_widget_has_a_scenario_that_says_stay_on_one_gpu():
    assert "stay on one device" in ch01.draw_triage(1 * BILLION, tokens=0.01 * TRILLION)
    assert "08 sharded data parallel" in ch01.draw_triage(70 * BILLION)
    assert "neither trained nor served" in ch01.draw_triage(70 * BILLION, tokens=0.0, qps=0.0)


def test_a_step_is_bound_by_its_longest_part():
    assert "bound by communication" in ch01.draw_step(100, 180, 60).alt
    assert "nothing overlaps" in ch01.draw_step(100, 180, 60, overlap=False).alt


def test_runs_are_dated_and_sourced():
    figure = ch01.draw_runs("accelerators", "BLOOM 176B")
    assert "from Transformer (big) in 2017 (8) to Llama 3.1 405B in 2024 (16,384)" in figure.alt
    with pytest.raises(ValueError, match="FLOP, accelerators, parameters"):
        ch01.draw_runs("price")


def test_the_cost_of_a_run_is_that_of_the_library():
    seconds = compute.train_seconds(70e9, 15e12, facts.device("H100 SXM").dense_flops, 0.4)
    bill = compute.cost_usd(compute.device_hours(seconds, 1), facts.price("H100 hour"))
    assert f"${bill / 1e6:.2f} million" in ch01.draw_years_to_weeks().alt


# --- tables and plots of the chapter ------------------------------------------------------------------------


def test_the_waterfall_ends_at_the_published_mfu():
    for name, causes in (("Llama 3.1 405B", 2), ("MT-NLG 530B", 3)):
        run = facts.run(name)
        kept = plots.waterfall_stairs(run)
        assert len(kept) == causes and math.prod(kept.values()) == pytest.approx(float(run.mfu), rel=0.02)
    assert "MFU 30.2 %" in plots.loss_waterfall("MT-NLG 530B").alt


def test_the_seven_matrices_of_a_layer_make_up_the_model():
    shape = facts.model("llama3-70b")
    layers = shape.layers * sum(a * b for a, b in layer_weights(shape).values())
    embeddings = 2 * shape.vocab * shape.hidden if hasattr(shape, "vocab") else shape.params - layers
    assert layers + embeddings == pytest.approx(shape.params, rel=1e-4)
    assert "856 million parameters in seven matrices" in transformer_layer(shape).alt


def test_published_mfus_are_reproduced_within_half_a_point():
    rates = [run for run in facts.runs().values() if run.get("mfu") and run.name != "Llama 3.1 405B"]
    assert all(abs(ours - run.mfu) < 0.006 for run in rates if (ours := tables.recomputed_mfu(run)))


def test_guesses_and_labels_may_be_left_open():
    open_guess, guess = (tables.largest_models({"H100 SXM": size}).data for size in (None, 10))
    assert "| – |" in open_guess and "10B, 2.00 × the answer" in guess
    judged = tables.labeled_symptoms([None, "memory", "cost", *[None] * 7]).data
    assert judged.count("not labeled yet") == 8 and judged.count("try again") == 1 and judged.count("| right |") == 1


def test_the_ledger_of_axes_has_the_bytes_of_the_capstones_table():
    sent = {one.name: one.sent for one in capstone.parallelisms()}
    rows = {line.split("(")[1].split(")")[0]: line.split("|") for line in plots.axis_ledger().data.splitlines()[2:]}
    assert set(rows) == set(plots.AXES)
    for name, row in rows.items():
        assert row[3].strip() == bytes_text(sent[name]) and int(row[4].replace(",", "")) > 200
