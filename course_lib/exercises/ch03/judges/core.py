"""Judges of chapter 03's first exercises: intensities, a predicted rate, the batch that fills the arithmetic, three roofs."""

import math
import random
from fractions import Fraction
from typing import Any

from course_lib import facts
from course_lib.exercises.ch03.cards.core import twelve
from course_lib.judging import Judging, Mistake, Params, describe, is_number, number_verdict, prediction
from course_lib.judging.draws import log_uniform, plain, unseen
from course_lib.judging.named_columns import Name, together
from course_lib.judging.old_columns import Column, columns, table
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import GB, TFLOP, bytes_text, flops_text, number_text

PEAKS = (125e12, 312e12, 459e12, 989e12, 1307e12, 2250e12)
MEMORIES = (0.9e12, 1.2e12, 2.039e12, 3.35e12, 4.8e12, 8e12)
WIRES = (12.5e9, 25e9, 50e9, 64e9, 300e9, 450e9, 900e9)


def matmul_bytes(output: str, m: int, k: int, n: int, size: int) -> int:
    """Bytes that a product moves: both inputs read, the output written, and read as well where it is added to."""
    return size * (m * k + k * n + m * n * (2 if output == "accumulated" else 1))


def _intensity_columns(output: str) -> tuple[Column, Column, Column]:
    def want(m: int, k: int, n: int, s: int) -> float:
        return 2 * m * k * n / matmul_bytes(output, m, k, n, s)

    other = "written" if output == "accumulated" else "accumulated"
    told = {
        "accumulated": "this reads the output too, which is only written.",
        "written": "this writes the output; it has to be read as well, because something is added to it.",
    }[other]
    return (
        Column(
            part="matmul",
            unit="FLOP per byte",
            want=want,
            words=lambda m, k, n, s: f"({m:,} × {k:,}) by ({k:,} × {n:,}) at {s} byte{'' if s == 1 else 's'}",
            hint="Three matrices: which of them are read, which written?",
            slips=(
                Mistake(
                    "no-write",
                    lambda m, k, n, s: 2 * m * k * n / (s * (m * k + k * n)),
                    "these are the bytes of both inputs; the output passes the memory too.",
                ),
                Mistake("other-output", lambda m, k, n, s: 2 * m * k * n / matmul_bytes(other, m, k, n, s), told),
                Mistake("multiply-adds", lambda *row: want(*row) / 2, "a multiplication and an addition are two FLOP."),
                Mistake(
                    "elements",
                    lambda m, k, n, s: want(m, k, n, s) * s if s > 1 else None,
                    "this is FLOP per element; an element has several bytes.",
                ),
                Mistake("upside-down", lambda *row: 1 / want(*row), "this is bytes per FLOP."),
                Mistake(
                    "square-only",
                    lambda m, k, n, s: 2 * m**3 / matmul_bytes(output, m, m, m, s) if not m == k == n else None,
                    "this would be right for a square; m, k and n differ here.",
                ),
            ),
        ),
        Column(
            part="relu",
            unit="FLOP per byte",
            want=lambda s: 1 / (2 * s),
            words=lambda s: f"elements of {s} bytes",
            slips=(
                Mistake("no-write", lambda s: 1 / s, "every element is written too."),
                Mistake(
                    "elements", lambda s: 0.5 if s != 1 else None, "this is FLOP per element moved; mind the bytes."
                ),
                Mistake("upside-down", lambda s: 2 * s, "this is bytes per FLOP."),
                Mistake("two-flop", lambda s: 2 / (2 * s), "a comparison with zero is one FLOP here."),
            ),
        ),
        Column(
            part="ridge",
            unit="FLOP per byte",
            want=lambda f, b: f / b,
            words=lambda f, b: f"{flops_text(f)}/s and {bytes_text(b)}/s",
            slips=(
                Mistake("upside-down", lambda f, b: b / f, "this is bytes per FLOP."),
                Mistake("sparse-peak", lambda f, b: 2 * f / b, "the peak given is dense already; nothing to double."),
                Mistake("mixed-units", lambda f, b: (f / TFLOP) / (b / GB), "TFLOP over GB is a thousand short."),
            ),
        ),
    )


