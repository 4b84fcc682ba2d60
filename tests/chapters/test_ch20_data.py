"""Chapter 20's data, validation, energy and checklist: against plain forms and closed forms."""

import importlib
import math
import random
import shlex
from pathlib import Path

import numpy as np
import pytest
import typer

from course_app.cli import app
from course_app.cli.run import PROGRAMS
from course_chapters.ch20 import checklist, data_plots, data_run, data_shards, energy, prefetch, validation
from course_chapters.ch20.data_mixture import Mixture, share
from course_lib.estimate import facts
from course_lib.messages import Trouble
from course_runs import evidence
from course_runs.evidence_checks import gates
from tests.tables import each_of

TOKENS = np.arange(1000) * 7 % 60_000


@each_of("shard, seq_len", [(64, 16), (100, 16), (999, 10), (7, 20), (2000, 99)])
def test_samples_of_shards_are_those_of_the_whole_row(tmp_path, shard, seq_len):
    folder = tmp_path / f"{shard}-{seq_len}"
    dataset = data_shards.open_dataset(data_shards.write_shards(TOKENS, folder, shard, seq_len))
    assert dataset.samples == 999 // seq_len
    for number in range(dataset.samples):
        assert dataset.sample(number).tolist() == TOKENS[number * seq_len : (number + 1) * seq_len + 1].tolist()
    with pytest.raises(IndexError, match="which has"):
        dataset.sample(dataset.samples)


def test_a_shard_that_is_missing_short_or_damaged_is_named(tmp_path):
    folder = data_shards.write_shards(TOKENS, tmp_path / "shards", 300, 16)
    (folder / "shard-00000.bin").unlink()
    (folder / "shard-00001.bin").write_bytes(b"short")
    (folder / "shard-00002.bin").write_bytes(b"x" * 600)
    with pytest.raises(Trouble) as trouble:
        data_shards.open_dataset(folder)
    for words in ("00000.bin is missing", "00001.bin has 5 bytes of 600", "00002.bin has another checksum"):
        assert words in trouble.value.problem
    (folder / data_shards.INDEX).write_text('{"seq_len": 16}')
    with pytest.raises(Trouble, match="no index of shards"):
        data_shards.open_dataset(folder)
    (folder / data_shards.INDEX).unlink()
    with pytest.raises(Trouble, match="has no index"):
        data_shards.open_dataset(folder)


