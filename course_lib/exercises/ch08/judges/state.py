"""Judges of chapter 08's arithmetic in the core: who holds how much, and the prediction."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any

from course_lib import memory
from course_lib.exercises.ch08.cards.core import BUCKETS
from course_lib.judging import Judging, Mistake, Params, prediction
from course_lib.judging.draws import plain, safely_off_whole
from course_lib.judging.optional_columns import Column, judge, results, told
from course_lib.records import Case, Outcome, Verdict
from course_lib.sharding import bytes_per_param_sent
from course_lib.units import BILLION, GB, bytes_text, duration_text

Buckets = Mapping[str, float]
SINCE = {"master": 1, "moments": 1, "grads": 2, "weights": 3}  # the stage that shares a bucket out


def split(stage: int, buckets: Buckets) -> tuple[float, float]:
    """Bytes per parameter that every rank holds whole, and those that are shared out."""
    shared = sum(per for name, per in buckets.items() if stage >= SINCE[name])
    return sum(buckets.values()) - shared, shared


def held(params: float, stage: int, ranks: int, buckets: Buckets) -> float:
    """Bytes of state on one rank."""
    whole, shared = split(stage, buckets)
    return params * (whole + shared / ranks)


def fewest(params: float, stage: int, buckets: Buckets, memory: float) -> int | None:
    """The fewest ranks on which the state fits, or None."""
    whole, shared = split(stage, buckets)
    room = memory - params * whole
    if room < 0 or (room == 0 and shared):
        return None
    return max(1, math.ceil(params * shared / room * (1 - 1e-12))) if shared else 1


def _without(buckets: Buckets, *names: str) -> Buckets:
    return {name: 0.0 if name in names else per for name, per in buckets.items()}


def _words(params: float, stage: int, ranks: int, buckets: Buckets) -> str:
    return f"{params / BILLION:g}B, stage {stage}, {ranks:,} ranks, {'+'.join(f'{per:g}' for per in buckets.values())} bytes"


def _fewest_words(params: float, stage: int, buckets: Buckets, memory: float) -> str:
    return f"{params / BILLION:g}B, stage {stage}, {'+'.join(f'{per:g}' for per in buckets.values())} bytes, cards of {memory / GB:g} GB"


HELD = Column(
    part="held",
    unit="bytes",
    want=held,
    words=_words,
    slips=(
        Mistake(
            "all-shared",
            lambda p, s, n, b: held(p, 3 if s else 0, n, b),
            "everything is divided here. Which buckets does this stage leave whole?",
        ),
        Mistake("nothing-shared", lambda p, s, n, b: held(p, 0, n, b), "nothing is divided here."),
        Mistake(
            "one-stage-more",
            lambda p, s, n, b: held(p, min(s + 1, 3), n, b),
            "this is the next stage's: one bucket more is shared out.",
        ),
        Mistake(
            "one-stage-less",
            lambda p, s, n, b: held(p, max(s - 1, 0), n, b),
            "this is the stage's before: one bucket less is shared out.",
        ),
        Mistake("no-master", lambda p, s, n, b: held(p, s, n, _without(b, "master")), "the master copy is missing."),
        Mistake(
            "master-whole",
            lambda p, s, n, b: held(p, s, n, _without(b, "master")) + p * b["master"] if s else None,
            "the master copy is the optimizer's, and shared out from stage 1 on.",
        ),
        Mistake("no-gradients", lambda p, s, n, b: held(p, s, n, _without(b, "grads")), "gradients are missing."),
        Mistake(
            "only-shared",
            lambda p, s, n, b: p * split(s, b)[1] / n,
            "this is the shared part alone; what stays whole is missing.",
        ),
        Mistake(
            "all-ranks",
            lambda p, s, n, b: held(p, s, n, b) * n,
            "these are all ranks' bytes together; one rank's are asked for.",
        ),
        Mistake("in-GB", lambda p, s, n, b: held(p, s, n, b) / GB, "these are GB; bytes are asked for."),
    ),
)

FEWEST = Column(
    part="fewest",
    unit="ranks",
    want=fewest,
    words=_fewest_words,
    rel=1e-9,
    none="what stays whole on every rank does not fit, however many ranks there are; that is `None`",
    slips=(
        Mistake(
            "rounded-down",
            lambda p, s, b, m: (fewest(p, s, b, m) or 0) - 1 or None,
            "one rank less than is needed: it does not fit there.",
        ),
        Mistake(
            "not-rounded",
            lambda p, s, b, m: p * split(s, b)[1] / (m - p * split(s, b)[0]) if m > p * split(s, b)[0] else None,
            "ranks are a whole number: round up.",
        ),
        Mistake(
            "all-shared",
            lambda p, s, b, m: math.ceil(p * sum(b.values()) / m) if s else None,
            "that is total bytes over memory, as if every bucket were divided.",
        ),
        Mistake(
            "one-more", lambda p, s, b, m: (fewest(p, s, b, m) or 0) + 1, "one rank less is enough; exactly full fits."
        ),
        Mistake(
            "power-of-two",
            lambda p, s, b, m: 1 << (n - 1).bit_length() if (n := fewest(p, s, b, m)) else None,
            "any number of ranks will do, not only powers of two.",
        ),
        Mistake(
            "in-GiB", lambda p, s, b, m: fewest(p, s, b, m / GB * 2**30), "that takes each GB of memory for a GiB."
        ),
    ),
)


def _cases(params: Params, rng: random.Random) -> list[Case]:
    own = {name: params[name] for name in BUCKETS}
    p, n, m = params["params"], params["ranks"], params["memory"]

    def other() -> dict[str, float]:
        letter = rng.choice("ABCDFG")
        return {name: memory.CONVENTIONS[letter].buckets[name] for name in BUCKETS}

    sizes = (1e9, 3e9, 7e9, 13e9, 34e9, 70e9, 180e9, 405e9)
    rows = [
        (rng.choice(sizes), stage, rng.choice((1, 2, 3, 7, 48, 640, 4096)), other())
        for stage in (0, 1, 2, 3)
        for _ in range(5)
    ]

    def limit(stage: int) -> tuple[Any, ...]:
        while (
            True
        ):  # neither what stays whole nor all of it may fill the memory to the last byte: then rounding would decide
            row = rng.choice(sizes), stage, other(), rng.choice((16, 24, 40, 80, 141, 192)) * GB
            whole, shared = (row[0] * per for per in split(stage, row[2]))
            if abs(row[3] - whole) > 1e-3 * row[3] and safely_off_whole(shared / (row[3] - whole)):
                return row

    letter = rng.choice(sorted(set("ACDFG") - {params["convention"]}))
    unlike = {name: memory.CONVENTIONS[letter].buckets[name] for name in BUCKETS}
    many = [(size, 3, unlike, room) for size in (70e9, 180e9, 405e9) for room in (40 * GB, 44 * GB, 46 * GB)]
    limits = [limit(stage) for stage in (1, 2, 3) for _ in range(12)]
    edges = [
        (1e9, 0, own, m),
        (405e9, 0, own, m),
        (10e9, 3, {"weights": 2, "grads": 2, "master": 4, "moments": 8}, 20e9),
        (10e9, 1, {"weights": 2, "grads": 2, "master": 4, "moments": 8}, 40e9),
        (5e9, 2, {"weights": 4, "grads": 4, "master": 0, "moments": 0}, 25e9),
    ]
    return [
        Case(
            name=f"{p / BILLION:g}B on {n} ranks", args=(0, [(p, stage, n, own) for stage in (0, 1, 2, 3)]), part="held"
        ),
        Case(name="405B on 1,024 ranks", args=(0, [(405e9, stage, 1024, own) for stage in (1, 3)]), part="held"),
        Case(
            name="the fewest",
            args=(1, [(70e9, 3, own, m), (40e9, 3, own, m), (70e9, 1, own, m), (13e9, 1, own, m)]),
            part="fewest",
        ),
        plain("held", 0, "another optimizer", [(rng.choice(sizes), stage, 48, unlike) for stage in (0, 1, 2, 3)]),
        plain(
            "fewest",
            1,
            "the fewest with another optimizer",
            [row for row in many if safely_off_whole(row[0] * sum(unlike.values()) / row[3])],
        ),
        Case(name="other optimizers", args=(0, rows), kind="generality", part="optimizers", visible=False),
        Case(name="other cards", args=(1, limits), kind="generality", part="cards", visible=False),
        Case(name="one rank, exactly full, and never", args=(1, edges), kind="generality", part="cards", visible=False),
    ]


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    found = results(case, outcome.value)
    if told(found):
        return found
    return [judge((HELD, FEWEST)[case.args[0]], case, found, part=case.part)]


# --- the prediction


def talking_seconds(params: Params) -> float:
    """Seconds for which a GPU sends in a step of FSDP over all GPUs."""
    n = params["gpus"]
    return bytes_per_param_sent(3) * (n - 1) / n * params["params"] / params["bandwidth"]


def computing_seconds(params: Params) -> float:
    """Seconds that the step computes meanwhile."""
    return 6 * params["params"] * params["tokens"] / params["gpus"] / params["rate"]


def _reveal(params: Params) -> str:
    return (
        f"{duration_text(talking_seconds(params))}: three times the {bytes_text(2 * params['params'])} of the weights, over {bytes_text(params['bandwidth'])}/s. "
        f"Of a batch of {params['tokens'] / 2**20:g} Mi tokens each GPU computes for {duration_text(computing_seconds(params))}."
    )


STATE = {
    "zero-state": Judging(
        shares={"values:held": 0.4, "values:fewest": 0.25, "generality:optimizers": 0.15, "generality:cards": 0.2},
        cases=_cases,
        verdicts=_verdicts,
        why="Each stage divides one more bucket by N, and what it leaves whole is a floor that no number of ranks lowers: 4 bytes per parameter in stage 1, 2 in "
        "stage 2, none in stage 3. The largest bucket goes first, and that is why the stages come in this order.",
        pytorch="`ZeroRedundancyOptimizer` is stage 1, `fully_shard` stage 3 (with `reshard_after_forward=False` weights stay for the step); DeepSpeed's "
        "`zero_optimization.stage` is the number.",
    ),
    "predict-all-shards": prediction(
        unit="seconds",
        why="Each GPU receives the whole model twice and sends on the gradients of the whole model, however many GPUs there are; only what it computes falls with "
        "their number. So gathers are kept inside a server (HSDP), or the model is cut in other ways as well.",
        pytorch="A mesh of two dimensions given to `fully_shard` makes it HSDP.",
        reveal=_reveal,
        truth=talking_seconds,
    ),
}