def _intensity_cases(params: Params, rng: random.Random) -> list[Case]:
    side, size = params["side"], params["size"]
    shapes = [
        (
            rng.choice((1, 7, 64, 1000, 8192)),
            rng.choice((3, 128, 4096, 28_672)),
            rng.choice((5, 512, 11_008, 50_257)),
            rng.choice((1, 2, 4, 8)),
        )
        for _ in range(14)
    ]
    rates = [(rng.choice(PEAKS), rng.choice(MEMORIES)) for _ in range(10)]
    return [
        Case(name="the square product", args=(0, [(side, side, side, size)]), part="matmul"),
        Case(name="the ReLU", args=(1, [(size,)]), part="relu"),
        Case(name=params["device"], args=(2, [(params["flops"], params["bandwidth"])]), part="ridge"),
        plain("relu", 1, "two more elements", [(1,), (8,)]),
        unseen(rng, "matmul", 0, "other shapes", [*shapes, (1, 1, 1, 1), (4096, 4096, 4096, 1)]),
        unseen(rng, "relu", 1, "other elements", [(1,), (2,), (4,), (8,)]),
        unseen(rng, "ridge", 2, "other devices", rates),
    ]


MATMUL_INTENSITY = Judging(
    shares={
        "values:matmul": 0.2,
        "values:relu": 0.1,
        "values:ridge": 0.1,
        "generality:matmul": 0.3,
        "generality:relu": 0.15,
        "generality:ridge": 0.15,
    },
    cases=_intensity_cases,
    verdicts=lambda params, case, outcome: columns(*_intensity_columns(params["output"]))(params, case, outcome),
    why="FLOP grow with the volume m·k·n, bytes with the three faces, so a large product is far right of any ridge and an "
    "elementwise operation far left of it, whatever its size. A page that divides by the bytes loaded gets 2,048 for a product "
    "of side 4,096 in 16 bits; with the output it is 1,365. Say which bytes you count whenever you quote an intensity.",
    pytorch="`torch.utils.flop_counter.FlopCounterMode` counts the FLOP; nothing counts the bytes for you.",
)


def decode_rate(params: Params) -> float:
    """Tokens a second for one user: the slower of reading and computing every weight once."""
    return 1 / max(2 * params["params"] / params["bandwidth"], 2 * params["params"] / params["flops"])


def _decode_reveal(params: Params) -> str:
    rate = decode_rate(params)
    return (
        f"At most {number_text(rate)} tokens a second: {bytes_text(2 * params['params'])} of weights pass the memory for every "
        f"token, which takes {number_text(1e3 / rate)} ms. The arithmetic alone would do "
        f"{number_text(params['flops'] / (2 * params['params']))} tokens a second, "
        f"{number_text(params['flops'] / params['bandwidth'])} times as many, and idles for the rest."
    )


PREDICT_DECODE = prediction(
    unit="tokens a second",
    reveal=_decode_reveal,
    truth=decode_rate,
    why="One FLOP per byte, some hundreds of FLOP per byte needed: generating for one user runs at the memory's speed, and the "
    "peak on the brochure does not enter. Bytes of all weights over bytes a second is the whole calculation.",
)


def least_batch(kept: str, flops: float, bandwidth: float, params: float, size: float, kv_bytes: float) -> int | None:
    """The least whole batch whose computing takes at least as long as its reading; exact arithmetic on the numbers given."""
    f, b, p, s, kv = map(Fraction, (flops, bandwidth, params, size, kv_bytes))
    compute = 2 * p / f
    if kept == "shared":
        return max(1, math.ceil((p * s + kv) / b / compute))
    extra = kv / b
    return None if compute <= extra else max(1, math.ceil(p * s / b / (compute - extra)))


