"""The numbers in chapter 02's prose, each computed from facts and the memory model."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from course_chapters.running_example import GPUS, PARAMS, lab, opening
from course_lib.estimate import facts, memory
from course_lib.estimate.facts.fact import rows
from course_lib.estimate.memory import Layout, frameworks
from course_lib.estimate.memory.activation_terms import TermChoices
from course_lib.estimate.running_plan import MODEL, SEQ
from course_lib.estimate.units import BILLION, GB, MINUTE, GiB, bytes_text, number_text, percent_text

H100 = facts.device("H100 SXM")
LAB_GPUS, LAB_SECONDS = 1, 15 * MINUTE  # to measure this chapter on a rented GPU
PUZZLE = {"low": "F", "middle": "A", "high": "B"}  # the convention that gives each printed figure


def paper_shape() -> memory.Shape:
    """The running example's size with the paper's block: plain MLP, ungrouped heads, biases, dropout."""
    one = memory.shape(MODEL)
    return memory.Shape(layers=one.layers, hidden=one.hidden, heads=one.heads, vocab=one.vocab)


def kept(shape: memory.Shape, kernels: str, checkpointing: str = "none", dropout: bool = False) -> float:
    """Bytes that all layers keep for one sequence of the plan."""
    choices: TermChoices = {"kernels": kernels, "dropout": dropout, "checkpointing": checkpointing}
    return float(shape.layers * memory.layer_bytes(shape, 1, SEQ, **choices))


def _paper(kernels: str) -> float:
    return kept(paper_shape(), kernels, dropout=True)


def thumb(k: float) -> float:
    """Bytes by the rule of thumb, b s L h 2k, for one sequence of the plan."""
    one = memory.shape(MODEL)
    return float(SEQ * one.layers * one.hidden * 2 * k)


def _checkpointed_peak() -> float:
    """Bytes of all layers' inputs, and of the layer that is being recomputed."""
    again = memory.recomputed_bytes(MODEL, 1, SEQ, kernels="flash", dropout=False, checkpointing="full")
    return kept(memory.shape(MODEL), "flash", "full") + float(again)


def _logits(bytes_each: int) -> float:
    return float(bytes_each * SEQ * memory.shape(MODEL).vocab)


@dataclass(frozen=True, slots=True)
class Reading:
    """One published peak of a rank's memory, with the bytes predicted for it."""

    words: str
    batch: int
    seq: int
    checkpointing: str
    measured: float  # bytes
    predicted: float
    terms: Mapping[str, float]  # name -> bytes, before the framework's constants


def titan_runs() -> list[Reading]:
    """Peaks that torchtitan's authors published for Llama 3.1 8B under FSDP alone, without tensor or pipeline
    parallelism."""
    shape, found = memory.shape("llama3-8b"), []
    for row in rows("published_memory/torchtitan_perf.csv"):
        gpus, dp, tp, pp, cp = (int(row[name]) for name in ("n_gpus", "fsdp", "tp", "pp", "cp"))
        if (tp, pp) != (1, 1) or dp * cp != gpus:
            continue
        compiled = bool(int(row["torch_compile"]))
        with_loss = compiled and row["table"] == "H200"  # the loss as well, since 2025
        checkpointing = row["activation_checkpointing"].split("(")[0]
        run = frameworks.TrainingRun(
            shape=shape,
            layout=Layout(dp=dp, cp=cp, zero=3),
            batch=int(row["local_batch_size"]),
            seq=int(row["seq_len"]),
            checkpointing=checkpointing,
            words=frozenset({"compiled loss"} if with_loss else ()),
        )
        words = f"{gpus} × {row['hardware'].split()[0]}" + ", compiled" * compiled
        predicted, terms = frameworks.predicted_bytes("torchtitan", run), frameworks.peak_terms("torchtitan", run)
        measured = float(row["peak_memory_gib"]) * GiB
        found.append(Reading(words, int(run.batch), int(run.seq), checkpointing, measured, float(predicted), terms))
    return found


