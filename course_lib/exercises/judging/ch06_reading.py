"""Judges of chapter 06's exercises that read what a cluster did: logs, timings, byte matrices, rounded sums."""

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from course_lib.exercises.ch06_more import ALGORITHMS
from course_lib.exercises.judging import Judging, Params, describe, is_number
from course_lib.exercises.judging.ch06_ranks import Fault, coin_of, verdict
from course_lib.exercises.judging.ch06_traffic import matrix_of
from course_lib.records import Case, Outcome, Verdict

# --- who waits for whom

Entry = tuple[float, int, str, Any]


def circle_of(log: Sequence[Entry]) -> list[int]:
    """The ranks of the circle of waiting in a log, from the smallest; [] without one."""
    state: dict[int, tuple[str, Any]] = {}
    for _, rank, what, peer in sorted(log, key=lambda entry: entry[0]):
        state[rank] = (what, peer)
    other = {"sends": "receives", "receives": "sends"}
    waits = {rank: peer for rank, (what, peer) in state.items() if what in other and state.get(peer) != (other[what], rank)}
    for start in sorted(waits):
        path, rank = [], start
        while rank in waits and rank not in path:
            path.append(rank)
            rank = waits[rank]
        if rank in path:
            circle = path[path.index(rank) :]
            at = circle.index(min(circle))
            return circle[at:] + circle[:at]
    return []


def _log(rng: random.Random, n: int, now: dict[int, tuple[str, Any]], past: dict[int, tuple[str, Any]] | None = None) -> list[Entry]:
    """A log that ends in the states `now`, with what the ranks did before, in no order."""
    past = past or {}
    log: list[Entry] = []
    for rank in range(n):
        times = sorted(round(rng.uniform(0, 9), 3) for _ in range(2 + rng.randrange(2)))
        before = past.get(rank, ("computes", None))
        log += [(time, rank, *before) for time in times]
        log.append((round(rng.uniform(10, 20), 3), rank, *now[rank]))
    rng.shuffle(log)
    return log


def _waiting(rng: random.Random, circle: Sequence[int]) -> dict[int, tuple[str, Any]]:
    """States in which each rank of the circle waits for the next; no two of them meet."""
    word = rng.choice(("sends", "receives"))
    return {rank: (word, circle[(place + 1) % len(circle)]) for place, rank in enumerate(circle)}


def _circle_logs(rng: random.Random, n: int) -> list[tuple[str, str, list[Entry]]]:
    """(name, part, log) of thirty logs: circles, tails, slow ranks, old entries, pairs that meet."""
    logs: list[tuple[str, str, list[Entry]]] = []

    def add(part: str, name: str, now: dict[int, tuple[str, Any]], past: dict[int, tuple[str, Any]] | None = None,
            ranks: Sequence[int] = ()) -> None:  # fmt: skip
        ranks = ranks or rng.sample(range(n), n)  # other numbers for the same story
        moved = [{ranks[r]: (what, None if peer is None else ranks[peer]) for r, (what, peer) in states.items()}
                 for states in (now, past or {})]  # fmt: skip
        logs.append((name, part, _log(rng, n, *moved)))

    work: dict[int, tuple[str, Any]] = dict.fromkeys(range(n), ("computes", None))
    chain = {rank: ("receives", rank + 1) for rank in range(n - 1)} | {n - 1: ("computes", None)}
    add("circle", "three in a circle", work | _waiting(rng, [0, 1, 2]))
    add("circle", "a chain behind a rank that computes", chain)
    add("circle", "two in a circle", work | _waiting(rng, [0, 1]))
    for length in (3, 4, n):
        add("circle", f"{length} in a circle", work | _waiting(rng, list(range(length))))
    add("circle", "everyone computes", work)
    for _ in range(4):
        add("slow", "a chain behind a rank that computes", chain)
        add("slow", "a chain behind a rank that is done", chain | {n - 1: ("done", None)})
    for length in (2, 3, n - 2, n - 1):
        tail = {rank: ("receives", rank - 1) for rank in range(length, n)}
        for ranks in (range(n), range(n - 1, -1, -1)):  # behind the circle once the highest numbers, once the lowest
            add("tails", f"{length} in a circle, others behind them", work | _waiting(rng, list(range(length))) | tail, ranks=ranks)
    for length in (2, 3, n - 1):
        old = _waiting(rng, list(range(length)))
        behind = {rank: ("receives", rank - 1) for rank in range(length, n)}
        add("stale", "a circle that was, and is no more", work | behind, old)
        add("stale", "a circle now, other waits before", work | _waiting(rng, list(range(length))), {r: ("receives", (r + 1) % n) for r in range(n)})
    for _ in range(2):
        add("pairs", "two ranks about to meet, others behind them",
            work | {0: ("sends", 1), 1: ("receives", 0)} | {rank: ("receives", rank - 1) for rank in range(2, n)})  # fmt: skip
        mixed = {0: ("sends", 1), 1: ("sends", 2), 2: ("receives", 0)}
        add("pairs", "a circle of sends and receives", work | mixed)
    add("pairs", "both send to each other", work | {0: ("sends", 1), 1: ("sends", 0)})
    return logs