def _batch_slips(kept: str) -> tuple[tuple[str, Any, str], ...]:
    def ridge(f: float, b: float, p: float, s: float, kv: float) -> float:
        return f * s / (2 * b)

    def least(*row: float) -> int | None:
        return least_batch(kept, *row)

    def without(f: float, b: float, p: float, s: float, kv: float) -> int:
        return least_batch("each", f, b, p, s, 0)

    def shifted(by: int) -> Any:
        return lambda *row: None if least(*row) is None else least(*row) + by

    other = "shared" if kept == "each" else "each"
    return (
        ("not-whole", ridge, "a batch is a whole number of sequences."),
        ("kept-forgotten", without, "this counts the weights alone; what was kept of earlier tokens is read too."),
        (
            "kept-the-other-way",
            lambda *row: least_batch(other, *row),
            "this reads what was kept once for the whole batch."
            if kept == "each"
            else "this reads the shared prompt once for every sequence.",
        ),
        ("rounded-down", shifted(-1), "at this batch reading still takes longer."),
        ("one-too-many", shifted(1), "one sequence fewer is enough."),
        (
            "two-bytes",
            lambda f, b, p, s, kv: least_batch(kept, f, b, p, 2, kv),
            "a weight has `weight_size` bytes here.",
        ),
        (
            "multiply-adds",
            lambda f, b, p, s, kv: least_batch(kept, 2 * f, b, p, s, kv),
            "a multiplication and an addition per parameter are two FLOP.",
        ),
        (
            "ridge-for-batch",
            lambda f, b, p, s, kv: math.ceil(f / b),
            "the ridge is in FLOP per byte; a byte is not a weight.",
        ),
    )


def _batch_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    kept = params["kept"]
    base = {"kind": case.kind, "part": case.part, "case": case.name}
    got = table(outcome.value, case, case.part, case.kind)
    if isinstance(got, Verdict):
        return [got]
    wants = [least_batch(kept, *row) for row in case.args[1]]
    if len(got) > 2 and all(value is None for value in got) and any(want is not None for want in wants):
        return [
            Verdict(
                ok=False,
                mistake="returned-none",
                message="The function returns None for every machine: is a `return` missing?",
                **base,
            )
        ]
    for row, value, want in zip(case.args[1], got, wants, strict=True):
        f, b, p, s, kv = row
        words = (
            f"{number_text(p)} parameters, {s:g} bytes each, {number_text(f / TFLOP)} TFLOP/s, {number_text(b / GB)} GB/s, "
            f"{bytes_text(kv)} kept"
        )
        if want is None:
            if value is None:
                continue
            return [
                Verdict(
                    ok=False,
                    mistake="no-such-batch",
                    message=f"{words}: each further sequence brings more reading than "
                    f"computing, so no batch is enough, and the answer is None; got {describe(value)}.",
                    **base,
                )
            ]
        if is_number(value) and value == want:
            continue
        if value is None:
            told = (
                "there is a batch that is enough; got None."
                if len(got) > 1
                else "the function returned None; a number is asked."
            )
            return [
                Verdict(
                    ok=False, mistake="gave-up" if len(got) > 1 else "returned-none", message=f"{words}: {told}", **base
                )
            ]
        known = [
            Mistake(name, wrong, f"{words}: {message}")
            for name, slip, message in _batch_slips(kept)
            if (wrong := slip(*row)) is not None and wrong != want
        ]
        found = number_verdict(
            case.part,
            Case(name=words),
            value,
            float(want),
            unit="sequences",
            rel=1e-9,
            kind=case.kind,
            mistakes=known,
            hint="At which batch do both times of a step meet?",
        )
        return [Verdict(ok=False, mistake=found.mistake, message=found.message, **base)]
    return [Verdict(ok=True, **base)]


def _safe(kept: str, row: tuple[float, ...]) -> bool:
    """Whether rounding noise changes nothing: the batch stays the same when a rate moves by a millionth."""
    f, *others = row
    return len({least_batch(kept, f * (1 + shift), *others) for shift in (-1e-6, 0.0, 1e-6)}) == 1


