"""Judges of chapter 03's first exercises: intensities, a predicted rate, the batch that fills the arithmetic, three roofs."""

import math
import random
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

from course_lib import facts
from course_lib.exercises.ch03.cards.core import twelve
from course_lib.judging import Judging, Mistake, Params, prediction
from course_lib.judging.cases import shown
from course_lib.judging.columns import Column, Word, one_verdict, shares, table
from course_lib.judging.draws import draw_rows, generality, log_uniform, one_apart, plain, unseen
from course_lib.judging.mistakes import scaled, shifted
from course_lib.records import Case
from course_lib.units import GB, TFLOP, bytes_text, flops_text, number_text

PEAKS = (125e12, 312e12, 459e12, 989e12, 1307e12, 2250e12)
MEMORIES = (0.9e12, 1.2e12, 2.039e12, 3.35e12, 4.8e12, 8e12)
_ONLY_READS = "only reads count here."
_SIZE = "an element has `size` bytes, which is not always 2."
_READS = {False: "", True: ", reads only"}  # by `reads_only`
WIRES = (1e9, 12.5e9, 25e9, 50e9, 64e9, 300e9, 450e9, 900e9)


def _size_text(size: int) -> str:
    return f"{size} byte{'' if size == 1 else 's'}"


def matmul_bytes(output: str, m: int, k: int, n: int, size: int, reads_only: bool = False) -> int:
    """Bytes that a product moves: both inputs read, the output read if it is added to, and written unless `reads_only`."""
    return size * (m * k + k * n + m * n * ((output == "accumulated") + (not reads_only)))


def _matmul_column(output: str) -> Column:
    def intensity(m: int, k: int, n: int, size: int, reads_only: bool, output: str = output) -> float:
        return 2 * m * k * n / matmul_bytes(output, m, k, n, size, reads_only)

    def other_count(*row: Any) -> float:
        """The value with the other answer to whether the write counts."""
        return intensity(*row[:4], not row[4])

    other, moved = {
        "written": ("accumulated", "this reads the output too, but the output is only written."),
        "accumulated": ("written", "the output has to be read as well, because something is added to it."),
    }[output]
    return Column(
        part="matmul",
        unit="FLOP per byte",
        want=intensity,
        words=lambda m, k, n, s, r: f"({m:,} × {k:,}) by ({k:,} × {n:,}) at {_size_text(s)}{_READS[r]}",
        hint="Which of the three matrices are read, and which are written?",
        mistakes=(
            Mistake("no-write", lambda *row: None if row[4] else other_count(*row), "the output is written too."),
            Mistake("write-counted", lambda *row: other_count(*row) if row[4] else None, _ONLY_READS),
            Mistake("other-output", lambda *row: intensity(*row, other), moved),
            Mistake("multiply-adds", scaled(intensity, 1 / 2), "a multiplication and an addition are two FLOP."),
            Mistake("elements", lambda *row: intensity(*row) * row[3], "this is FLOP per element, not per byte."),
            Mistake("upside-down", lambda *row: 1 / intensity(*row), "this is bytes per FLOP."),
            Mistake("two-bytes", lambda m, k, n, s, r: intensity(m, k, n, 2, r), _SIZE),
            Mistake("square-only", lambda m, k, n, s, r: intensity(m, m, m, s, r), "this is for a square."),
        ),
    )


def _moves(reads_only: bool) -> int:
    """How often ReLU moves each element: it reads it, and writes it if writes count."""
    return 1 if reads_only else 2


