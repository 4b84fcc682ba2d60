"""The published tables of step times: which files, which reader, what is asked of the median error, what is left
out."""

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from bench.planner.megatron import (
    read_any,
    read_bloom,
    read_korthikanti,
    read_megascale,
    read_sc21,
    read_vtrain,
    read_zero_bubble,
)
from bench.planner.nvidia import read_long, read_nvidia
from bench.planner.rows import Reader, Skip, Tables, Timed
from bench.planner.sharded import read_foundry, read_playbook, read_torchtitan

FILES: tuple[tuple[str, Reader], ...] = (
    ("vtrain_measured*.csv", read_vtrain),
    ("megatron_sc21_table1*.csv", read_sc21),
    ("korthikanti_table3*.csv", read_korthikanti),
    ("bloom_*.csv", read_bloom),
    ("megascale_table2*.csv", read_megascale),
    ("zero_bubble_table4*.csv", read_zero_bubble),
    ("llm_foundry*.csv", read_foundry),
    ("torchtitan*.csv", read_torchtitan),
    ("playbook_h100*.csv", read_playbook),
    ("megatron_bridge*.csv", read_nvidia),
    ("nemo_2407*.csv", read_nvidia),
    ("nemo_long*.csv", read_long),
)
NO_STEP = {  # tables that are known and hold no step that the planner predicts
    "bigscience_v100*": "V100: its tensor cores' rate by shape is not known here",
    "busbw_factors*": "factors",
    "comm_benchmarks*": "collectives, from which the wires are taken",
    "gpipe_*": "other models",
    "hardware*": "devices",
    "interruptions*": "failures",
    "korthikanti_*": "memory, formulas or single layers",
    "llama3_405b*": "utilization without the convention of its FLOPs",
    "llama3_interruptions*": "failures",
    "matmul_achievable*": "ceilings, from which the rates are taken",
    "megascale_table3*": "shares of peak of a changed model",
    "megatron_2020*": "FP16 kernels of 2020",
    "megatron_jan2021*": "no micro-batch is printed",
    "megatron_sc21_table2*": "no shapes are printed",
    "model_architectures*": "shapes",
    "pipeline_bubble*": "closed forms",
    "playbook_scaling*": "no batch is printed",
    "published_runs*": "single metrics of runs",
    "vtrain_nccl*": "collectives, from which the wires are taken",
    "zero_*": "bubbles or memory",
}
NEEDED = {"n_gpus", "tp", "pp", "hidden", "layers", "heads", "global_batch_size"}


@dataclass(frozen=True, slots=True)
class Target:
    """What is asked of a source's median error, in per cent."""

    median: float | None
    note: str


TARGETS = {
    "vtrain": Target(
        9,
        "one server, constants of its host chosen on half of it; eight tensor ranks launch more slowly than predicted",
    ),
    "vtrain-many": Target(9, "several servers: nothing was chosen on them"),
    "megatron-sc21": Target(8, "software of 2021; stragglers and logging"),
    "korthikanti": Target(8, "stragglers and logging"),
    "bloom": Target(8, "ALiBi's bias, Omni-Path's load on the processor"),
    "megascale": Target(6, "virtual stages from the paper's text"),
    "zero-bubble": Target(None, "nothing was chosen on it; the optimizer's check of overflow after the step"),
    "mosaic-a100-40gb": Target(15, "the allocator at full memory"),
    "mosaic-a100-80gb": Target(15, "the allocator at full memory"),
    "mosaic-h100": Target(15, "the allocator at full memory; clocks under load"),
    "torchtitan": Target(20, "selective recomputation saves every second product; float8's casts"),
    "playbook-one-stage": Target(12, "some rows repeat within 2 times, one by 4.7 times"),
    "playbook-others": Target(
        None, "pipelines lose about 1.2 s a micro-batch on that cluster: not predicted, not fitted"
    ),
    "playbook-choice": Target(
        None, "the two above together, for the choice among all layouts of a model on so many servers"
    ),
    "nemo": Target(
        None, "recomputation is not printed; of fine-tuning no virtual stages: those of pre-training are assumed"
    ),
    "nemo-long": Target(None, "recomputation is not printed; Llama 2 7B on H100, 4,096 to 1,048,576 tokens"),
    "bridge-h100-dense": Target(
        None, "recomputation is not printed; five configurations, one of which differs by 5.5 % between releases"
    ),
    "bridge-h100-moe": Target(
        None, "even routing, recomputation not printed; one configuration took 51.3 s and, a release later, 28.9 s"
    ),
    "bridge-blackwell-dense": Target(12, "recomputation is not printed"),
    "bridge-blackwell-moe": Target(None, "even routing, recomputation not printed"),
    "megatron_h100_weak_scaling": Target(
        None, "micro-batch and virtual stages are not printed: the fastest by prediction that fit"
    ),
}


def read_folder(folder: Path) -> tuple[list[Timed], list[Skip], dict[str, str]]:
    """Every row of a folder's tables, predicted or skipped, and why other tables are not read."""
    tables, unread = Tables(folder), {}
    timed: list[Timed] = []
    skipped: list[Skip] = []
    for path in sorted(folder.glob("*.csv")):
        reader = next((each for pattern, each in FILES if fnmatch(path.name, pattern)), None)
        known = next((why for pattern, why in NO_STEP.items() if fnmatch(path.name, pattern)), None)
        if reader is None and known is None and set((tables[path.name] or [{}])[0]) >= NEEDED:
            reader = read_any
        if reader is None:
            unread[path.name] = known or f"unknown table without {', '.join(sorted(NEEDED))}"
            continue
        for one in _rows(path.name, reader, tables):
            (timed if isinstance(one, Timed) else skipped).append(one)  # type: ignore[arg-type]
    return timed, skipped, unread


def _rows(name: str, reader: Reader, tables: Tables) -> Iterator[Timed | Skip]:
    for cells in tables[name]:
        cells.setdefault("file", name.removesuffix(".csv"))
        try:
            yield from list(reader(cells, tables))
        except (ValueError, KeyError, ZeroDivisionError, OverflowError) as refusal:
            yield Skip(name, " ".join(str(refusal).split())[:120] or type(refusal).__name__)