def _batch_cases(params: Params, rng: random.Random) -> list[Case]:
    kept = params["kept"]
    run = (params["flops"], params["bandwidth"], params["params"], params["weight_size"])

    def some(count: int, share: tuple[float, float]) -> list[tuple[float, ...]]:
        rows: list[tuple[float, ...]] = []
        while len(rows) < count:
            f, b, p = rng.choice(PEAKS), rng.choice(MEMORIES), log_uniform(rng, 1e8, 5e11)
            kv = float(f"{2 * p / f * b * rng.uniform(*share):.3g}")
            row = (f, b, p, rng.choice((0.5, 1, 2, 4)), kv)
            rows += [row] if _safe(kept, row) else []
        return rows

    powers = [
        (2.0**50, 2.0**41, 2.0**33, 2, 0.0),
        (2.0**50, 2.0**41, 2.0**33, 1, 0.0),
        (2.0**41, 2.0**41, 2.0**33, 0.5, 0.0),
    ]
    own = [Case(name="beyond help", args=(0, some(6, (1.05, 4))), kind="generality", part="never", visible=False)]
    return [
        Case(name="nothing kept", args=(0, [(*run, 0.0)]), part="weights"),
        Case(name=f"{params['context']:,} tokens kept", args=(0, [(*run, params["kv_bytes"])]), part="kept"),
        plain("weights", 0, "three more machines", [(*row[:4], 0.0) for row in some(3, (0, 0))]),
        plain("kept", 0, "three more contexts", some(3, (0.1, 0.6))),
        unseen(rng, "weights", 0, "other machines", [*[(*row[:4], 0.0) for row in some(14, (0, 0))], *powers]),
        unseen(
            rng,
            "kept",
            0,
            "other contexts",
            [*some(10, (0.1, 0.8)), *some(4, (0.85, 0.95))] if kept == "each" else some(14, (0.1, 50)),
        ),
        *(own if kept == "each" else [unseen(rng, "never", 0, "long prompts", some(6, (100, 1000)))]),
    ]


def _kept_matters(params: Params) -> bool:
    """Whether what is kept in the case shown changes the batch: else whoever forgets it is right by luck."""
    row = (params["flops"], params["bandwidth"], params["params"], params["weight_size"])
    return least_batch(params["kept"], *row, params["kv_bytes"]) != least_batch(params["kept"], *row, 0.0)


DECODE_BATCH = Judging(
    alike=_kept_matters,
    shares={
        "values:weights": 0.2,
        "values:kept": 0.2,
        "generality:weights": 0.2,
        "generality:kept": 0.2,
        "generality:never": 0.2,
    },
    cases=_batch_cases,
    verdicts=_batch_verdicts,
    why="Weights are read once for the whole batch, so every sequence more is free until computing takes as long as reading: at "
    "the ridge, 295 FLOP per byte on an H100 with two bytes a weight, hence 296 sequences. What each sequence has kept is not "
    "shared: it brings its own reading, and where that takes as long as its computing no batch fills the arithmetic. That is why "
    "long contexts, not only small batches, leave it idle.",
    pytorch="Serving engines batch continuously for this reason (chapter 16); in training the batch is thousands of tokens.",
)


def roofs(
    kind: str, flop: float, memory: float, sent: float, flops: float, bandwidth: float, network: float
) -> dict[str, float]:
    """Seconds that each of the three parts is busy."""
    wire = network / (2 if kind == "both ways" else 1)
    return {"compute": flop / flops, "memory": memory / bandwidth, "network": sent / wire}


def _roof_columns(kind: str) -> tuple[Column, Name]:
    other = "one way" if kind == "both ways" else "both ways"

    def rate(*row: float) -> float:
        return row[0] / max(roofs(kind, *row).values())

    def name(*row: float) -> str:
        times = roofs(kind, *row)
        return max(times, key=times.__getitem__)

    def words(flop: float, memory: float, sent: float, *_: float) -> str:
        return f"{flops_text(flop)}, {bytes_text(memory)} through memory, {bytes_text(sent)} sent"

    def by(change: Any) -> tuple[Any, Any]:
        """A slip as the rate and the name that its times lead to."""

        def wrong_rate(*row: float) -> float:
            return row[0] / max(change(*row).values())

        def wrong_name(*row: float) -> str:
            times = change(*row)
            return max(times, key=times.__getitem__)

        return wrong_rate, wrong_name

    def at_memory_speed(flop: float, memory: float, sent: float, f: float, b: float, w: float) -> dict[str, float]:
        return roofs(kind, flop, memory, sent, f, b, b * (2 if kind == "both ways" else 1))

    def one_intensity(flop: float, memory: float, sent: float, f: float, b: float, w: float) -> dict[str, float]:
        return roofs(kind, flop, memory, memory if sent else 0.0, f, b, w)

    ways = {
        "no-network": (
            lambda *row: {**roofs(kind, *row), "network": 0.0},
            "the third roof is missing, or stands as high as the memory's: the bytes sent go over the wire.",
        ),
        "wire-at-memory-speed": (at_memory_speed, "the bytes sent go over the wire, not through the memory."),
        "one-intensity": (one_intensity, "this uses the memory's bytes for the wire; it has an intensity of its own."),
        "other-direction": (
            lambda *row: roofs(other, *row),
            "the wire's rate has both directions added; the bytes go one way."
            if kind == "both ways"
            else "the wire's rate is one direction already; nothing to halve.",
        ),
        "sum-of-bytes": (
            lambda flop, memory, sent, f, b, w: {"compute": flop / f, "memory": (memory + sent) / b, "network": 0.0},
            "bytes of two wires were added; each has a rate of its own.",
        ),
    }
    slips = {key: (*by(change), message) for key, (change, message) in ways.items()}
    return (
        Column(
            part="roof",
            unit="FLOP/s",
            want=rate,
            words=words,
            hint="Which of the three is busy longest, and for how long?",
            slips=(
                *(Mistake(key, wrong, message) for key, (wrong, _, message) in slips.items()),
                Mistake(
                    "sum-of-times", lambda *row: row[0] / sum(roofs(kind, *row).values()), "everything overlaps here."
                ),
                Mistake("the-peak", lambda *row: row[3], "that is the peak; this work does not reach it."),
                Mistake(
                    "seconds", lambda *row: max(roofs(kind, *row).values()), "these are seconds; FLOP/s are asked for."
                ),
                Mistake(
                    "highest-roof",
                    lambda *row: row[0] / min(t for t in roofs(kind, *row).values() if t),
                    "the lowest roof binds.",
                ),
            ),
        ),
        Name(
            part="bound",
            known=("compute", "memory", "network"),
            want=name,
            words=words,
            slips={key: (wrong, message) for key, (_, wrong, message) in slips.items()},
        ),
    )


