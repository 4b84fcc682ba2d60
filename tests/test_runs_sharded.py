"""Sharded steps on two processes, doctored evidence, and what FSDP says beside tensor parallelism."""

import warnings

import pytest
import torch

from course_lib.model.transformer import Config
from course_runs import evidence, forged_examples, parallel, sharded
from course_runs.evidence_checks import gates
from course_runs.reading import recorded
from tests.tables import each_of


def seen_as_predicted(config, ways):
    """What ranks would say that send and hold what was predicted."""
    found = []
    for reshard, dtype in ways.values():
        want = sharded.predicted(config, reshard, dtype is not None)
        found.append(
            (
                4.0,
                want["whole"],
                (5, {"all_gather": want["weights"] - 8}),
                (4, {"all_gather": 8, "reduce_scatter": want["gradients"]}),
            )
        )
    return found


def test_sharded_steps_are_told_only_if_every_byte_is_as_predicted():
    config, ways = (
        Config(layers=4, hidden=64),
        {"on": (True, None), "off": (False, None), "narrow": (True, torch.bfloat16)},
    )
    blocks, everything = sharded.parameters(config)
    assert sharded.predicted(config, True, True)["weights"] == 2 * (everything + blocks) / 2, "half of two ranks' bytes"
    seen = seen_as_predicted(config, ways)
    rows = sharded.tried(config, ways, seen)
    assert [row["two real processes"] for row in rows] == list(ways)
    assert len({row["weights sent"] for row in rows}) == 3 and len({row["gradients sent"] for row in rows}) == 1
    seen[1] = (4.0, seen[1][1] + 4, *seen[1][2:])
    with pytest.raises(AssertionError, match="off: .*were predicted"):
        sharded.tried(config, ways, seen)


def test_recorded_runs_stand_in_where_no_process_can_be_started():
    on, off = sharded.kept()
    assert on["gathers in a step"] > off["gathers in a step"] and on["gradients sent"] == off["gradients sent"]
    assert on["first loss"] == off["first loss"]


@each_of("everywhere", [False, True])
def test_a_doctored_file_keeps_its_books_only_if_all_of_it_is_doctored(everywhere):
    sound = recorded("cpu4/ddp")
    before = evidence.digest(sound)
    told = evidence.sealed(forged_examples.times(sound, 0.9, everywhere))
    assert told["measured"]["step_seconds"] == pytest.approx(0.9 * sound["measured"]["step_seconds"])
    assert all(gate.ok for gate in gates(told)) == everywhere
    assert evidence.digest(sound) == before == sound["sha256"], "the sound file is left as it was"


def test_fsdp_beside_tensor_parallel_says_nothing_of_views():
    quiet = "FSDP2-wrapped module (FSDPPiece) returned a view tensor. An in-place op on this view"
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", parallel.VIEW, UserWarning)
        warnings.warn(quiet, UserWarning, stacklevel=1)
        warnings.warn(quiet.replace("FSDPPiece", "FSDPBlock"), UserWarning, stacklevel=1)
    assert [str(each.message)[:40] for each in heard] == ["FSDP2-wrapped module (FSDPBlock) returne"]