def _of_steps(what: str) -> str:
    """A number of the picture of two steps."""
    from course_chapters.ch02 import first_steps  # imported here because it loads matplotlib

    return {
        "tokens": f"{first_steps.TOKENS:,} tokens",
        "card": facts.device(first_steps.DEVICE).memory.text,
        "state": bytes_text(memory.state_bytes(facts.model(first_steps.MODEL).params)),
        "peak": bytes_text(first_steps.peak(first_steps.levels())[1]),
    }[what]


def _puzzle(letter: str) -> str:
    return bytes_text(memory.state_bytes(405 * BILLION, letter), 2 if letter == "F" else 3)


def _conventions() -> list[float]:
    return sorted(one.bytes_per_param for one in memory.CONVENTIONS.values())


NUMBERS: Mapping[str, Callable[[], str]] = {
    **opening("02"),
    "gpus": lambda: f"{GPUS} H100s",
    "model": lambda: f"{PARAMS / BILLION:g}B",
    "hbm": lambda: bytes_text(GPUS * H100.memory),
    "card": lambda: H100.memory.text,
    "card_gib": lambda: f"{H100.memory / GiB:.1f} GiB",
    "gib_gap": lambda: percent_text(GiB / GB - 1, 2),
    "weights": lambda: bytes_text(memory.weights_bytes(PARAMS)),
    "state": lambda: bytes_text(memory.state_bytes(PARAMS)),
    "seq": lambda: f"{SEQ:,} tokens",
    # conventions
    **{f"puzzle_{place}": partial(_puzzle, letter) for place, letter in PUZZLE.items()},
    "split_half": lambda: f"{memory.state_by_bucket(405 * BILLION, 'A')['weights'] / GB:,.0f} GB",
    "split_moments": lambda: f"{memory.state_by_bucket(405 * BILLION, 'A')['moments'] / GB:,.0f} GB",
    "share": lambda: bytes_text(memory.state_bytes(PARAMS) / GPUS),
    "checkpoint_bytes": lambda: f"{memory.convention('B').checkpoint:g}",
    "checkpoint": lambda: bytes_text(memory.convention("B").checkpoint * PARAMS),
    "convention_factor": lambda: number_text(_conventions()[-1] / _conventions()[0]),
    "convention_low": lambda: f"{_conventions()[0]:g}",
    "convention_high": lambda: f"{_conventions()[-1]:g}",
    "params_exact": lambda: f"{memory.count_params(MODEL):,}",
    "seven_weights": lambda: bytes_text(memory.weights_bytes(7 * BILLION)),
    "seven_moments": lambda: bytes_text(memory.state_by_bucket(7 * BILLION)["moments"]),
    # two steps of an 8B model
    **{f"steps_{what}": partial(_of_steps, what) for what in ("tokens", "card", "state", "peak")},
    # activations
    "paper_stored": lambda: bytes_text(_paper("paper")),
    "paper_flash": lambda: bytes_text(_paper("flash")),
    "paper_ratio": lambda: number_text(_paper("paper") / _paper("flash")),
    "k_llama": lambda: f"{kept(memory.shape(MODEL), 'flash') / thumb(1):.2f}",
    "range_low": lambda: bytes_text(thumb(12)),
    "range_high": lambda: bytes_text(thumb(20)),
    "vocab": lambda: f"{memory.shape(MODEL).vocab:,}",
    "logits": lambda: bytes_text(_logits(2)),
    "logits_all": lambda: bytes_text(_logits(2 + 4 + 4 + 4)),
    "inputs_live": lambda: bytes_text(_checkpointed_peak()),
    "inputs_all": lambda: bytes_text(kept(memory.shape(MODEL), "flash", "full")),
    "pcie": lambda: f"{facts.link('PCIe5 x16').one_way / GB:g} GB/s",
    # a lab on a rented GPU
    **lab(LAB_GPUS, LAB_SECONDS),
    "titan_buffers": lambda: f"{frameworks.fits()['torchtitan'].buffers / GiB:.2g} GiB",
}

__all__ = ["NUMBERS", "SEQ", "Reading", "titan_runs"]
