"""Recorded trainings of chapter 04: a run repeats, the file reads back, and the prose's claims are what was
recorded."""

import json

import pytest
import torch

from bench import optimizer as bench
from course_chapters.ch04.exercises import numbers
from course_lib.estimate.facts.optimization import RECORDED, recorded_runs
from course_lib.model.optimizer import AdamW, bias_corrected


@pytest.fixture(scope="module")
def runs():
    """All recorded experiments."""
    return recorded_runs()


def test_a_recorded_run_repeats(runs):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        again = bench.run(256, 25, 1.6e-2)
    finally:
        torch.set_num_threads(threads)
    recorded = runs["batches"]["256, square root"]
    assert again["losses"] == pytest.approx(recorded["losses"], rel=2e-2), "another CPU may round otherwise"
    assert again["held_out"] == pytest.approx(recorded["held_out"], rel=2e-2)


def test_the_file_has_a_line_for_each_run_and_every_experiment(runs):
    assert bench.as_text(runs) == RECORDED.read_text(encoding="utf-8") and json.loads(bench.as_text(runs)) == runs
    assert set(runs) == {*bench.EXPERIMENTS, "machine"} and set(runs["machine"]) == {"processor", "threads", "date"}


def test_a_curve_is_the_mean_of_equal_stretches():
    assert bench.curve([1.0, 2.0, 3.0]) == [1.0, 2.0, 3.0]
    assert bench.curve([float(each) for each in range(100)]) == [2 * each + 0.5 for each in range(50)]


def test_an_unknown_experiment_is_named(capsys):
    with pytest.raises(SystemExit):
        bench.main(["batch"])
    assert "no experiment 'batch'; choose from batches" in capsys.readouterr().err


def test_linear_scaling_wins_at_small_batches_and_loses_at_a_large_one(runs):
    loss = {name: run["held_out"] for name, run in runs["batches"].items()}
    for size in (32, 64):
        assert loss["16"] < loss[f"{size}, linear"] < loss[f"{size}, square root"] < loss[f"{size}, unscaled"]
    assert loss["256, square root"] < loss["256, linear"] < loss["256, unscaled"]
    assert loss["256, square root"] > 3 * loss["16"]
    assert {run["batch"] * run["steps"] for run in runs["batches"].values()} == {bench.SAMPLES}


def test_the_large_batch_is_faster_in_tokens_and_worse_in_loss(runs):
    assert runs["speeds"]["256"] > 1.5 * runs["speeds"]["16"]


def test_warm_up_matters_at_the_high_rate_only(runs):
    loss = {name: run["held_out"] for name, run in runs["warmups"].items()}
    assert abs(loss["rate 0.02, warm-up 0"] - loss["rate 0.02, warm-up 50"]) < 0.01
    assert loss["rate 0.1, warm-up 0"] > 3 * loss["rate 0.1, warm-up 50"]


def test_adamw_keeps_its_loss_under_decay_and_l2_in_adam_does_not(runs):
    loss = {name: run["held_out"] for name, run in runs["decays"].items()}
    assert loss["adamw, 0"] == loss["adam, 0"], "without decay they are one rule"
    assert abs(loss["adamw, 0.1"] - loss["adamw, 0"]) < 0.005 and loss["adam, 0.1"] > 5 * loss["adamw, 0.1"]
    assert runs["decays"]["adam, 0.1"]["norm"] < runs["decays"]["adamw, 0.1"]["norm"] / 10


def test_fewer_different_sequences_train_lower_and_generalize_worse(runs):
    order = [runs["repeats"][name] for name in ("16", "64", "256", "fresh")]
    assert [run["final"] for run in order] == sorted(run["final"] for run in order)
    assert [run["held_out"] for run in order] == sorted((run["held_out"] for run in order), reverse=True)


def test_the_critical_batch_lies_among_the_noise_scales_and_its_fit_is_close(runs):
    fit = numbers.critical_batch()
    for batch, found in runs["critical"].items():
        assert fit.steps(int(batch)) == pytest.approx(found["steps"], rel=0.08)
        assert found["steps"] == min(steps for steps in found["by_rate"].values() if steps)
    middle = [found["samples"] for step, found in runs["noise"].items() if int(step) in (20, 50, 100)]
    assert 0.9 * min(middle) < fit.batch < 1.1 * max(middle)
    for found in runs["noise"].values():
        assert found["two"] == pytest.approx(found["samples"], rel=0.1), "both measurements agree"
    ends = [runs["noise"]["0"], runs["noise"]["400"]]
    assert ends[0]["signal"] / ends[1]["signal"] > ends[0]["noise"] / ends[1]["noise"] > 1


def test_larger_models_and_longer_runs_are_better(runs):
    for kind in ("width", "steps"):
        losses = [run["held_out"] for name, run in runs["sizes"].items() if name.startswith(kind)]
        assert losses == sorted(losses, reverse=True)


def test_the_spike_shrinks_updates_unless_it_is_clipped():
    free, clipped = numbers.spike_updates(), numbers.spike_updates(2.0)
    assert min(free) < 0.15 and free[-1] < 0.5 and max(free) <= 1.0001
    assert min(clipped) > 0.95
    weight = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    adamw = AdamW([weight], lr=1.0, betas=(0.9, 0.95), weight_decay=0.0)
    for step, size in enumerate(free, 1):
        before = weight.item()
        weight.grad = torch.full_like(weight, numbers.SPIKE if step == numbers.SPIKE_AT else 1.0)
        adamw.step()
        assert before - weight.item() == pytest.approx(size, rel=1e-6), "the optimizer's own"


def test_a_restart_at_the_first_step_changes_the_update_as_the_traps_say():
    """Moments at their steady value, corrected as if this were the first step: √(1 − β₂) / (1 − β₁) of the update."""
    steady = torch.ones(1, dtype=torch.float64)
    mean, square = bias_corrected(steady, steady, 1)
    assert (mean / square.sqrt()).item() == pytest.approx(1 / numbers.uncorrected_update(1))