_RELU = Column(
    part="relu",
    unit="FLOP per byte",
    want=lambda s, r: 1 / (_moves(r) * s),
    words=lambda s, r: f"elements of {_size_text(s)}{_READS[r]}",
    mistakes=(
        Mistake("no-write", lambda s, r: None if r else 1 / s, "every element is written too."),
        Mistake("write-counted", lambda s, r: 1 / (2 * s) if r else None, _ONLY_READS),
        Mistake("elements", lambda s, r: 1 / _moves(r), "this is FLOP per element moved; give FLOP per byte."),
        Mistake("upside-down", lambda s, r: _moves(r) * s, "this is bytes per FLOP."),
        Mistake("two-bytes", lambda s, r: 1 / (_moves(r) * 2), _SIZE),
        Mistake("two-flop", lambda s, r: 2 / (_moves(r) * s), "a comparison with zero is one FLOP here."),
    ),
)
_RIDGE = Column(
    part="ridge",
    unit="FLOP per byte",
    want=lambda f, b: f / b,
    words=lambda f, b: f"{flops_text(f)}/s and {bytes_text(b)}/s",
    mistakes=(
        Mistake("upside-down", lambda f, b: b / f, "this is bytes per FLOP."),
        Mistake("sparse-peak", lambda f, b: 2 * f / b, "the peak given is dense already; do not double it."),
        Mistake("mixed-units", lambda f, b: (f / TFLOP) / (b / GB), "TFLOP over GB is too small by a factor of 1,000."),
    ),
)


def _intensity_cases(params: Params, rng: random.Random) -> list[Case]:
    side, size = params["side"], params["size"]
    rows, columns = (1, 7, 64, 1000, 8192), (5, 512, 11_008, 50_257)
    shapes = draw_rows(rng, 14, rows, (3, 128, 4096, 28_672), columns, (1, 2, 4, 8), (False, True))
    shapes += one_apart(shapes, _matmul_column(params["output"]).want)
    both = (False, True)
    rates = draw_rows(rng, 10, PEAKS, MEMORIES)
    return [
        shown("the square product", "values:matmul", 0, [(side, side, side, size, reads) for reads in both]),
        shown("the ReLU", "values:relu", 1, [(size, reads) for reads in both]),
        shown(params["device"], "values:ridge", 2, [(params["flops"], params["bandwidth"])]),
        plain("relu", 1, "two more elements", [(1, False), (8, True)]),
        unseen(rng, "matmul", 0, "other shapes", [*shapes, (1, 1, 1, 1, False), (4096, 4096, 4096, 1, False)]),
        unseen(rng, "relu", 1, "other elements", [(size, reads) for size in (1, 2, 4, 8, 16) for reads in both]),
        unseen(rng, "ridge", 2, "other devices", rates),
    ]


MATMUL_INTENSITY = Judging(
    shares=shares(matmul=(0.2, 0.3), relu=(0.1, 0.15), ridge=(0.1, 0.15)),
    cases=_intensity_cases,
    verdicts=lambda params, *given: table(_matmul_column(params["output"]), _RELU, _RIDGE)(params, *given),
    why="The FLOP grow with the volume m·k·n, the bytes with the three faces. So a large product lies far to the right of any "
    "ridge, and an elementwise operation of any size far to the left. For a product of side 4,096 in 16 bits, the reads alone "
    "give 2,048; with the output it is 1,365. Say which bytes you count whenever you quote an intensity.",
    pytorch="`torch.utils.flop_counter.FlopCounterMode` counts the FLOP; PyTorch does not count the bytes for you.",
)


def decode_rate(params: Params) -> float:
    """Tokens a second for one user: the slower of reading and computing every weight once."""
    return 1 / max(2 * params["params"] / params["bandwidth"], 2 * params["params"] / params["flops"])


def _decode_reveal(params: Params) -> str:
    rate = decode_rate(params)
    return (
        f"At most {number_text(rate)} tokens a second: every token reads {bytes_text(2 * params['params'])} of weights, "
        f"which takes {number_text(1e3 / rate)} ms. The arithmetic alone would do "
        f"{number_text(params['flops'] / (2 * params['params']))} tokens a second, "
        f"{number_text(params['flops'] / params['bandwidth'])} times as many, and it is idle for the rest."
    )


PREDICT_DECODE = prediction(
    unit="tokens a second",
    reveal=_decode_reveal,
    truth=decode_rate,
    why="Generating for one user performs one FLOP per byte, and the device needs hundreds to be busy. So it runs at the "
    "memory's speed, and the peak does not matter: divide the bytes of all weights by the bytes per second.",
)


def least_batch(kept: str, flops: float, bandwidth: float, params: float, size: float, kv_bytes: float) -> int | None:
    """The least whole batch whose computing takes at least as long as its reading; exact arithmetic on the numbers given."""
    f, b, p, s, kv = map(Fraction, (flops, bandwidth, params, size, kv_bytes))
    compute = 2 * p / f
    if kept == "shared":
        return max(1, math.ceil((p * s + kv) / b / compute))
    extra = kv / b
    return None if compute <= extra else max(1, math.ceil(p * s / b / (compute - extra)))


