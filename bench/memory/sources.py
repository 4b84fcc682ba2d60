"""The published tables of memory: which file, which reader, what is asked of the median error."""

from dataclasses import dataclass

from bench.memory.formulas import read_korthikanti, read_korthikanti_shares, read_zero
from bench.memory.rows import Reader
from bench.memory.sweeps import (
    read_bigscience,
    read_bloom,
    read_gpipe,
    read_playbook,
    read_torchtitan,
    read_zero_bubble,
)


@dataclass(frozen=True, slots=True)
class Source:
    """A published table: its file, its reader, what is asked of the median error, what the prediction leaves out."""

    name: str
    file: str
    reader: Reader
    target: float | None  # per cent
    note: str


SOURCES = (
    Source(
        "zero",
        "zero_model_state_memory.csv",
        read_zero,
        5,
        "state only; published anchors are printed to two or three digits",
    ),
    Source(
        "korthikanti",
        "korthikanti_fig1_memory_gib.csv",
        read_korthikanti,
        5,
        "analytic figures, not readings: one formula checks another; their state leaves embeddings out, "
        "ours counts them",
    ),
    Source(
        "korthikanti-shares",
        "korthikanti_fig7_activation_pct.csv",
        read_korthikanti_shares,
        5,
        "analytic shares, layers only",
    ),
    Source("torchtitan", "torchtitan_perf.csv", read_torchtitan, 5, "sequence 8,192 where the source prints none"),
    Source(
        "playbook",
        "playbook_h100_sweep.csv",
        read_playbook,
        5,
        "memory of rank 0, which is on the first stage; the readings fall into two groups, see docs/planner.md",
    ),
    Source("bloom", "bloom_a100_80gb_sweep.csv", read_bloom, 5, "layers from the printed size where none are printed"),
    Source(
        "bigscience-v100",
        "bigscience_v100_1b3_sweep.csv",
        read_bigscience,
        None,
        "ZeRO-1 is assumed, the source names no stage; runs without a pipeline are a quarter too low: they hold 2.4 "
        "bytes a parameter and one fp32 copy of the logits beyond the prediction, for a reason that is not known",
    ),
    Source(
        "zero-bubble",
        "zero_bubble_table4_measured.csv",
        read_zero_bubble,
        None,
        "no constants; attention without flash and the vocabulary of GPT-2 are assumed",
    ),
    Source("gpipe", "gpipe_table1_memory.csv", read_gpipe, None, "not predicted"),
)
