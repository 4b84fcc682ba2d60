"""Chapter 02's widgets say what the library computes, at every setting of their controls."""

from collections import Counter

import numpy as np
import pytest
from contract.counted import an_account

from course_chapters.ch02 import allocator_steps, step_film
from course_chapters.ch02 import over_time as films
from course_chapters.ch02 import widgets as ch02
from course_chapters.ch02.checkpointing_curve import draw_curve
from course_lib.draw.palette import VERMILION
from course_lib.estimate import facts, memory
from course_lib.estimate.memory import Layout
from course_lib.estimate.units import BILLION, KiB, MiB, bytes_text
from tests.tables import each_of

# --- the stack -------------------------------------------------------------------------------------


@each_of("letter", memory.CONVENTIONS)
def test_the_copies_of_a_convention_are_its_buckets(letter):
    found = Counter()
    for copy in ch02.copies(next(name for name in ch02.RECIPES if name.startswith(f"{letter}: "))):
        found[copy.role] += copy.per_param
    assert found == {name: per for name, per in memory.convention(letter).buckets.items() if per}


@each_of(
    "params, gpu, nbytes, fits, fewest",
    (70e9, "H100 SXM", 1.12e12, False, 14),
    (405e9, "H100 SXM", 6.48e12, False, 81),
    (5e9, "H100 SXM", 80e9, True, 1),
    (13e9, "H200 SXM", 208e9, False, 2),
)
def test_the_four_readouts_are_the_calculators(params, gpu, nbytes, fits, fewest):
    said = ch02.readout(params, gpu)
    assert (said.nbytes, said.fits, said.fewest) == (nbytes, fits, fewest)
    assert said.share == pytest.approx(nbytes / facts.device(gpu).memory)


def test_the_column_grows_copy_by_copy_and_turns_red_above_the_memory():
    heights = [ch02.readout(13 * BILLION, steps=steps).nbytes for steps in range(6)]
    assert heights == sorted(heights) and heights[0] == 0 and heights[-1] == 208e9
    for steps, height in enumerate(heights):
        picture = ch02.draw_stack(13 * BILLION, steps=steps)
        assert (f'stroke="{VERMILION}" stroke-width="2.6"' in picture.svg()) == (height > 80e9), steps
        assert f"13B: {bytes_text(height)} against H100 SXM" in picture.alt


@each_of("recipe", ch02.RECIPES)
def test_five_steps_add_every_copy_and_none_adds_nothing(recipe):
    counts = [ch02.added(recipe, steps) for steps in range(6)]
    assert counts[0] == 0 and counts[-1] == ch02.added(recipe) == len(ch02.copies(recipe)) and counts == sorted(counts)


@each_of("recipe, saved", [("B, Adafactor", 8), ("B, momentum", 4), ("B, plain SGD", 8)])
def test_a_recipe_says_what_it_saves(recipe, saved):
    assert f">saves {saved} bytes per parameter<" in ch02.draw_stack(7 * BILLION, recipe=recipe).svg()


def test_the_drawn_gpus_hold_every_byte_of_the_column():
    edges = np.cumsum([0.0, *(70 * BILLION * copy.per_param for copy in ch02.copies())])
    frames, held, each = ch02.gpu_boxes(edges, 80e9, 14)
    area, whole = (sum((b - a) * (d - c) for a, b, c, d in boxes) for boxes in (sum(held, []), frames))
    assert len(frames) == 14 and each == 1 and area == pytest.approx(whole)


# --- the memory wall -------------------------------------------------------------------------------


@each_of(
    "change", [{}, {"model": "llama3-70b", "dp": 64}, {"tp": 4, "model": "llama3-8b"}, {"pp": 4, "model": "llama3-8b"}]
)
def test_the_buckets_are_those_of_the_fullest_stage(change):
    now = {**ch02.START, **change}
    tp, pp, dp = (now[name] for name in ("tp", "pp", "dp"))
    layout = Layout(tp=tp, sp=tp > 1, pp=pp, dp=dp, zero=3 if dp > 1 else 0, microbatches=pp)
    how = {"kernels": "torch-flash", "dropout": False, "loss": "plain"}
    peak = memory.peak_bytes(now["model"], now["batch"], now["seq"], layout, **how)
    assert sum(ch02.load(**change).values()) == pytest.approx(float(peak))


@each_of(
    "hit, change",
    ("parameters", {"model": "llama3-8b"}),
    ("batch", {"batch": 64, "seq": 16_384}),
    ("sequence length", {"seq": 131_072, "batch": 2}),
)
def test_the_first_slider_that_hit_it_does_so_alone(hit, change):
    assert ch02.share(**change) > 1
    name = next(iter(ch02.hits(**change)))
    assert ch02.NAMES[name] == hit and ch02.share(**{name: change[name]}) > 1
    assert hit in ch02.first_hit(**change) and hit in ch02.draw_wall(**change).alt


def test_where_no_slider_hits_it_alone_the_way_back_is_named():
    change = {"model": "llama3.2-1b", "batch": 8}
    assert ch02.share(**change) <= 1 and "no slider" in ch02.first_hit(**change)
    both = {"model": "llama3.2-3b", "batch": 4}
    assert ch02.share(**both) > 1 and not ch02.hits(**both)
    for name in ch02.ways_back(**both):
        assert ch02.share(**{**both, name: ch02.START[name]}) <= 1
        assert ch02.NAMES[name] in ch02.first_hit(**both)


