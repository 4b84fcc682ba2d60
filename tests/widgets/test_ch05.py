"""Chapter 05's widgets and plots show what the library computes."""

import math

import pytest
import torch

from bench import precision as bench
from course_chapters.ch05 import plots, training
from course_chapters.ch05 import widgets as ch05
from course_chapters.ch05.exercises.numbers import MICROBATCH, NUMBERS, STATE, first_nan
from course_chapters.ch05.recipes import curves, gradient_counts, parameters, recipes, recorded, steps
from course_lib.draw.explore import bits, explore
from course_lib.model import precision
from course_lib.model.precision import mxfp8, number_format, nvfp4
from tests.tables import each_of

# --- widgets ---------------------------------------------------------------------------------------


def test_bits_are_read_in_four_formats():
    said = ch05.draw_bits("0111110000000000").alt
    assert "fp16 reads infinity" in said and "E5M2 reads infinity" in said and "E4M3 reads 384" in said
    assert "E4M3 reads not a number" in ch05.draw_bits("1" * 16).alt
    for wrong in ("01", "2" * 16):
        with pytest.raises(ValueError, match="not a text of sixteen"):
            ch05.draw_bits(wrong)
    with pytest.raises(ValueError, match="0s and 1s"):
        bits("12")


def test_clicking_a_bit_redraws(monkeypatch):
    import ipywidgets

    explorer = explore(ch05.draw_bits, pattern=bits(ch05.ONE, label="bits"))
    row = __import__("course_lib.draw.explore", fromlist=["_row"])._row(
        explorer, ipywidgets, "pattern", explorer.controls["pattern"]
    )
    buttons = [each for each in row.children if isinstance(each, ipywidgets.ToggleButton)]
    assert "".join(button.description for button in buttons) == ch05.ONE
    buttons[0].value = True
    assert explorer.setting["pattern"] == "1" + ch05.ONE[1:] and "fp16 reads -1" in explorer.page()[1]


@each_of("share", ch05.SHARES)
@each_of("form", ch05.FORMATS)
def test_a_walk_keeps_to_values_of_its_format_and_a_master_copy_to_the_nearest_one(form, share):
    paths = ch05.weight_paths(form, share)
    held = torch.tensor([paths[name] for name in ("nearest", "stochastic", "master copy")], dtype=torch.float64)
    assert torch.equal(precision.round_to(held, form), held)
    assert torch.equal(held[2], precision.round_to(torch.tensor(paths["exact"], dtype=torch.float64), form))
    stays = share <= 0.5  # a power of two stays even at half a spacing
    assert (paths["nearest"][1] == 1.0) == stays and (len(set(paths["nearest"])) == 1) == stays


def test_a_lost_update_is_counted_where_it_is_drawn():
    assert "lost 8 of 8 updates" in ch05.draw_lost_update().alt and "lost 0 of 12" in ch05.draw_lost_update(12, 1.0).alt
    past_two = ch05.draw_lost_update(
        12, 1.0, "fp8_e4m3"
    ).alt  # above 2 the spacing doubles, and the same update is lost
    assert "lost 4 of 12" in past_two and "nearest: 2" in past_two


def test_shares_of_the_histogram_are_those_of_the_gradients_themselves():
    gradients = torch.cat([grad.flatten() for grad in training.gradients()]).double()
    zero, counts = gradient_counts()
    assert zero + sum(counts.values()) == parameters() == gradients.numel()
    for power, microbatches, form in ((0, 4096, "fp16"), (20, 4096, "fp16"), (27, 1, "fp16"), (0, 64, "fp8_e5m2")):
        held = precision.round_to(gradients[gradients != 0] / microbatches * 2.0**power, form)
        exact = (held == 0).double().mean().item(), (~held.isfinite()).double().mean().item()
        assert ch05.scaled_shares(power, microbatches, form) == pytest.approx(exact, abs=0.005)


def test_a_loss_scale_moves_gradients_out_of_zero_until_they_overflow():
    shares = [ch05.scaled_shares(power, 4096, "fp16") for power in ch05.SCALES]
    assert [low for low, _ in shares] == sorted((low for low, _ in shares), reverse=True)
    assert [high for _, high in shares] == sorted(high for _, high in shares)
    assert shares[0][0] > 0.05 and shares[0][1] == 0 and shares[-1][1] > 0
    assert any(low < 0.001 and high == 0 for low, high in shares), "some scale loses next to nothing"
    assert all(ch05.scaled_shares(power, 4096, "bf16") == (0, 0) for power in ch05.SCALES)


def test_smaller_blocks_suffer_less_from_an_outlier_and_floats_tolerate_a_moderate_one():
    for form in ("fp8_e4m3", "fp4_e2m1"):
        errors = list(ch05.outlier_errors(4.0**12, form).values())
        assert errors == sorted(errors, reverse=True) and errors[0] > 0.99
    modest = ch05.outlier_errors(4.0**4, "fp8_e4m3")
    assert max(modest.values()) < 1.5 * min(modest.values())


# --- trainings and what was recorded of them ----------------------------------------------------------