def _roof_rows(kind: str, rng: random.Random, bound: str, count: int) -> list[tuple[float, ...]]:
    """Random work with a clear bound, whichever of the three it is to be."""
    rows: list[tuple[float, ...]] = []
    while len(rows) < count:
        f, b, w = rng.choice(PEAKS), rng.choice(MEMORIES), rng.choice(WIRES)
        longest = log_uniform(rng, 1e-6, 1e2)
        times = {name: longest * rng.uniform(0.05, 0.9) for name in ("compute", "memory", "network")}
        times[bound] = longest
        if bound != "network" and rng.random() < 0.3:
            times["network"] = 0.0
        one_way = w / (2 if kind == "both ways" else 1)
        rows.append(
            (
                float(f"{times['compute'] * f:.4g}"),
                float(f"{times['memory'] * b:.4g}"),
                float(f"{times['network'] * one_way:.4g}"),
                f,
                b,
                w,
            )
        )
    return rows


def _roof_cases(params: Params, rng: random.Random) -> list[Case]:
    kind = params["network_kind"]
    keys = ("flop", "memory_bytes", "network_bytes")
    shown = [
        (*(case[key] for key in keys), params["flops"], params["bandwidth"], case["network"])
        for case in params["cases"]
    ]
    others = [row for bound in ("compute", "memory", "network") for row in _roof_rows(kind, rng, bound, 20)]
    chosen = facts.device(rng.choice(("H100 SXM", "B200 SXM")))
    more = [
        (
            *(case[key] for key in keys),
            float(chosen.dense_flops),
            float(chosen.bandwidth),
            case["network"] * (2 if kind == "both ways" else 1),
        )
        for case in twelve(chosen.name)
    ]
    rng.shuffle(others)
    return [
        Case(name="the twelve", args=(0, shown)),
        Case(name="other work", args=(0, [*others, *more]), kind="generality", visible=False),
    ]


def _roof_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    return together(_roof_columns(params["network_kind"]), "a pair (FLOP/s, name of the roof)")(case, outcome)


NETWORK_ROOF = Judging(
    shares={"values:roof": 0.2, "values:bound": 0.25, "generality:roof": 0.3, "generality:bound": 0.25},
    cases=_roof_cases,
    verdicts=_roof_verdicts,
    why="Each resource is busy for its amount over its rate; with everything overlapped the longest of the three is the time of "
    "the step, and FLOP over that time is what can be attained. The same layer is bound by its arithmetic inside a server and by "
    "the network across servers, at the same memory intensity: a single x axis cannot show that. More tokens per device move a "
    "summed gradient away from the network roof; a layer cut over servers stays under it however many tokens come.",
    pytorch="`torch.profiler` shows the three as busy time of compute kernels, memory-bound kernels and communication kernels.",
)