def _circle_cases(params: Params, rng: random.Random) -> list[Case]:
    return [Case(name=name, args=(log,), kind="values" if part == "circle" else "generality", part=part, visible=index < 3)
            for index, (name, part, log) in enumerate(_circle_logs(rng, params["ranks"]))]  # fmt: skip


def _circle_fault(case: Case, got: Any) -> Fault | None:
    log = case.args[0]
    want = circle_of(log)
    if type(got) is tuple:
        got = list(got)
    if got == want and type(got) is list and all(type(each) is int for each in got):
        return None
    if type(got) is not list or not all(type(each) is int for each in got):
        return "not-a-list", f"{case.name}: return a list of ranks, [] where there is no circle; got {describe(got)}."
    if not want:
        name = {"stale": "old-entries", "pairs": "about-to-meet"}.get(case.part, "slow-is-no-circle")
        think = {"old-entries": "It was over before the last entries.", "about-to-meet": "A send and its receive are about to meet."}
        return name, f"{case.name}: there is no circle, and you report {got}. {think.get(name, 'One rank is only slow, or done.')}"
    if not got:
        return "missed", f"{case.name}: some ranks wait for each other in a circle, and you report none."
    if set(got) == set(want) and len(got) == len(want):
        turned = got[got.index(min(got)) :] + got[: got.index(min(got))]
        if turned == want:
            return "wrong-start", f"{case.name}: the right circle, but begin with its smallest rank."
        return "wrong-order", f"{case.name}: the right ranks, but each must be followed by the one that it waits for."
    if set(want) < set(got):
        return "tail-counted", f"{case.name}: you report {len(got)} ranks. Some of them wait for the circle without being in it."
    return "other-ranks", f"{case.name}: these ranks are not in a circle. Which entry of each rank is its latest?"


def _circle_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    return [verdict(case.kind, case.part, case, _circle_fault(case, outcome.value))]


# --- two lines


def _model(params: Params, size: float) -> float:
    return min(alpha + size / bandwidth for alpha, bandwidth in zip(params["alphas"], params["bandwidths"], strict=True))


def crossing(params: Params) -> float:
    """Bytes at which both ways take equally long."""
    (first, second), (slow, fast) = params["alphas"], params["bandwidths"]
    return (second - first) / (1 / slow - 1 / fast)


def _fit_cases(params: Params, rng: random.Random) -> list[Case]:
    def case(name: str, values: Params, **more: Any) -> Case:
        sizes = [float(2**power) for power in range(10, 31)]
        seconds = [_model(values, size) * (1 + rng.uniform(-0.01, 0.01)) for size in sizes]
        return Case(name=name, args=(sizes, seconds), secret=dict(values), **more)

    cases = [case("one link, measured", params, part="lines")]
    for alphas, bandwidths in (((3e-6, 25e-6), (2e9, 25e9)), ((8e-6, 90e-6), (6e9, 180e9)), ((2e-6, 14e-6), (1.5e9, 45e9))):
        values = {"alphas": alphas, "bandwidths": bandwidths}
        cases.append(case("another link", values, kind="generality", part="links", visible=False))
    return cases


