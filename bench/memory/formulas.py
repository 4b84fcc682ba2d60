"""Published figures that are formulas themselves: predicted without any constant."""

from collections.abc import Iterator

from bench.memory.rows import Cells, Row, Tables, number, shipped, whole
from course_lib.estimate.memory import Layout, Shape, bytes_per_param, count_params, in_flight, layer_bytes, zero_bytes
from course_lib.estimate.units import BILLION, GB, TRILLION, GiB

ZERO_STAGES = {"Pos": 1, "Pos+g": 2, "Pos+g+p": 3}
LETTERS = {"B": BILLION, "T": TRILLION}


def read_zero(cells: Cells, tables: Tables) -> Iterator[Row]:
    """Model state under ZeRO, in GB."""
    stage, model = cells.get("stage", ""), cells.get("model", "")
    if stage not in ZERO_STAGES or model[-1:] not in LETTERS:
        raise ValueError(f"no stage {stage!r} or model {model!r} that the formula knows")
    params = float(model[:-1]) * LETTERS[model[-1]]
    figure = "gb_per_device_published" if cells.get("gb_per_device_published") else "gb_per_device_computed"
    ranks = whole(cells, "dp_degree")
    zero = 0 if ranks == 1 else ZERO_STAGES[stage]
    yield Row(
        "zero", f"{model} on {ranks}, {stage}", number(cells, figure), float(zero_bytes(params, zero, ranks)) / GB
    )


def _megatron_case(model: str, tables: Tables) -> tuple[Shape, Layout, int, int]:
    """Shape, layout without sequence parallelism, micro-batch and sequence of a model of Korthikanti's table 3."""
    table = "korthikanti_table3_table5.csv"
    cells = next((each for each in tables[table] or Tables(shipped())[table] if each.get("model") == model), None)
    if cells is None:
        raise ValueError(f"{table} has no configuration of {model}")
    layers, hidden, heads, vocab, seq = (
        whole(cells, name) for name in ("layers", "hidden", "heads", "vocab", "seq_len")
    )
    one = Shape(layers=layers, hidden=hidden, heads=heads, vocab=vocab, learned_positions=seq)
    micro, virtual = whole(cells, "micro_batch_size"), whole(cells, "interleave_m", 1)
    where = Layout(
        tp=whole(cells, "tp"),
        pp=whole(cells, "pp"),
        virtual=virtual,
        microbatches=whole(cells, "global_batch_size") // micro,
        schedule="interleaved" if virtual > 1 else "1f1b",
    )
    return one, where, micro, whole(cells, "seq_len")


def _first_stage(model: str, tables: Tables, sp: bool, checkpointing: str) -> float:
    """Activation bytes of the layers on the first stage."""
    one, where, batch, seq = _megatron_case(model, tables)
    where = Layout(
        tp=where.tp, sp=sp, pp=where.pp, virtual=where.virtual, microbatches=where.microbatches, schedule=where.schedule
    )
    alive = in_flight(where.schedule, where.pp, 0, where.microbatches, where.virtual)
    return float(alive * one.layers / where.pp * layer_bytes(one, batch, seq, where, checkpointing=checkpointing))


def read_korthikanti(cells: Cells, tables: Tables) -> Iterator[Row]:
    """State and activations of a model of Korthikanti et al. (2022), figure 1, in GiB."""
    model = cells.get("model", "")
    one, where, _, _ = _megatron_case(model, tables)
    state = count_params(one) * bytes_per_param("C") / where.ranks / GiB
    yield Row("korthikanti", f"{model}, state", number(cells, "params_plus_optimizer_gib"), float(state))
    for column, sp, checkpointing in (
        ("activations_gib_tp_baseline", False, "none"),
        ("activations_gib_sp_plus_selective", True, "selective"),
    ):
        predicted = _first_stage(model, tables, sp, checkpointing) / GiB
        yield Row("korthikanti", f"{model}, {column}", number(cells, column), predicted)


MODES = {
    "none": (False, "none"),
    "sequence_parallel": (True, "none"),
    "selective": (False, "selective"),
    "selective_plus_sp": (True, "selective"),
    "full": (False, "full"),
}


def read_korthikanti_shares(cells: Cells, tables: Tables) -> Iterator[Row]:
    """Activations as a share of the tensor-parallel baseline, in per cent: figure 7."""
    model, mode = cells.get("model", ""), cells.get("mode", "")
    if mode not in MODES:
        raise ValueError(f"no mode {mode!r}; known are {', '.join(MODES)}")
    share = 100 * _first_stage(model, tables, *MODES[mode]) / _first_stage(model, tables, False, "none")
    yield Row("korthikanti-shares", f"{model}, {mode}", number(cells, "pct_of_tp_baseline"), share)