@each_of("name", ["nearest", "stochastic", "fp8, one scale per tensor", "gradients summed in bf16"])
def test_a_training_begins_as_the_recorded_one(name):
    now, then = bench.curve(name, 3), recorded(name)
    assert now["losses"] == pytest.approx(then.losses[:3], rel=2e-3)
    assert (now["lost"] or [0.0] * 3) == pytest.approx(then.lost[:3], abs=0.02)
    assert now["bytes_per_parameter"] == then.bytes_per_parameter


def test_every_recipe_is_recorded_in_full():
    assert set(curves()) == set(training.RECIPES)
    assert all(len(each.losses) == len(each.lost) == steps() == training.STEPS for each in curves().values())
    assert training.SHARE * MICROBATCH == training.SHARE * training.BATCH * training.SHAPE.seq_len == 4 * 2**20
    with pytest.raises(ValueError, match="recorded training"):
        recorded("fp2")


def test_recorded_runs_say_what_the_chapter_says():
    final = {name: one.final for name, one in curves().items()}
    assert recorded("master").lost_share < 0.001 and recorded("nearest").lost_share > 0.5
    assert final["nearest"] > final["master"] + 0.2
    assert abs(final["stochastic"] - final["master"]) < 0.05 and abs(final["kahan"] - final["master"]) < 0.05
    assert final["fp16"] > 2 * final["fp16, loss scaled"] and abs(final["fp16, loss scaled"] - final["bf16"]) < 0.02
    assert abs(final["gradients summed in bf16"] - final["gradients summed in fp32"]) < 0.01
    broken = recorded("moments in fp16").losses
    assert broken[1] > 5 * broken[0] and 2 <= first_nan("moments in fp16") < 40 and math.isnan(broken[-1])
    assert abs(final["moments in bf16"] - final["bf16"]) < 0.02
    assert final["fp8, no scale"] > 2 * final["fp8, one scale per tensor"]
    assert abs(final["fp8, one scale per tensor"] - final["fp8, one scale per block"]) < 0.03
    assert final["fp4, one scale per tensor"] > final["fp4, one scale per block"] + 0.1


def test_a_dynamic_scale_skips_a_step_that_overflows():
    recipe = training.Recipe(compute="fp32", scale="dynamic", storage="fp32")
    model = training.transformer.build(training.SHAPE)
    assert training.train(recipe, 2).skipped == 0 and sum(p.numel() for p in model.parameters()) == parameters()


def test_the_learning_rate_warms_up_and_ends_at_a_hundredth():
    rates = [training.learning_rate(step, 200, 1.0) for step in range(200)]
    assert rates[0] == 1 / training.WARMUP and max(rates) == 1.0 and rates[-1] < 0.011


# --- plots and numbers --------------------------------------------------------------------------------


def test_errors_of_sums_stay_within_the_bound_where_there_is_one():
    errors = plots.sum_errors()
    bounded = [place for place, bound in enumerate(errors["bound"]) if bound < math.inf]
    for name in ("one after the other", "in pairs", "Kahan"):
        assert all(errors[name][place] <= errors["bound"][place] for place in bounded), name
    assert errors["one after the other"][-1] > 0.9 and errors["Kahan"][-1] < 0.01


def test_recipes_have_the_formats_and_bits_that_the_library_makes():
    shown = plots.recipes_table().data.splitlines()
    assert [line.split("|")[1].strip().rpartition(" ")[0] for line in shown[2:]] == list(recipes())
    x = torch.randn(64, 32, generator=torch.Generator().manual_seed(1)).flatten()
    for name, made, second in (("MXFP8", mxfp8(x), 0), ("NVFP4", nvfp4(x), 32)):
        one, form = recipes()[name], number_format(recipes()[name].forward)
        assert 8 * made.nbytes == one.bits(1 + form.exponent_bits + form.mantissa_bits) * x.numel() + second
        assert one.tensor_scale_bits == second
    assert f"{recipes()['MXFP8'].bits(8):g}" == NUMBERS["mxfp8_bits"]()
    assert f"{recipes()['NVFP4'].bits(4):g}" == NUMBERS["nvfp4_bits"]()
    # E5M2 without blocks only
    assert {one.backward for one in recipes().values() if one.block} == {"fp8_e4m3", "fp4_e2m1"}


def test_tables_have_a_row_for_each_format_and_training():
    assert plots.format_table().data.count("\n") == len(plots.FLOATS) + 1
    assert "0.1000976562" in plots.rounding_table(0.1).data
    assert plots.recorded_table("fp32", "moments in fp16").data.count("broke") == 1
    growing = [
        float(row.split("|")[2].strip(" %")) for row in plots.accumulation_table((2, 8, 16)).data.splitlines()[2:]
    ]
    assert growing == sorted(growing)


def test_bytes_of_the_plan_and_of_the_optimizer_agree():
    sizes = {name: recorded(name).bytes_per_parameter for name in ("master", "kahan", "nearest")}
    assert sizes["master"] + 2 == STATE == 16 and NUMBERS["bytes_weight_kahan"]() == "4" and sizes["nearest"] == 10
    assert NUMBERS["plan_state"]() in plots.plan_table().data