def _machine_words(f: float, b: float, p: float, s: float, kv: float) -> str:
    machine = f"{number_text(f / TFLOP)} TFLOP/s, {number_text(b / GB)} GB/s"
    return f"{number_text(p)} parameters, {s:g} bytes each, {machine}, {bytes_text(kv)} kept"


def _batch_column(kept: str) -> Column:
    def least(f: float, b: float, p: float, s: float, kv: float, kept: str = kept) -> int | None:
        return least_batch(kept, f, b, p, s, kv)

    other, read = {
        "each": ("shared", "this reads the keys and values once for the whole batch."),
        "shared": ("each", "this reads the shared prompt once for every sequence."),
    }[kept]
    return Column(
        part="batch",
        unit="sequences",
        want=least,
        words=_machine_words,
        rel=0.0,
        hint="At which batch do both times of a step meet?",
        none="each further sequence takes longer to read than to compute, so no batch is enough; return None",
        some="some batch is enough here",
        mistakes=(
            Mistake("not-whole", lambda f, b, p, s, kv: f * s / (2 * b), "a batch is a whole number of sequences."),
            Mistake("kept-forgotten", lambda *row: least(*row[:4], 0.0), "the keys and values kept are read too."),
            Mistake("kept-the-other-way", lambda *row: least(*row, other), read),
            Mistake("rounded-down", shifted(least, -1), "at this batch reading still takes longer."),
            Mistake("one-too-many", shifted(least, 1), "one sequence fewer is enough."),
            Mistake("two-bytes", lambda f, b, p, s, kv: least(f, b, p, 2, kv), "a weight has `weight_size` bytes."),
            Mistake("multiply-adds", lambda f, *row: least(2 * f, *row), "a multiply-add is two FLOP."),
            Mistake("ridge-for-batch", lambda f, b, *_: math.ceil(f / b), "the ridge is in FLOP per byte."),
        ),
    )


def _safe(kept: str, row: tuple[float, ...]) -> bool:
    """Whether rounding noise changes nothing: the batch stays the same when a rate moves by a millionth."""
    f, *others = row
    return len({least_batch(kept, f * (1 + shift), *others) for shift in (-1e-6, 0.0, 1e-6)}) == 1


def _batch_cases(params: Params, rng: random.Random) -> list[Case]:
    kept = params["kept"]
    run = (params["flops"], params["bandwidth"], params["params"], params["weight_size"])

    def some(count: int, low: float, high: float) -> list[tuple[float, ...]]:
        """Machines on which reading what was kept takes `low` to `high` times a sequence's computing."""
        rows: list[tuple[float, ...]] = []
        while len(rows) < count:
            f, b, p = rng.choice(PEAKS), rng.choice(MEMORIES), log_uniform(rng, 1e8, 5e11)
            kv = float(f"{2 * p / f * b * rng.uniform(low, high):.3g}")
            row = (f, b, p, rng.choice((0.5, 1, 2, 4)), kv)
            rows += [row] if _safe(kept, row) else []
        return rows

    def empty(count: int) -> list[tuple[float, ...]]:
        return [(*row[:4], 0.0) for row in some(count, 0, 0)]

    powers = [(2.0**top, 2.0**41, 2.0**33, size, 0.0) for top, size in ((50, 2), (50, 1), (41, 0.5))]
    each = kept == "each"
    even = [(2**50, 2**41, 2**33, size, 2**25) for size in (2, 1)]  # a sequence reads exactly as long as it computes
    beyond = [generality("never", 0, "beyond help", [*some(6, 1.05, 4), *some(2, 1.01, 1.03), *even])] if each else []
    bands = ((10, 0.1, 0.8), (4, 0.85, 0.95), (2, 0.97, 0.99)) if each else ((14, 0.1, 50),)
    contexts = [row for band in bands for row in some(*band)]
    contexts.append((2**41, 2**41, 2**33, 0.5, 2**20))  # a batch of one
    contexts += one_apart(contexts, partial(least_batch, kept), lambda *row: _safe(kept, row))
    return [
        shown("nothing kept", "values:weights", 0, [(*run, 0.0)]),
        shown(f"{params['context']:,} tokens kept", "values:kept", 0, [(*run, params["kv_bytes"])]),
        plain("weights", 0, "three more machines", empty(3)),
        plain("kept", 0, "three more contexts", some(3, 0.1, 0.6)),
        unseen(rng, "weights", 0, "other machines", [*empty(14), *powers]),
        unseen(rng, "kept", 0, "other contexts", contexts),
        *(beyond or [unseen(rng, "never", 0, "long prompts", some(6, 100, 1000))]),
    ]