@each_of("model", ["llama3-8b", "llama3-70b"])
def test_the_fewest_gpus_hold_it_and_one_fewer_does_not(model):
    few = ch02.fewest_ranks(model=model)
    assert ch02.share(model=model, dp=few) <= 1
    assert ch02.share(model=model, dp=few - 1) > 1


def test_shards_do_not_help_where_the_rest_exceeds_the_memory():
    long = {"model": "llama3-70b", "seq": 131_072}
    assert ch02.fewest_ranks(**long) is None
    said = ch02.draw_wall(**long).alt
    assert "No number of shards helps" in said and f"alone take {bytes_text(ch02.unsharded(**long))}" in said


def test_no_knob_of_the_batch_touches_the_state():
    start = {"model": "llama3-70b", "batch": 64}
    state, *others = (
        {name: size for name, size in ch02.load(**{**start, **change}).items() if name in memory.BUCKETS}
        for change in ({}, {"batch": 1}, {"checkpointing": "full"}, {"seq": 2048})
    )
    assert others == [state] * 3


def test_heads_that_cannot_be_split_are_said_where_the_picture_was(capsys):
    explorer = ch02.memory_wall("gpt2")
    explorer.set(tp=8)
    assert "Not possible" in explorer.page()[0] and "attention heads" in explorer.page()[1]
    capsys.readouterr()


# --- two shapes and the ledger ---------------------------------------------------------------------


def test_state_is_flat_over_the_sequence_and_activations_are_not():
    short, long = (ch02.draw_two_shapes("llama3-8b", seq).alt for seq in (1024, 8192))
    state = bytes_text(memory.state_bytes(facts.model("llama3-8b").params))
    assert f"state {state}" in short and f"state {state}" in long
    for _, choices, _, _ in ch02.CURVES:
        assert bytes_text(float(ch02.kept_at_peak("llama3-8b", 1, 8192, **choices))) in long
    fused, stored = (
        [ch02.kept_at_peak("llama3-8b", 1, seq, kernels, "none") for seq in (1024, 8192)]
        for kernels in ("torch-flash", "torch")
    )
    assert fused[1] == 8 * fused[0] and stored[1] > 8 * stored[0]


def test_the_ledger_adds_up_and_grays_what_later_chapters_count():
    plan = Layout(dp=64, zero=3)
    peak = memory.stage_peak("llama3-70b", 1, 8192, plan, kernels="flash", dropout=False, checkpointing="full")
    page = ch02.ledger_rows(peak).data
    assert bytes_text(float(peak.total)) in page and bytes_text(float(peak.activations)) in page
    assert page.count("opacity:0.65") >= 2 * len(ch02._LATER)


# --- over time -------------------------------------------------------------------------------------


def test_a_film_keeps_the_peak_and_every_mark():
    account = an_account()
    shown = step_film.film(account, frames=20)
    assert shown.totals[shown.peak] == account.peak_bytes
    assert {moment for moment, _ in account.marks} <= set(shown.moments)
    assert len(shown.moments) <= 20 + 1 + len(account.marks)


def test_a_frame_says_its_phase_and_its_bytes():
    account = an_account()
    shown, alive = step_film.film(account), np.sum(list(account.timeline().values()), axis=0)
    for frame in (0, len(shown.moments) // 2, shown.peak, 10**6):
        moment = shown.moments[min(frame, len(shown.moments) - 1)]
        assert f"{alive[moment] / KiB:,.2f} KiB alive" in step_film.draw_film(shown, frame).alt
    phase = next(name for moment, name in account.marks if np.argmax(alive) <= moment)
    assert f"is in {phase}" in step_film.draw_film(shown).alt


@each_of("way", allocator_steps.WAYS)
@each_of("scene", allocator_steps.SCENES)
def test_the_allocator_never_holds_more_than_the_device(scene, way):
    for frame in allocator_steps.frames(scene, way):
        assert frame.allocated <= frame.reserved <= allocator_steps.DEVICE
        assert frame.allocated == sum(size for _, blocks in frame.segments for _, size, name in blocks if name)


def test_longer_sequences_fragment_and_both_remedies_help():
    scene = "every step a little longer"
    died, *cured = (allocator_steps.frames(scene, way)[-1] for way in allocator_steps.WAYS)
    assert died.failed and not any(frame.failed for frame in cured)
    most = max(frame.allocated for frame in allocator_steps.frames(scene, "expandable segments"))
    assert most <= allocator_steps.DEVICE  # it was not for want of memory
    assert "Out of memory in forward 5" in allocator_steps.draw_allocator(scene).alt
    assert not allocator_steps.frames("equal lengths", "default")[-1].failed


def test_allocations_of_a_scene_are_those_of_its_steps():
    made = [(name, nbytes) for _, what, name, nbytes in allocator_steps.events((1.0, 2.0)) if what == "malloc"]
    assert sum(nbytes for name, nbytes in made if name.startswith("activations 2.")) == 4 * 72 * MiB
    assert sum(name.startswith("moments") for name, _ in made) == 4


def test_the_curve_says_measured_and_predicted():
    points = {"0 of 2": (18.0, 100, 18.0), "2 of 2": (11.0, 133, 11.0), "c = 2": (19.0, 133, 19.0)}
    said = draw_curve(points).alt
    assert "2 of 2: peak 11, by the formula 11, FLOPs 1.33" in said


def test_every_moment_of_the_slider_is_another_picture(capsys):
    explorer = films.allocator()
    for scene in allocator_steps.SCENES:
        explorer.set(scene=scene)
        said = []
        for moment in explorer.controls["moment"].values[::25]:
            explorer.set(moment=moment)
            said.append(explorer.page()[1])
        assert len(set(said)) == len(said)
    capsys.readouterr()
