"""Tables and plots of chapters' own packages say what the library computes."""

import json
from collections import Counter

import pytest
import torch

from course_chapters.ch02 import tables as tables02
from course_chapters.ch06 import plots as plots06
from course_chapters.ch06 import tables as tables06
from course_chapters.ch06 import timing
from course_chapters.ch06.exercises import numbers as numbers06
from course_chapters.ch08 import tables as tables08
from course_chapters.ch08 import training
from course_chapters.ch08.exercises import numbers as numbers08
from course_chapters.ch13 import parity
from course_chapters.ch13.mesh_training import communicators
from course_chapters.metered_torch import bytes_by_line
from course_chapters.running_example import GPUS, PARAMS
from course_chapters.table import table
from course_lib.cluster import collectives, simulate
from course_lib.estimate import memory
from course_lib.estimate.units import bytes_text
from course_lib.folders import ROOT
from course_lib.parallel import mesh
from course_lib.parallel.sharding import FullySharded


def test_a_rings_metered_bytes_stand_beside_the_factor():
    def tensors(ranks, size):
        return [torch.arange(size) for _ in range(ranks)]

    said = tables06.ring_bytes(collectives.ring_all_reduce, tensors).data
    assert "| 8 | 1.7500 S | 1.7500 |" in said and "279.7 GB" in said


def test_every_collective_of_the_family_is_metered_with_its_bus_factor():
    said = tables06.family(4, 1600).data
    assert "| `all_reduce` | the sum over all ranks | ring | 1.5 S | 6 | 1.5 |" in said
    assert set(tables06.COLLECTIVES) <= set(collectives.BUS_FACTORS)


def test_integers_that_differ_by_grouping_are_refused():
    values = 1000 * torch.randn(4, 50, generator=torch.Generator().manual_seed(1))
    said = tables06.bit_differences(values, lambda rows: rows.sum(0), {"the same": lambda rows: rows.sum(0)}).data
    assert "| int64 | 0 % |" in said
    with pytest.raises(AssertionError):
        tables06.bit_differences(values, lambda rows: rows.sum(0), {"one row less": lambda rows: rows[1:].sum(0)})


def test_plots_name_what_they_show(capsys):
    assert "262 ranks" in plots06.ring_scaling().alt
    assert "482 GB/s" in plots06.published(lambda sizes, seconds: (1e-5, 1e11)).alt
    assert capsys.readouterr().out.count("half of the final rate at 1 MB") == 2


def test_the_shortest_time_of_each_size_is_kept():
    (times, _) = simulate(timing.best_times, 2, args=(lambda comm, x: None, (4, 8), 2)).results
    assert len(times) == 2 and min(times) >= 0
    assert (
        timing.ratio_text(2_000_000, 1e-3, 3e-3).strip().startswith("2 MB: predicted 1 ms, measured 3 ms, ratio 3.00")
    )


def test_state_by_convention_is_the_librarys():
    said = tables08.by_convention().data
    assert all(letter + ":" in said for letter in memory.CONVENTIONS)
    assert bytes_text(memory.zero_bytes(PARAMS, 3, GPUS, "B")) in said
    assert "4,121 tokens" in tables08.offload((2048,)).data


def test_sharded_losses_fall_like_those_of_one_process():
    alone = simulate(training.losses_of, 1, args=(3, 3)).results[0]
    for args in ((1, 3), (3, 3), (3, 3, 1)):
        assert simulate(training.losses_of, 2, args=args).results[0] == pytest.approx(alone, rel=1e-5)
    assert alone[-1] < alone[0]


def test_two_dollar_signs_in_a_cell_are_no_formula():
    said = table([{"price": "$2 of $3"}]).data
    assert said.endswith(r"| <span>\$</span>2 of <span>\$</span>3 |")


def test_a_transfer_is_hidden_from_the_first_whole_number_of_tokens_on():
    a_token = 2 * 70e9 / (989e12 * 0.4)  # seconds of the forward pass
    assert 98 * a_token < 2 * 70e9 / 64 / 63e9 < 99 * a_token
    assert "| 99 tokens |" in tables02.offload().data and "| 98 tokens |" not in tables02.offload().data
    assert 65 * 3 * a_token < 4 * 70e9 / 64 / 63e9 < 66 * 3 * a_token
    assert "| 66 tokens |" in tables08.offload((2048,)).data


def test_the_least_tokens_that_hide_gradients_do_hide_them():
    backward = lambda n: 4 * 70e9 * n / (989e12 * 0.4)  # noqa: E731 - seconds of a GPU's backward pass
    for bandwidth, least in ((50e9, 7789), (450e9, 866)):
        ring = 2 * 63 / 64 * 2 * 70e9 / bandwidth
        assert backward(least - 1) < ring <= backward(least) and numbers06.least_tokens(bandwidth) == least
    assert numbers06.NUMBERS["even_adapter"]() == "7,789 tokens"
    assert numbers08.NUMBERS["many_least"]() == "16,009" and numbers08.NUMBERS["plan_least"]() == "5,298 tokens"


@pytest.mark.slower
def test_both_programs_on_the_mesh_of_13_send_what_the_planner_predicts(tmp_path):
    tables = []
    names = {"mesh": mesh, "parity": parity, "communicators": communicators}
    names |= {
        "FullySharded": FullySharded,
        "bytes_by_line": lambda *a, **more: tables.append(bytes_by_line(*a, **more)),
    }
    (path,) = ROOT.glob("notebooks/13_*/*.ipynb")
    cells = {cell["id"]: "".join(cell["source"]) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]}
    program = tmp_path / "cells.py"  # whose lines the table quotes
    program.write_text("\n".join((cells["c13-torch-cell"].rpartition("\n")[0], cells["c13-torch-bytes"])))
    exec(compile(program.read_text(), program, "exec"), names)
    sent = Counter()
    for line in tables[0].data.split("\n\n")[0].splitlines()[2:]:
        program, along, source, nbytes, _ = (cell.strip(" `") for cell in line.strip("|").split(" | "))
        if not source or source.startswith("loss"):  # of a step; other lines set up
            sent[program, along] += int(nbytes.replace(",", ""))
    assert sent["ours", "tp"] == sent["PyTorch", "tp"] == sent["planner", "tp"] > 0
    assert sent["ours", "dp"] == sent["PyTorch", "dp"] == sent["planner", "dp"] > 0