def _kept_matters(params: Params) -> bool:
    """Whether what is kept in the case shown changes the batch: else an answer that omits it is right by luck."""
    row = (params["flops"], params["bandwidth"], params["params"], params["weight_size"])
    return least_batch(params["kept"], *row, params["kv_bytes"]) != least_batch(params["kept"], *row, 0.0)


DECODE_BATCH = Judging(
    alike=_kept_matters,
    shares=shares(weights=(0.2, 0.2), kept=(0.2, 0.2), never=(0, 0.2)),
    cases=_batch_cases,
    verdicts=lambda params, *given: one_verdict(table(_batch_column(params["kept"])))(params, *given),
    why="Weights are read once for the whole batch, so each further sequence is free until computing takes as long as reading: "
    "at the ridge, 295 FLOP per byte on an H100 with two bytes per weight, hence 296 sequences. Keys and values are not "
    "shared: each sequence adds its own reads, and if those take as long as its arithmetic, no batch is large enough. So long "
    "contexts, not only small batches, leave the arithmetic idle.",
    pytorch="Serving engines batch continuously for this reason (chapter 16); in training the batch is thousands of tokens.",
)

Times = dict[str, float]


def roofs(kind: str, flop: float, memory: float, sent: float, flops: float, bandwidth: float, network: float) -> Times:
    """Seconds that each of the three parts is busy."""
    wire = network / (2 if kind == "both ways" else 1)
    return {"compute": flop / flops, "memory": memory / bandwidth, "network": sent / wire}


def _work_words(flop: float, memory: float, sent: float, *_: float) -> str:
    return f"{flops_text(flop)}, {bytes_text(memory)} through memory, {bytes_text(sent)} sent"


def _roof_columns(kind: str) -> tuple[Column, Word]:
    other, direction = {
        "both ways": ("one way", "the wire's rate has both directions added; the bytes go one way."),
        "one way": ("both ways", "the wire's rate is one direction already; do not halve it."),
    }[kind]

    def times(*row: float) -> Times:
        return roofs(kind, *row)

    def at_memory_speed(flop: float, memory: float, sent: float, f: float, b: float, w: float) -> Times:
        return {**times(flop, memory, sent, f, b, w), "network": sent / b}

    def one_intensity(flop: float, memory: float, sent: float, *rates: float) -> Times:
        return times(flop, memory, memory if sent else 0.0, *rates)

    def sum_of_bytes(flop: float, memory: float, sent: float, f: float, b: float, w: float) -> Times:
        return {"compute": flop / f, "memory": (memory + sent) / b, "network": 0.0}

    def rate(of: Callable[..., Times]) -> Callable[..., float]:
        return lambda *row: row[0] / max(of(*row).values())

    def bound(of: Callable[..., Times]) -> Callable[..., str]:
        return lambda *row: max(busy := of(*row), key=busy.__getitem__)

    wrong_times = (
        Mistake("no-network", lambda *row: {**times(*row), "network": 0.0}, "the bytes sent need a third roof."),
        Mistake("wire-at-memory-speed", at_memory_speed, "the bytes sent go over the wire, not through the memory."),
        Mistake("one-intensity", one_intensity, "the wire carries the bytes sent, not the memory's bytes."),
        Mistake("other-direction", lambda *row: roofs(other, *row), direction),
        Mistake("sum-of-bytes", sum_of_bytes, "this adds memory bytes and sent bytes; each kind has its own rate."),
    )
    return (
        Column(
            part="roof",
            unit="FLOP/s",
            want=rate(times),
            words=_work_words,
            hint="Which of the three is busy the longest, and for how long?",
            mistakes=(
                *(Mistake(wrong.name, rate(wrong.value), wrong.message) for wrong in wrong_times),
                Mistake("sum-of-times", lambda *row: row[0] / sum(times(*row).values()), "everything overlaps here."),
                Mistake("the-peak", lambda *row: row[3], "this is the peak; the work does not reach it."),
                Mistake("seconds", lambda *row: max(times(*row).values()), "these are seconds; give FLOP/s."),
                Mistake(
                    "highest-roof", lambda *row: row[0] / min(filter(None, times(*row).values())), "the lowest binds."
                ),
            ),
        ),
        Word(
            part="bound",
            choices=("compute", "memory", "network"),
            want=bound(times),
            words=_work_words,
            mistakes=[Mistake(wrong.name, bound(wrong.value), wrong.message) for wrong in wrong_times],
        ),
    )


