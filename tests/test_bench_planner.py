"""`course bench planner`: tables are read as they are, every row is predicted or says why not, nothing is left unread
without a word."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from bench import planner as bench
from bench.planner.rows import seconds_of
from bench.planner.sources import TARGETS
from course_lib.parallel import planner
from tests.tables import each_alone, each_of

KORTHIKANTI = {  # Korthikanti et al. (2022), tables 3 and 5
    "model": "175B",
    "heads": 96,
    "hidden": 12288,
    "layers": 96,
    "vocab": 51200,
    "seq_len": 2048,
    "tp": 8,
    "pp": 8,
    "dp": 1,
    "interleave_m": 3,
    "n_gpus": 64,
    "global_batch_size": 64,
    "micro_batch_size": 1,
    "iter_time_s_full_recompute_no_sp": 18.13,
    "iter_time_s_selective_plus_sp": 13.75,
}
TITAN = {  # pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md
    "model": "llama3.1-8b",
    "hardware": "H100 96GB HBM2e 2.4TB/s, 500W limit",
    "n_gpus": 8,
    "local_batch_size": 2,
    "global_batch_size": 16,
    "seq_len": 8192,
    "fsdp": 8,
    "tp": 1,
    "pp": 1,
    "cp": 1,
    "pp_schedule": "",
    "activation_checkpointing": "selective(op)",
    "torch_compile": 1,
    "float8": 0,
    "async_tp": 0,
    "tokens_per_s_per_gpu": 6667,
}


def table(folder, name, rows):
    with (folder / name).open("w", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def only(folder):
    found, skipped, unread = bench.results(folder)
    return found[0] if found else None, skipped, unread


def test_published_steps_of_two_frameworks_are_predicted(tmp_path):
    table(tmp_path, "korthikanti_table3_table5.csv", [KORTHIKANTI])
    table(tmp_path, "torchtitan_perf.csv", [TITAN])
    found, skipped, unread = bench.results(tmp_path)
    assert [each.name for each in found] == ["korthikanti", "torchtitan"] and not skipped and not unread
    for each in found:
        assert np.all(np.abs(each.predicted / each.measured - 1) < 0.12)


@each_alone(
    "change, reason",
    ({"n_gpus": 128}, "multiply"),
    ({"iter_time_s_selective_plus_sp": ""}, "no iter_time_s_selective_plus_sp"),
    ({"layers": ""}, "no layers"),
    ({"iter_time_s_full_recompute_no_sp": 0}, "above 0"),
    ({"heads": "many"}, "could not convert"),
)
def test_a_row_that_cannot_be_read_says_why_and_others_are_read(tmp_path, change, reason):
    table(tmp_path, "korthikanti_table3_table5.csv", [{**KORTHIKANTI, **change}, KORTHIKANTI])
    found, skipped, _ = only(tmp_path)
    assert len(found.rows) >= 2 and any(reason in each.reason for each in skipped)


def test_no_table_is_left_unread_without_a_word(tmp_path):
    table(tmp_path, "busbw_factors.csv", [{"collective": "all_reduce"}])
    table(tmp_path, "something_else.csv", [{"a": 1}])
    _, _, unread = only(tmp_path)
    assert unread["busbw_factors.csv"] == "factors" and "unknown" in unread["something_else.csv"]


def test_an_unknown_table_with_the_usual_columns_is_predicted(tmp_path):
    plain = {name: KORTHIKANTI[name] for name in KORTHIKANTI if not name.startswith("iter")}
    table(tmp_path, "new_table.csv", [{**plain, "iter_time_s": 6.0, "gpu": "H100"}])
    found, _, unread = only(tmp_path)
    assert found.name == "new_table" and not unread and 2 < found.predicted[0] < 12


def test_a_table_of_utilization_alone_is_read_by_its_flops(tmp_path):
    plain = {name: KORTHIKANTI[name] for name in KORTHIKANTI if not name.startswith("iter")}
    table(tmp_path, "by_time.csv", [{**plain, "iter_time_s": 6.0, "gpu": "H100"}])
    table(tmp_path, "by_share.csv", [{**plain, "mfu_pct": 40, "gpu": "H100"}])
    found, skipped, _ = bench.results(tmp_path)
    shared = next(each for each in found if each.name == "by_share")
    flops = 72 * 64 * 2048 * 96 * 12288**2 * (1 + 2048 / (6 * 12288) + 51200 / (12 * 12288 * 96))
    assert shared.measured[0] == pytest.approx(flops / (0.4 * 989e12 * 64)) and not skipped


def test_what_a_table_does_not_print_is_the_fastest_that_fits(tmp_path):
    plain = {name: KORTHIKANTI[name] for name in KORTHIKANTI if not name.startswith(("iter", "micro", "interleave"))}
    table(tmp_path, "new_table.csv", [{**plain, "iter_time_s": 6.0, "gpu": "H100"}])
    table(tmp_path, "printed.csv", [{**plain, "iter_time_s": 6.0, "gpu": "H100", "micro_batch_size": 1, "vp": 3}])
    found = {each.name: each for each in bench.results(tmp_path)[0]}
    assert found["new_table"].predicted[0] <= found["printed"].predicted[0]
    row = found["new_table"].rows[0]
    assert planner.estimate(row.job, row.cluster, row.layout).ok
    assert (found["printed"].rows[0].layout.microbatches, found["printed"].rows[0].layout.virtual) == (64, 3)


def test_megatrons_weak_scaling_on_h100_is_met():
    """NVIDIA/Megatron-LM, images/model_table.png (July 2024): 1.7B on 48 to 462B on 6,144 H100."""
    found, skipped, _ = bench.results(Path(bench.__file__).parent / "tables")
    errors = found[0].errors(found[0].predicted, found[0].judged)
    assert not skipped and len(found[0].rows) == 9 and errors["median"] < 6 and errors["p90"] < 13


@each_of(
    "change, graphs",
    [({}, True), ({"nemo_release": "26.04"}, False), ({"precision": "BF16"}, False), ({"system": "DGX-B200"}, False)],
)
def test_a_mixtures_row_runs_as_its_releases_recipe_says(tmp_path, change, graphs):
    row = {  # NVIDIA-NeMo/Megatron-Bridge, docs/performance-summary-archive.md
        "nemo_release": "26.06",
        "task": "Pre-Training",
        "model": "Qwen3_30B_a3B",
        "system": "DGX-GB200",
        "n_gpus": 8,
        "precision": "MXFP8",
        "global_batch_size": 512,
        "micro_batch_size": 4,
        "seq_len": 4096,
        "tp": 1,
        "pp": 1,
        "cp": 1,
        "ep": 8,
        "tokens_per_s_per_gpu": 40706,
    }
    table(tmp_path, "megatron_bridge_perf.csv", [{**row, **change}])
    found, _, _ = only(tmp_path)
    assert found.rows[0].job.software.graphs == graphs
    if not change:
        assert abs(found.predicted[0] / found.measured[0] - 1) < 0.15


@each_of(
    "cells, seconds",
    [({"iter_time_ms": "1500"}, 1.5), ({"tokens_per_s_per_gpu": "100"}, 2.0), ({"sec_per_iter": "3"}, 3.0)],
)
def test_a_time_is_found_in_the_usual_columns(cells, seconds):
    assert seconds_of(cells, tokens=1600, gpus=8) == pytest.approx(seconds)


def test_the_constant_is_right_on_rows_of_one_efficiency(tmp_path):
    rows = [{**KORTHIKANTI, "global_batch_size": 64 * k} for k in (1, 2, 4)]
    table(tmp_path, "korthikanti_table3_table5.csv", rows)
    found, _, _ = only(tmp_path)
    exact = [row.ideal * 2 for row in found.rows]
    slow = [
        type(row)(**{**{n: getattr(row, n) for n in row.__slots__}, "seconds": t})
        for row, t in zip(found.rows, exact, strict=True)
    ]
    assert bench._constant(slow) == pytest.approx(exact)


def test_a_good_order_has_rank_correlation_one_and_no_regret(tmp_path):
    rows = [{**TITAN, "local_batch_size": size, "float8": "", "tokens_per_s_per_gpu": 6667} for size in (1, 2, 3, 4)]
    table(tmp_path, "torchtitan_perf.csv", rows)
    found, _, _ = only(tmp_path)
    assert found.choosing(found.measured) == {
        "groups": 1,
        "rank_correlation": pytest.approx(1.0),
        "regret": 0.0,
        "median_regret": 0.0,
        "far": 0,
        "far_staged": 0,
    }
    backwards = found.choosing(-found.measured)
    assert backwards["regret"] == pytest.approx(300.0) and (backwards["far"], backwards["far_staged"]) == (1, 0)
    assert bench.correlation(np.ones(3), np.arange(3.0)) == 0.0


def test_the_json_has_errors_beside_the_constant_and_the_speed(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(bench, "speed", lambda: {"layouts_per_cpu_second": 2e6, "layouts": 1, "search_seconds": 0.01})
    table(tmp_path, "torchtitan_perf.csv", [TITAN])
    assert bench.main(["--data", str(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {"planner", "one_constant", "ok", "left_out"} <= set(told["sources"]["torchtitan"])
    assert bench.main(["--data", str(tmp_path), "--rows"]) == 0
    assert "left out" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        bench.main(["--data", str(tmp_path / "none")])


def test_every_target_says_what_is_left_out():
    assert all(target.note for target in TARGETS.values())
