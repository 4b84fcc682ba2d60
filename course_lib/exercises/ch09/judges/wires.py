"""Judges of chapter 09's wires: the time of a model's all-reduces, to predict, and how far a layer can be cut."""

import random
from collections.abc import Sequence
from typing import Any

from course_lib import facts
from course_lib.exercises.ch09.judges.regions import unread
from course_lib.exercises.probes import NOT_ANSWERED
from course_lib.judging import (
    Fault,
    Judging,
    Mistake,
    Params,
    describe,
    is_number,
    near,
    number_verdict,
    prediction,
    verdict,
)
from course_lib.judging.cases import hidden, shown
from course_lib.judging.draws import plain
from course_lib.records import Case, Outcome, Verdict
from course_lib.tensor_parallel.traffic import tp_calls_per_layer, tp_cost_per_layer
from course_lib.units import GB, TFLOP, bytes_text, duration_text

# --- the prediction


def tp_time(params: Params) -> float:
    """Seconds of the all-reduces that are to be predicted."""
    cost = tp_cost_per_layer(params["tokens"], params["hidden"], params["ranks"], 0.0, params["bandwidth"])
    return float(params["layers"] * cost.seconds)


def _reveal(params: Params) -> str:
    cost = tp_cost_per_layer(params["tokens"], params["hidden"], params["ranks"], 0.0, params["bandwidth"])
    inside = facts.device("H100 SXM").link_one_way
    return (
        f"{duration_text(tp_time(params))}: {bytes_text(cost.nbytes)} from every rank for each of {params['layers']} layers. Over the links inside a "
        f"server of H100, at {inside / GB:.0f} GB/s, it would be {duration_text(tp_time({**params, 'bandwidth': inside}))}."
    )


# --- how far to cut


def seconds_of(tokens: int, hidden: int, ranks: int, bandwidth: float, recompute: str) -> float:
    """Seconds of one layer's all-reduces."""
    return float(tp_cost_per_layer(tokens, hidden, ranks, 0.0, bandwidth, recompute=recompute).seconds)


def product_seconds(tokens: int, hidden: int, ffn: int, ranks: int, flops: float, recompute: str) -> float:
    """Seconds of one rank's products in a layer."""
    passes = 8 if recompute == "full" else 6
    return passes * tokens * (4 * hidden * hidden + 3 * hidden * ffn) / ranks / flops


def largest(
    row: Sequence[Any], recompute: str, *, halved: bool = False, inside_only: bool = False, whole: bool = False
) -> int:
    """The largest power of two of ranks that meets the share; the options are known slips."""
    tokens, hidden, ffn, flops, inside, across, per_node, share = row
    best = 1
    for n in (2**power for power in range(11)):
        wire = inside if n <= per_node or inside_only else across
        talk = seconds_of(tokens, hidden, n, wire, recompute) * (0.5 if halved else 1)
        if talk <= share * product_seconds(tokens, hidden, ffn, 1 if whole else n, flops, recompute):
            best = n
    return best