def _roof_rows(kind: str, rng: random.Random, bound: str, count: int) -> list[tuple[float, ...]]:
    """Random work that the part `bound` clearly limits."""
    rows: list[tuple[float, ...]] = []
    for _ in range(count):
        f, b, w = rng.choice(PEAKS), rng.choice(MEMORIES), rng.choice(WIRES)
        longest = log_uniform(rng, 1e-6, 1e2)
        times = {name: longest * rng.uniform(0.05, 0.9) for name in ("compute", "memory", "network")}
        times[bound] = longest
        if bound != "network" and rng.random() < 0.3:
            times["network"] = 0.0
        one_way = w / (2 if kind == "both ways" else 1)
        amounts = (times["compute"] * f, times["memory"] * b, times["network"] * one_way)
        rows.append((*(float(f"{amount:.4g}") for amount in amounts), f, b, w))
    return rows


def roof_and_bound(kind: str, *row: float) -> tuple[float, str]:
    """FLOP/s that the work can reach, and the part that limits it."""
    busy = roofs(kind, *row)
    return row[0] / max(busy.values()), max(busy, key=busy.__getitem__)


def _clear(busy: Times) -> bool:
    """Whether one part is clearly the busiest."""
    *_, second, longest = sorted(busy.values())
    return longest > 1.02 * second


def _roof_cases(params: Params, rng: random.Random) -> list[Case]:
    kind = params["network_kind"]

    def rows(cases: Any, flops: float, bandwidth: float, directions: int = 1) -> list[tuple[float, ...]]:
        keys = ("flop", "memory_bytes", "network_bytes")
        return [(*(case[key] for key in keys), flops, bandwidth, case["network"] * directions) for case in cases]

    others = [row for bound in ("compute", "memory", "network") for row in _roof_rows(kind, rng, bound, 20)]
    others += one_apart(others, partial(roof_and_bound, kind), lambda *row: _clear(roofs(kind, *row)))
    chosen = facts.device(rng.choice(("H100 SXM", "B200 SXM")))
    directions = 2 if kind == "both ways" else 1
    more = rows(twelve(chosen.name), float(chosen.dense_flops), float(chosen.bandwidth), directions)
    others += [(work * 1e15, (1.9 - work) * 3e12, 0.0, 1e15, 3e12, 5e10) for work in (1.0, 0.9)]  # nothing sent
    rng.shuffle(others)
    shown_twelve = rows(params["cases"], params["flops"], params["bandwidth"])
    return [Case(name="the twelve", args=(0, shown_twelve)), generality("", 0, "other work", [*others, *more])]


NETWORK_ROOF = Judging(
    shares={"values:roof": 0.2, "values:bound": 0.25, "generality:roof": 0.3, "generality:bound": 0.25},
    cases=_roof_cases,
    verdicts=lambda params, *given: table(_roof_columns(params["network_kind"]))(params, *given),
    why="Each resource is busy for its amount divided by its rate. With perfect overlap the longest of the three is the time of "
    "the step, and FLOP divided by that time is the attainable rate. Arithmetic limits a layer inside a server and the network limits "
    "the same layer across servers, at the same memory intensity; a single x axis cannot show that. More tokens per device move "
    "a step with a gradient sum away from the network roof; a layer split over servers stays under it with any number of tokens.",
    pytorch="`torch.profiler` shows the three as busy time of compute kernels, memory-bound kernels and communication kernels.",
)