@each_of(
    "make, words",
    [
        (lambda: data_shards.write_shards([1, 2], Path(), 5, 2), "no sample of 2"),
        (lambda: data_shards.write_shards([1, 70_000, 3], Path(), 5, 2), "holds 0 to 65,535"),
        (lambda: data_shards.SlowStore(-1, 1), "latency"),
        (lambda: Mixture({"a": 5}, {"b": 1.0}), "are not the same"),
        (lambda: Mixture({"a": 5, "b": 5}, {"a": 0.5, "b": 0.4}), "add up to 1"),
        (lambda: Mixture({"a": 5, "b": 5}, {"a": 1.5, "b": -0.5}), "positive"),
        (lambda: share([], 3, 3), "rank is 3"),
        (lambda: prefetch.depth_for(1.2, 0, 1), "slower than the step"),
        (lambda: prefetch.depth_for(1, -1, 1), "pause is -1"),
        (lambda: prefetch.depth_for(1, 2, 1), "slower"),
        (lambda: prefetch.play([1.0], 0, 1), "more than 0 s"),
        (lambda: validation.mean_delay(10, 1, 0), "check is 0"),
        (lambda: validation.lost_share(10, 1, 1, -5), "between is -5"),
        (lambda: prefetch.play([], 0, 1), "more than 0 s"),
        (lambda: prefetch.depth_for(math.nan, 0, 1), "read is nan"),
        (lambda: energy.intensity(-1, 1), "tonnes is -1"),
        (lambda: Mixture({}, {}), "at least one dataset"),
        (lambda: energy.energy_kwh(8, 1, -700), "watts is -700"),
        (lambda: energy.energy_kwh(8, 1, 700, 0.9), "1 or more"),
        (lambda: energy.carbon_tonnes(-1, 400), "kwh is -1"),
        (lambda: energy.intensity(1, 0), "kwh is 0"),
        (lambda: data_run.Plan(stop=24), "before its end"),
        (lambda: data_run.Plan(after=13), "none to read"),
    ],
)
def test_bad_input_is_an_error_that_names_it(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@each_of("seed", range(8))
def test_a_mixture_keeps_its_weights_and_resumes_anywhere_on_any_ranks(seed):
    coin = random.Random(seed)
    parts = [coin.randint(1, 30) for _ in range(coin.randint(2, 6))]
    names = [f"set {at}" for at in range(len(parts))]
    mixture = Mixture(
        {name: coin.randint(3, 40) for name in names},
        {name: part / sum(parts) for name, part in zip(names, parts, strict=True)},
        seed,
    )
    whole, end = mixture.batch(mixture.start, 300)
    for name, taken in zip(names, end, strict=True):
        assert abs(taken - 300 * mixture.weights[name]) < len(names)
        own = [number for each, number in whole if each == name]
        size = mixture.samples[name]
        for epoch in range(len(own) // size):
            assert sorted(own[epoch * size : (epoch + 1) * size]) == list(range(size))
    found, position = [], mixture.start
    for _ in range(25):
        batch, position = mixture.batch(position, 12)
        ranks = coin.randint(1, 13)
        found += [sample for rank in range(ranks) for sample in share(batch, rank, ranks)]
    assert found == whole and position == end


@each_of("depth, read, pause", [(0, 0.7, 2), (1, 0.7, 2), (2, 0.7, 2), (3, 0.7, 2), (2, 1.5, 0), (4, 0.9, 3.1)])
def test_waits_follow_from_the_closed_forms(depth, read, pause):
    waits = prefetch.play([read + (pause if at == 50 else 0) for at in range(100)], 1.0, depth).waits
    late = sum(waits[1:])
    if depth == 0:
        assert late == pytest.approx(99 * read + pause)
    elif read > 1:
        assert late == pytest.approx(99 * (read - 1), rel=1e-9)
    else:
        assert late == pytest.approx(max(0, read + pause - depth))
        assert (late < 1e-9) == (depth >= prefetch.depth_for(read, pause, 1.0))


def test_a_prefetcher_keeps_order_depth_and_errors():
    begun = []

    def load(number):
        begun.append(number)
        if number == 6:
            raise Trouble("shard 6 is missing.", "copy it")
        return number * 10

    ahead, got = prefetch.Prefetcher(load, range(9), depth=2), []
    with pytest.raises(Trouble, match="shard 6"):
        for batch in ahead:
            got.append(batch)
            assert max(begun) <= len(got) + 2
    assert got == [0, 10, 20, 30, 40, 50] and begun == [*range(7)]
    stopped = prefetch.Prefetcher(load, range(5), depth=1)
    assert next(iter(stopped)) == 0
    stopped.close()


@each_of("every, needed", [(10, 1), (100, 1), (100, 2), (30, 3)])
def test_delays_of_drawn_faults_have_the_mean_of_the_formula(every, needed):
    drawn = validation.drawn_delays(every, 2.0, 30.0, needed, draws=4000)
    error = every * 2.0 / math.sqrt(12 * len(drawn))
    assert sum(drawn) / len(drawn) == pytest.approx(validation.mean_delay(every, 2.0, 30.0, needed), abs=4 * error)


@each_of("step, check, between, needed", [(8, 120, 3e5, 1), (1, 600, 1e6, 2), (30, 5, 4e4, 3), (50, 30, 90, 1)])
def test_no_other_interval_loses_less(step, check, between, needed):
    best = validation.best_every(step, check, between, needed)
    least = validation.lost_share(best, step, check, between, needed)
    assert least <= min(
        validation.lost_share(each, step, check, between, needed)
        for each in range(max(1, best // 2), 2 * best + 5, max(1, best // 200))
    )


def test_a_slow_evaluator_falls_behind():
    assert validation.backlog(100, 8, 500, 10) == 500
    assert validation.backlog(100, 8, 1000, 10) == 1000 + 9 * 200


def test_published_energy_is_recomputed():
    assert energy.energy_kwh(1, 1_082_990 * 3600, 400) == pytest.approx(facts.claim("bloom-kwh").value, rel=1e-5)
    assert energy.carbon_tonnes(433_196, 57) == pytest.approx(facts.claim("bloom-co2").value, rel=0.01)
    assert (
        "57 g/kWh" in data_plots.energy_table().data and "10" not in data_plots.plan_energy_table().data.split("|")[2]
    )


def test_the_pictures_say_what_is_read_and_what_waits():
    assert "0 samples read twice, 0 of the first 72 never" in data_plots.draw_stream(loader=data_plots.LOADERS[0]).alt
    for after in (2, 3, 6):
        reads = [place for row in data_plots.reads_of(data_plots.LOADERS[1], after) for rank in row for place in rank]
        assert len(set(reads)) < len(reads) <= 72
    assert "steps wait 0.7 s" in data_plots.draw_prefetch(depth=2).alt
    assert "steps wait 0.0 s" in data_plots.draw_prefetch(depth=3).alt
    assert "lose least" in data_plots.draw_cadence().alt and "14.1 GB/s" in data_plots.bandwidth_table().data


@pytest.mark.slower
def test_a_real_run_reads_each_sample_once_and_leaves_evidence(tmp_path, capsys):
    words = ["--before=1", "--after=2", "--steps=4", "--stop=2", "--batch=4", "--latency=0"]
    assert data_run.main([*words, "--dry"]) == 0
    assert data_run.main([*words, "--out", str(tmp_path)]) == 0 and "resumed" in capsys.readouterr().out
    (path,) = tmp_path.iterdir()
    content = evidence.read(path)
    assert all(gate.ok for gate in gates(content)) and len(content["raw"]["order"]) == 16
    forged = {**content, "raw": {**content["raw"], "order": content["raw"]["order"][::-1]}}
    assert [gate.name for gate in gates(forged) if not gate.ok] == ["every sample is read once, in order"]
    assert data_run.main(["--after", "99"]) == 2 and "none to read" in capsys.readouterr().err
    shipped = next(each for origin, _, each in evidence.found("data") if origin == "recorded")
    assert shipped["measured"]["largest_difference"] < data_run.TOLERANCE and all(gate.ok for gate in gates(shipped))


PARSERS = {
    "train": "course_runs.options",
    "collectives": "course_runs.collectives",
    "resumed": "course_runs.resumed",
    "survive": "course_runs.fault_drill",
    "data": "course_chapters.ch20.data_run",
}  # programs of the checklist whose own flags have a parser to ask


@each_of("line", [each for each in checklist.LINES if each.command.startswith("./course")])
def test_every_command_of_the_checklist_is_understood(line):
    name, *words = shlex.split(line.command)[1:]
    command = typer.main.get_command(app).commands[name]
    context = command.make_context(name, words, resilient_parsing=name != "run")
    if name == "run":
        assert context.params["program"] in PROGRAMS
        if context.args:
            importlib.import_module(PARSERS[context.params["program"]]).arguments(context.args)
    else:
        assert not context.args


def test_the_checklist_has_hour_day_and_week():
    for when in ("hour", "day", "week"):
        shown = checklist.checklist(when).data
        assert all(each.command in shown for each in checklist.LINES if each.when == when) and shown.count("\n") >= 5