def _cases(params: Params, rng: random.Random) -> list[Case]:
    size = params["hidden"]

    def seconds_row() -> tuple[Any, ...]:
        return (
            rng.choice((1024, 2048, 4096, 8192)),
            size * rng.choice((1, 2)) // rng.choice((1, 2)),
            rng.choice((2, 3, 4, 6, 8, 16, 72)),
            rng.choice((25, 50, 200, 450)) * GB,
        )

    def row() -> tuple[Any, ...]:
        while True:
            h = rng.choice((2048, 4096, 8192, 12288, 16384))
            given = (
                rng.choice((2048, 4096, 8192)),
                h,
                rng.choice((5, 7, 8)) * h // 2,
                rng.choice((200, 400, 700, 900)) * TFLOP,
                rng.choice((150, 300, 450, 900)) * GB,
                rng.choice((12.5, 25, 50, 100)) * GB,
                rng.choice((4, 8, 16, 64)),
                rng.choice((0.05, 0.1, 0.2, 0.5, 1.0, 2.0)),
            )
            if _clear(given, params["recompute"]):
                return given

    width = (4 * size + 3 * (7 * size // 2)) * 450 * GB / (400 * TFLOP)  # tells the two forms of the exercise apart
    visible = (4096, size, 7 * size // 2, 400 * TFLOP, 450 * GB, 50 * GB, 8, round(7 / (0.354 * width), 3))
    nodes = [(*visible[:6], n, round((n - 1) / (0.354 * width), 3)) for n in (4,)]  # as plain as the one shown
    return [
        shown("one layer", "values:seconds", 0, [(4096, size, 8, 450 * GB), (4096, size, 8, 50 * GB)]),
        shown("a given share", "values:largest", 1, [visible]),
        hidden("other layers", "values:seconds", 0, [seconds_row() for _ in range(20)] + [(4096, size, 1, 50 * GB)]),
        hidden("sixty other clusters", "generality:clusters", 1, [row() for _ in range(60)]),
        plain("largest", 1, "smaller nodes at a given share", nodes),
        hidden(
            "no ranks beyond one, and all of them",
            "generality:clusters",
            1,
            [
                (4096, 4096, 14336, 900 * TFLOP, 150 * GB, 12.5 * GB, 8, 1e-4),
                (4096, 4096, 14336, 900 * TFLOP, 150 * GB, 12.5 * GB, 8, 1e4),
            ],
        ),
    ]


def _clear(row: Sequence[Any], recompute: str) -> bool:
    """Whether no number of ranks is so near the edge that rounding decides."""
    tokens, hidden, ffn, flops, inside, across, per_node, share = row
    for n in (2**power for power in range(1, 11)):
        ratio = seconds_of(tokens, hidden, n, inside if n <= per_node else across, recompute) / product_seconds(
            tokens, hidden, ffn, n, flops, recompute
        )
        if 0.999 < ratio / share < 1.001:
            return False
    return True


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    (which, table), found, recompute = case.args, outcome.value, params["recompute"]
    if type(found) is str and found == NOT_ANSWERED:
        return [verdict(case.kind, case.part, case, ("not-answered", "`largest_tp` is not answered yet."))]
    if unreadable := unread(case, found):
        return unreadable
    if which == 0:
        return [
            next(
                (
                    bad
                    for row, got in zip(table, found, strict=True)
                    if not (bad := _seconds_verdict(case, row, got, recompute)).ok
                ),
                verdict(case.kind, case.part, case, None),
            )
        ]
    fault = next(
        (
            bad
            for row, got in zip(table, found, strict=True)
            if (bad := _largest_fault(row, got, recompute, table, found))
        ),
        None,
    )
    return [verdict(case.kind, case.part, case, fault)]


def _seconds_verdict(case: Case, row: Sequence[Any], got: Any, recompute: str) -> Verdict:
    tokens, hidden, n, bandwidth = row
    want = seconds_of(tokens, hidden, n, bandwidth, recompute)
    calls = tp_calls_per_layer(recompute=recompute)["all_reduce"]
    public = (
        [
            Mistake(
                "public-form",
                want * 4 / calls,
                "This solves the public form of the exercise: here the forward pass runs twice, and so do its "
                "all-reduces.",
            )
        ]
        if calls != 4
        else [Mistake("recomputed", want * 1.5, "Nothing is recomputed here: four all-reduces a layer.")]
    )
    slips = [
        *public,
        Mistake(
            "forward-only",
            want * 2 / calls,
            "These are the forward pass's two all-reduces; the backward pass has as many.",
        ),
        Mistake("one-each", want / 2, "Attention and MLP have an all-reduce each, in each pass."),
        Mistake("one-all-reduce", want / calls, "That is one all-reduce; a layer has more."),
        Mistake(
            "no-ring",
            want * n / (2 * (n - 1)) if n > 1 else -1.0,
            "A ring sends 2 (1 − 1/N) of the tensor, not the tensor once.",
        ),
        Mistake(
            "whole-twice", want * n / (n - 1) if n > 1 else -1.0, "A ring leaves out each rank's own part: (1 − 1/N)."
        ),
        Mistake("half-a-ring", want / 2, "That is one of a ring's two halves."),
        Mistake("numbers", want / 2, "These are numbers, not bytes: activations have 16 bits."),
        Mistake("32-bits", want * 2, "Activations have 16 bits."),
    ]
    return number_verdict(
        case.part,
        case,
        got,
        want,
        unit="seconds",
        kind=case.kind,
        mistakes=slips,
        hint=f"{tokens:,} tokens, hidden {hidden:,}, {n} ranks.",
    )


def _largest_fault(
    row: Sequence[Any], got: Any, recompute: str, table: Sequence[Any], found: Sequence[Any]
) -> Fault | None:
    want = largest(row, recompute)
    if is_number(got) and near(got, want, 1e-9):
        return None
    told = (
        f"{row[0]:,} tokens, hidden {row[1]:,}, ffn {row[2]:,}, {row[3] / TFLOP:,.0f} TFLOP/s, {row[4] / GB:g} and {row[5] / GB:g} GB/s, {row[6]} ranks a "
        f"node, share {row[7]:g}: "
    )
    if got is None:
        return "returned-none", "The function returned None: is a `return` missing?"
    if not is_number(got):
        return "not-a-number", f"{told}expected a number of ranks, got {describe(got)}."
    full = recompute == "full"
    lead = "this solves the public form of the exercise: here" if full else "nothing is recomputed here: it is not that"
    slips = [
        Mistake(
            "public-form" if full else "recomputed",
            {"recompute": "none" if full else "full"},
            f"{lead} the forward pass runs twice.",
        ),
        Mistake("one-pass", {"halved": True}, "forward *and* backward have all-reduces."),
        Mistake(
            "inside-only", {"inside_only": True}, "beyond a node the ring goes at the speed of the wire between nodes."
        ),
        Mistake(
            "whole-products",
            {"whole": True},
            "a rank has an N-th of the products only; that is why cutting finer makes the share worse.",
        ),
    ]
    for mistake in slips if len(table) > 9 else slips[:full]:  # a single number has many causes
        given = {"recompute": recompute, **mistake.value}
        if all(near(got, largest(row, **given), 1e-9) for row, got in zip(table, found, strict=True)):
            return mistake.name, told + mistake.message
    return (
        "other-number",
        f"{told}got {got:,g}. What do a rank's all-reduces take at that number, and what its products?",
    )


WIRES = {
    "predict-tp-time": prediction(
        unit="seconds",
        why="Every layer sends a tensor of activations four times, almost twice each time, and no product can go on before it has come: over the network that "
        "alone takes longer than the products it was cut for.",
        pytorch="`init_device_mesh` puts the tensor-parallel axis last, so that neighbours share a server.",
        reveal=_reveal,
        truth=tp_time,
    ),
    "largest-tp": Judging(
        shares={"values:seconds": 0.35, "values:largest": 0.25, "generality:clusters": 0.4},
        cases=_cases,
        verdicts=_verdicts,
        why="Bytes per rank hardly depend on N, products per rank fall with it: so the share that talking takes grows with N, in steps of two, and jumps where the "
        "ring leaves the node. Tokens cancel: the width of the layer and the wire decide.",
        pytorch="Published runs stay inside a server: TP 8 in Megatron's and Llama 3's.",
    ),
}