def _line(sizes: np.ndarray, seconds: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    rows = np.stack([np.ones_like(sizes), sizes], 1) * weight[:, None]
    (alpha, beta), *_ = np.linalg.lstsq(rows, seconds * weight, rcond=None)
    return float(alpha), float(1 / beta) if beta else math.inf


def _fit_fault(case: Case, got: Any) -> Fault | None:
    if type(got) not in (tuple, list) or len(got) != 3 or any(type(each) not in (tuple, list) or len(each) != 2 for each in got[1:]):
        return "wrong-shape", f"{case.name}: return (switch, (latency, bandwidth), (latency, bandwidth)); got {describe(got)}."
    numbers = [got[0], *got[1], *got[2]]
    if not all(is_number(each) for each in numbers):
        return "not-a-number", f"{case.name}: all five values are numbers; got {describe(got)}."
    switch, (alpha, slow), (second, fast) = (float(got[0]), *(tuple(map(float, each)) for each in got[1:]))
    if min(slow, fast) <= 0:
        return "no-bandwidth", f"{case.name}: a bandwidth of {min(slow, fast):.3g} bytes/s; is that a slope instead of its inverse?"
    truth, edge = case.secret, crossing(case.secret)
    sizes, seconds = map(np.array, case.args)
    small, large = (truth["alphas"][0], truth["bandwidths"][0]), (truth["alphas"][1], truth["bandwidths"][1])

    def off(line: tuple[float, float], true: tuple[float, float], region: np.ndarray) -> float:
        return float(np.max(np.abs((line[0] + region / line[1]) / (true[0] + region / true[1]) - 1)))

    low, high = np.geomspace(1e3, edge / 1.5, 9), np.geomspace(edge * 1.5, 1e9, 9)
    if off((alpha, slow), small, low) <= 0.06 and off((second, fast), large, high) <= 0.06:
        if edge / 2.5 <= switch <= edge * 2.5:
            return None
        return "wrong-switch", f"{case.name}: both lines are right; the switch is {switch / edge:.3g} times where they cross."
    if off((alpha, slow), large, high) <= 0.06 and off((second, fast), small, low) <= 0.06:
        return "lines-swapped", f"{case.name}: both lines are right, in the wrong order: the way for small messages comes first."
    if abs(alpha / second - 1 if second else 1) < 1e-9 and abs(slow / fast - 1) < 1e-9:
        return "one-line", f"{case.name}: one line for all sizes; there are two ways, each with its own constants."
    if off((alpha, 1 / slow), small, low) <= 0.06 or off((second, 1 / fast), large, high) <= 0.06:
        return "slope-for-bandwidth", f"{case.name}: seconds per byte where bytes per second belong."
    cut = sizes < switch
    if 1 < cut.sum() < len(sizes) - 1:
        raw = [_line(sizes[part], seconds[part], np.ones(part.sum())) for part in (cut, ~cut)]
        if any(abs(mine[1] / theirs[1] - 1) < 1e-4 and abs(mine[0] - theirs[0]) <= 1e-4 * abs(theirs[0])
               for mine, theirs in zip(((alpha, slow), (second, fast)), raw, strict=True)):  # fmt: skip
            return "raw-seconds", (f"{case.name}: least squares on raw seconds: the largest messages decide everything, also the latency. "
                                   "Every time is uncertain by a share of itself.")  # fmt: skip
    which, error = ("small", off((alpha, slow), small, low)) if off((alpha, slow), small, low) > 0.06 else (
        "large", off((second, fast), large, high))  # fmt: skip
    return "bad-line", f"{case.name}: the line for {which} messages is off by {100 * error:.3g} % in its own region."


def _fit_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    return [verdict(case.kind, case.part, case, _fit_fault(case, outcome.value))]


# --- names


def _name_cases(params: Params, rng: random.Random) -> list[Case]:
    def cases(n: int, elements: int, per_node: int, **more: Any) -> list[Case]:
        names = rng.sample([*ALGORITHMS], len(ALGORITHMS))
        return [Case(name=f"{n} ranks, matrix {letter}", args=(matrix_of(name, n, elements, 4, per_node), 4 * elements), secret=name, **more)
                for letter, name in zip("ABCDEFGH", names, strict=True)]  # fmt: skip

    found = list(cases(8, params["numbers"], 4, part="eight"))
    for n, per_node in ((8, 2), (16, 4), (12, 3), (6, 3), (5, 1), (9, 3)):
        power = n & (n - 1) == 0
        more = cases(n, rng.randrange(500, 9000), per_node, kind="generality", part="powers" if power else "others", visible=False)
        found += [case for case in more if not (case.secret == "hierarchical" and per_node == 1)]
    return found


def _name_fault(case: Case, got: Any) -> Fault | None:
    if type(got) is not str or got not in ALGORITHMS:
        return "no-such-name", f"{case.name}: {describe(got)} is none of the eight names."
    if got != case.secret:
        told = {frozenset(("ring", "whole-tensor ring")): "Both speak to one neighbour only; how many bytes does each hop carry?",
                frozenset(("all-to-all", "everyone to everyone")): "Both fill the matrix; compare an entry with the tensor."}  # fmt: skip
        think = told.get(frozenset((got, case.secret)), "Count the partners of rank 0 and of another rank, then look at the bytes.")
        return f"not-{got.replace(' ', '-')}", f"{case.name}: it is not {got!r}. {think}"
    return None


def _name_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    return [verdict(case.kind, case.part, case, _name_fault(case, outcome.value))]


# --- equal up to rounding


def ring_order(inputs: Sequence[Tensor]) -> Tensor:
    """The sum as a ring adds it: every chunk begins at another rank."""
    n = len(inputs)
    chunks = [x.tensor_split(n) for x in inputs]
    total = []
    for c in range(n):
        order = [(c + 1 + step) % n for step in range(n)]
        part = chunks[order[0]][c].clone()
        for rank in order[1:]:
            part += chunks[rank][c]
        total.append(part)
    return torch.cat(total)


def tree_order(inputs: Sequence[Tensor]) -> Tensor:
    """The sum as a tree adds it: pairs of pairs."""
    row = [x.clone() for x in inputs]
    while len(row) > 1:
        row = [row[i] + row[i + 1] if i + 1 < len(row) else row[i] for i in range(0, len(row), 2)]
    return row[0]


def root_order(inputs: Sequence[Tensor]) -> Tensor:
    """The sum as rank 0 adds it: one after another."""
    total = inputs[0].clone()
    for x in inputs[1:]:
        total += x
    return total


def _fewer_bits(inputs: Sequence[Tensor]) -> Tensor:
    low = torch.bfloat16 if inputs[0].dtype == torch.float32 else torch.float8_e5m2
    total = inputs[0].clone()
    for x in inputs[1:]:
        total = (total.to(low).to(total.dtype) + x.to(low).to(total.dtype)).to(low).to(total.dtype)
    return total


def _lacks_one(inputs: Sequence[Tensor]) -> Tensor:
    total = root_order(inputs)
    size = torch.stack([x.double().abs() for x in inputs])
    at = int(size[-1].argmax())
    total[at] = root_order([x[at : at + 1] for x in inputs[:-1]])[0]
    return total


def _one_twice(inputs: Sequence[Tensor]) -> Tensor:
    return root_order([*inputs, inputs[1]])


def _sum_data(kind: str, coin: torch.Generator, n: int) -> list[Tensor]:
    size = 40 + n
    rows = [torch.randn(size, generator=coin) for _ in range(n)]
    if kind == "cancel":  # large numbers that nearly cancel, in pairs of ranks
        big = torch.randn(n // 2, size, generator=coin) * 1e4
        rows = [row + (1 if rank % 2 else -1) * big[rank // 2] if rank < n // 2 * 2 else row for rank, row in enumerate(rows)]
    if kind == "small":
        rows = [row * 1e-6 for row in rows]
    if kind == "half":
        rows = [row.bfloat16() for row in rows]
    return rows


RIGHT_ORDERS: dict[str, Callable[[Sequence[Tensor]], Tensor]] = {"a ring": ring_order, "a tree": tree_order, "rank 0's loop": root_order}
WRONG_SUMS: dict[str, Callable[[Sequence[Tensor]], Tensor]] = {
    "one element without the last rank": _lacks_one, "rank 1 counted twice": _one_twice, "added up in fewer bits": _fewer_bits,
}  # fmt: skip


def _same_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, cases = coin_of(rng), []
    for kind, share, ranks in (("plain", "values", 6), ("cancel", "values", params["ranks"]), ("small", "generality", 5),
                               ("half", "generality", 4), ("plain", "generality", 2)):  # fmt: skip
        inputs = _sum_data(kind, coin, ranks)
        part = "two" if ranks == 2 else kind
        for name, make in (*RIGHT_ORDERS.items(), *WRONG_SUMS.items()):
            cases.append(Case(name=f"{part}: {name}", args=(make(inputs), inputs), kind=share, part=part, secret=name in RIGHT_ORDERS,
                              visible=part == "plain"))  # fmt: skip
    return cases


def _same_fault(case: Case, got: Any) -> Fault | None:
    where, _, what = case.name.partition(": ")
    data = {"plain": "Ordinary numbers", "cancel": "Large numbers that nearly cancel", "small": "Numbers of 10⁻⁶", "half": "bfloat16",
            "two": "Two ranks"}[where]  # fmt: skip
    if type(got) is Tensor and got.dtype == torch.bool and got.numel() == 1:
        got = bool(got)  # `(error <= bound).all()` is a fair answer
    if type(got) is not bool:
        return "not-a-bool", f"{data}: return True or False; got {describe(got)}."
    if got is case.secret:
        return None
    if case.secret:
        think = ("Equal to the bit is too much to ask; what may the last digits differ by?" if where in ("plain", "small", "half", "two")
                 else "The sum is small, what was added up is not: to which of them does the error belong?")  # fmt: skip
        return "rejects-right", f"{data}: the order of {what} is as right as any other, and was rejected. {think}"
    return "accepts-wrong", f"{data}: accepted, though it is wrong ({what}). How large can an error by rounding be there?"


def _same_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    return [verdict(case.kind, case.part, case, _same_fault(case, outcome.value))]


READING = {
    "wait-for-cycle": Judging(
        shares={"values:circle": 0.4, "generality:slow": 0.15, "generality:tails": 0.15, "generality:stale": 0.15,
                "generality:pairs": 0.15},
        cases=_circle_cases,
        verdicts=_circle_verdicts,
        why="With named peers every rank waits for one other at most, so from any rank there is one path: it ends at a rank that works or "
            "is done, or it runs into a circle. What hangs behind a circle waits too, but breaking the circle sets it free.",
        pytorch="`TORCH_NCCL_TRACE_BUFFER_SIZE` and the flight recorder give the log; its analyzer looks for the same circle.",
    ),
    "alpha-beta-fit": Judging(
        shares={"values:lines": 0.6, "generality:links": 0.4},
        cases=_fit_cases,
        verdicts=_fit_verdicts,
        why="Times span six decades, so squares of raw errors see the largest messages only. Relative errors give every size a voice: the "
            "small ones tell the latency, the large ones the bandwidth. The cut is one more unknown; try all.",
        pytorch="NCCL's tuner switches between the protocols LL, LL128 and Simple by such a model; `NCCL_PROTO` pins one.",
    ),
    "name-the-algorithm": Judging(
        shares={"values:eight": 0.6, "generality:powers": 0.2, "generality:others": 0.2},
        cases=_name_cases,
        verdicts=_name_verdicts,
        why="Who speaks to whom separates rings, roots and trees; how much separates chunks from whole tensors. What a library really did "
            "can be read from counters, whatever its documentation says.",
        pytorch="`NCCL_DEBUG=INFO` with `NCCL_DEBUG_SUBSYS=TUNING` prints the choice; the byte counters of a switch prove it.",
    ),
    "equal-up-to-rounding": Judging(
        shares={"values:plain": 0.25, "values:cancel": 0.25, "generality:small": 0.15, "generality:half": 0.2, "generality:two": 0.15},
        cases=_same_cases,
        verdicts=_same_verdicts,
        why="Rounding errors are shares of the partial sums, and those are as large as what was added up, not as what is left. So the bound "
            "is (N − 1) roundings of Σ|x|, element by element, in the dtype's own epsilon. A bound relative to the sum rejects right "
            "answers where numbers cancel; a fixed one accepts wrong answers where numbers are small.",
        pytorch="`torch.testing.assert_close` takes `rtol` and `atol`, of the result; neither knows what was added up.",
    ),
}  # fmt: skip
