"""`course bench memory`: published tables read as they are, constants that follow from their half, skips that say
why."""

import csv
import json
import shutil
from dataclasses import replace

import pytest

from bench import memory as bench
from bench.memory.fitting import fitted
from bench.memory.parameters import counts
from bench.memory.rows import Row, Tables, shipped
from bench.memory.sources import SOURCES
from course_lib.estimate.memory import Layout, Shape
from course_lib.estimate.memory.frameworks import (
    FRAMEWORKS,
    TrainingRun,
    fits,
    nanotron_layers,
    peak_terms,
    predicted_bytes,
)
from course_lib.estimate.units import GiB
from tests.tables import each_alone, each_of

TARGETS = {source.name: source.target for source in SOURCES}


def table(folder, name, rows):
    with (folder / name).open("w", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def result(folder, name):
    return next(each for each in bench.results(folder) if each.source.name == name)


def original(name):
    return [dict(cells) for cells in Tables(shipped())[name]]


@each_of("name", ["zero", "korthikanti", "torchtitan", "playbook", "bloom"])
def test_the_shipped_rows_are_predicted_within_the_bound(name):
    found = result(shipped(), name)
    assert len(found.rows) >= 4 and not found.skipped
    assert found.median <= TARGETS[name] and found.ok


def test_every_shipped_row_names_its_source():
    for path in shipped().glob("*.csv"):
        assert all(cells["source"].count("http") == 1 for cells in Tables(shipped())[path.name]), path.name


def test_the_published_anchors_of_zero_need_no_constant():
    assert all(abs(row.measured - row.predicted) <= 0.05 for row in result(shipped(), "zero").rows)


def test_korthikantis_activations_are_exact_and_their_state_leaves_embeddings_out():
    for row in result(shipped(), "korthikanti").rows:
        if "state" in row.label:
            assert 0 < row.error < 0.02  # ours counts the embeddings
        else:
            assert abs(row.error) < 1e-9


def test_errors_are_reported_on_rows_that_no_constant_was_chosen_on():
    found = result(shipped(), "playbook")
    assert 0 < len(found.judged) < len(found.rows)
    assert not any(row.fitted for row in found.judged)


def test_which_half_a_row_is_in_hangs_on_what_was_run_alone(tmp_path):
    rows = original("playbook_h100_sweep.csv")
    table(
        tmp_path,
        "playbook_h100_sweep.csv",
        [{**cells, "peak_memory_gb": "10", "source": "x"} for cells in reversed(rows)],
    )
    halves = {row.label: row.fitted for row in result(tmp_path, "playbook").rows}
    assert halves == {row.label: row.fitted for row in result(shipped(), "playbook").rows}
    assert set(halves.values()) == {True, False}


# --- the constants ---------------------------------------------------------------------------------


@each_of("slack, buffers", [(1.0, 0.0), (1.12, 0.2), (1.3, 5.0)])
def test_the_fit_finds_the_constants_that_made_the_rows(slack, buffers):
    rows = [Row("x", str(size), slack * size + buffers, 1.0, True, "x", size * GiB, GiB) for size in (3, 7, 20, 55, 60)]
    assert fitted(rows) == pytest.approx((slack, buffers))


def test_one_row_of_other_settings_does_not_move_the_fit():
    rows = [Row("x", str(size), 1.1 * size, 1.0, True, "x", size * GiB, GiB) for size in (3, 7, 20, 55, 60)]
    assert fitted([*rows, replace(rows[0], measured=9.0)]) == pytest.approx((1.1, 0.0))


def test_a_framework_has_two_constants_and_a_source_for_them():
    assert set(fits()) == set(FRAMEWORKS)
    assert all(0.9 <= fit.slack <= 1.5 and 0 <= fit.buffers <= 6 * GiB and fit.condition for fit in fits().values())


def test_constants_in_use_are_those_of_the_half_they_were_chosen_on():
    # the whole torchtitan table ships, so its fit can be repeated anywhere; the others are by `--data FOLDER --fit`
    kept, now = bench.refits(bench.results(shipped()))["torchtitan"]
    assert kept == now


def test_a_missed_target_and_a_changed_constant_end_with_1(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bench, "speed_seconds", lambda: 0.0)
    rows = [
        {**cells, "peak_memory_gb": str(2 * float(cells["peak_memory_gb"]))}
        for cells in original("bloom_a100_80gb_sweep.csv")
    ]
    table(tmp_path, "bloom_a100_80gb_sweep.csv", rows)
    assert bench.main(["--data", str(tmp_path)]) == 1
    assert "5 %: NO" in capsys.readouterr().out
    shutil.copy(shipped() / "torchtitan_perf.csv", tmp_path)
    (tmp_path / "bloom_a100_80gb_sweep.csv").unlink()
    assert bench.main(["--data", str(tmp_path), "--fit"]) == 0
    rows = [
        {**cells, "peak_memory_gib": str(1.04 * float(cells["peak_memory_gib"]))}
        for cells in original("torchtitan_perf.csv")
    ]
    table(tmp_path, "torchtitan_perf.csv", rows)
    assert bench.main(["--data", str(tmp_path), "--fit"]) == 1
    assert "DIFFERENT" in capsys.readouterr().out


# --- folders as they come --------------------------------------------------------------------------


def test_json_has_a_median_for_each_source(capsys, monkeypatch):
    monkeypatch.setattr(bench, "speed_seconds", lambda: 0.0)
    assert bench.main(["--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told["sources"]) == set(TARGETS)
    for name, one in told["sources"].items():
        assert (one["median_error_percent"] is None) == (one["rows"] == 0), name
        assert one["left_out"], name
    assert told["parameters"]["models"] == told["parameters"]["within_half_a_percent"]


def test_a_folder_that_is_none_is_refused(capsys):
    with pytest.raises(SystemExit):
        bench.main(["--data", "/no/such/folder"])
    assert "is not a folder" in capsys.readouterr().err


def test_a_table_that_nobody_reads_is_named(tmp_path):
    (tmp_path / "serving.csv").write_text("a,b\n1,2\n")
    shutil.copy(shipped() / "torchtitan_perf.csv", tmp_path)
    assert bench.not_read(tmp_path) == ["serving.csv"]


@each_alone(
    "file, change, words",
    ("playbook_h100_sweep.csv", {"tp": ""}, "no tp"),
    ("playbook_h100_sweep.csv", {"tp": "3"}, "tp=3 cannot split 32 attention heads"),
    ("playbook_h100_sweep.csv", {"status": "OOM"}, "status OOM: no figure"),
    ("playbook_h100_sweep.csv", {"peak_memory_gb": "nan"}, "must be above 0"),
    ("bloom_a100_80gb_sweep.csv", {"dp": ""}, "no dp"),
    ("torchtitan_perf.csv", {"model": "unknown-9b"}, "No model called 'unknown-9b'"),
    ("torchtitan_perf.csv", {"activation_checkpointing": "sometimes"}, "choose from none, selective, full"),
    ("zero_model_state_memory.csv", {"stage": "Px"}, "no stage 'Px'"),
    ("korthikanti_fig1_memory_gib.csv", {"model": "3T"}, "has no configuration of 3T"),
)
def test_a_row_that_cannot_be_read_is_skipped_with_its_reason_and_the_others_are_kept(tmp_path, file, change, words):
    rows = original(file)
    table(tmp_path, file, [{**rows[0], **change}, *rows[1:]])
    found = next(each for each in bench.results(tmp_path) if each.source.file == file)
    whole = next(each for each in bench.results(shipped()) if each.source.file == file)
    assert any(words in reason for reason in found.skipped), found.skipped
    assert len(found.rows) == len(whole.rows) - len(whole.rows) // len(rows)


# --- the frameworks --------------------------------------------------------------------------------

GPT = Shape(layers=24, hidden=2048, heads=16, vocab=50304)
LLAMA = Shape(
    layers=32,
    hidden=4096,
    heads=32,
    kv_heads=8,
    ffn=14336,
    vocab=128256,
    gated=True,
    tied=False,
    norm="RMSNorm",
    biases=False,
)


@each_of("name", sorted(FRAMEWORKS))
def test_a_prediction_is_its_terms_with_two_constants(name):
    run = TrainingRun(shape=GPT, layout=Layout(tp=2, pp=4, dp=2, zero=1, microbatches=8), batch=2, seq=2048)
    terms, fit = peak_terms(name, run), fits()[name]
    assert all(value >= 0 for value in terms.values()) and sum(terms.values()) > 0
    assert predicted_bytes(name, run) == pytest.approx(fit.slack * sum(terms.values()) + fit.buffers)


@each_of("name", sorted(FRAMEWORKS))
def test_a_larger_batch_never_needs_less(name):
    layout = Layout(pp=2, dp=4, zero=1, microbatches=4)
    sizes = [
        predicted_bytes(name, TrainingRun(shape=LLAMA, layout=layout, batch=batch, seq=4096)) for batch in (1, 2, 4)
    ]
    assert sizes == sorted(sizes) and sizes[0] < sizes[-1]


def test_context_ranks_share_one_sequence():
    longer = [
        predicted_bytes(
            "torchtitan",
            TrainingRun(
                shape=LLAMA, layout=Layout(cp=ways, dp=8 // ways), batch=1, seq=8192 * ways, checkpointing="full"
            ),
        )
        for ways in (1, 2, 8)
    ]
    assert longer == pytest.approx([longer[0]] * 3)


def test_nanotrons_first_stage_takes_layers_for_the_head_that_it_does_not_have():
    small = Shape(layers=16, hidden=2048, heads=32, ffn=8192, vocab=131072, gated=True, norm="RMSNorm", biases=False)
    # the head is worth four layers
    assert [nanotron_layers(small, stages) for stages in (1, 2, 4, 8)] == [16, 11, 6, 3]
    assert nanotron_layers(small, 32) == 1


def test_an_unknown_framework_is_answered_with_those_that_are_known():
    with pytest.raises(ValueError, match="choose from nanotron"):
        peak_terms("caffe", TrainingRun(shape=GPT, layout=Layout(), batch=1, seq=8))


# --- parameters ------------------------------------------------------------------------------------


def model_row(**change):
    names = (
        "name layers hidden ffn heads kv_heads head_dim vocab seq_len mlp tied_embeddings norm learned_positions "
        "biases n_experts params_published_b"
    )
    gpt2 = [
        "gpt2", 12, 768, 3072, 12, 12, 64, 50257, 1024, "plain(GELU/ReLU)", "True", "LayerNorm", "True", "True", "",
        "0.124",
    ]  # fmt: skip
    return {**dict(zip(names.split(), gpt2, strict=True)), **change}


def test_counts_of_a_table_of_models(tmp_path):
    table(
        tmp_path,
        "model_architectures.csv",
        [
            model_row(),
            model_row(name="rounded", params_published_b="0.12"),
            model_row(name="wrong", params_published_b="0.2"),
            model_row(name="experts", n_experts="8"),
            model_row(name="unprinted", params_published_b=""),
            model_row(name="no shape", heads=""),
        ],
    )
    found = {one.name: one for one in counts(Tables(tmp_path))}
    assert set(found) == {"gpt2", "rounded", "wrong"}
    assert found["gpt2"].ok and found["gpt2"].counted == 124_439_808
    assert not found["rounded"].ok and "rounds to the printed 0.12" in found["rounded"].explanation
    assert not found["wrong"].ok and found["wrong"].explanation == ""


def test_relative_positions_are_counted_where_a_model_has_them(tmp_path):
    gopher = model_row(
        name="gopher-280b",
        layers=80,
        hidden=16384,
        ffn=65536,
        heads=128,
        kv_heads=128,
        head_dim=128,
        vocab=32000,
        tied_embeddings="False",
        norm="RMSNorm",
        params_published_b="280.0",
    )
    table(tmp_path, "model_architectures.csv", [gopher, {**gopher, "name": "absolute"}])
    with_it, without = counts(Tables(tmp_path))
    assert with_it.ok and not without.ok


def test_what_is_far_off_is_counted_by_the_settings_that_explain_it():
    def row(measured, kept):
        return Row("playbook", f"{measured}", measured, 10.0, otherwise={"gathered inputs kept": kept})

    source = next(each for each in SOURCES if each.name == "playbook")
    found = bench.Result(source, (row(10.5, 12.0), row(15.0, 14.0), row(20.0, 12.0), row(8.0, 12.0)), {})
    assert found.far_off == {"rows": 3, "too_low": 2, "gathered inputs kept": 1}


def test_kept_inputs_take_room_only_beside_tensor_ranks_and_for_micro_batches_alive():
    def kept(tp, pp):
        shape = Shape(layers=8, hidden=64, heads=8, ffn=256, vocab=512)
        layout = Layout(tp=tp, pp=pp, dp=1, microbatches=8)
        run = TrainingRun(shape=shape, layout=layout, batch=2, seq=16, words=frozenset({"gathered inputs kept"}))
        return peak_terms("nanotron", run)["gathered inputs kept"]

    assert kept(1, 1) == 0
    assert kept(4, 1) == 8 * 2 * (2 * 16 * 64) * 2 * 3 / 4  # layers × inputs × numbers × bytes × the others' share
