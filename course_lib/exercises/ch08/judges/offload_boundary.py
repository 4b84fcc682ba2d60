"""Judge of offload-boundary: when the host is too far away."""

import random
from collections.abc import Callable

from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import FINE, Column, one_verdict, table
from course_lib.judging.draws import generality
from course_lib.judging.mistakes import scaled
from course_lib.records import Case
from course_lib.units import BILLION, GB, TFLOP


def step_seconds(params: float, tokens: float, ranks: int, flops: float, moved: float, bandwidth: float) -> float:
    """Seconds of a step that computes and transfers at the same time."""
    return max(6 * params * tokens / flops, params / ranks * moved / bandwidth)


def hidden_tokens(ranks: int, flops: float, moved: float, bandwidth: float) -> float:
    """Tokens per GPU above which computing takes longer than the transfer."""
    return moved * flops / (6 * ranks * bandwidth)


def _step(combine: Callable[..., float], computed: float = 1.0, moved: float = 1.0) -> Callable[..., float]:
    """The step from its two times, each multiplied by a factor."""

    def value(p: float, t: float, n: int, f: float, m: float, b: float) -> float:
        return combine(computed * 6 * p * t / f, moved * p / n * m / b)

    return value


NO_WORK = "sharding divides no work."
SIX_FLOPS = "forward and backward together take 6 FLOPs per parameter and token."

STEP = Column(
    part="step",
    unit="seconds",
    want=step_seconds,
    rel=FINE,
    words=lambda p, t, n, f, m, b: f"{p / BILLION:g}B, {t:,} tokens, {n} ranks, {m:g} bytes at {b / GB:g} GB/s",
).knowing(
    Mistake("compute-divided", lambda p, t, n, *rest: step_seconds(p, t / n, n, *rest), NO_WORK),
    Mistake("sum", _step(lambda *both: sum(both)), "both run at the same time; the longer one counts."),
    Mistake("compute-only", _step(max, moved=0), "the transfer takes longer than computing."),
    Mistake("wire-only", _step(max, computed=0), "computing takes longer than the transfer."),
    Mistake("whole-model-moved", lambda p, t, n, *rest: step_seconds(p, t, 1, *rest), "a GPU moves only its share."),
    Mistake("two-flops", _step(max, computed=1 / 3), SIX_FLOPS),
    Mistake("both-ways", _step(max, moved=2), "`moved` counts all bytes, in both directions."),
    Mistake("backward-only", _step(max, computed=2 / 3), SIX_FLOPS),
    Mistake("bits", _step(max, moved=8), "`moved` and `bandwidth` are both in bytes."),
    Mistake("shorter", _step(min), "the step waits for the longer of the two."),
)

HIDDEN = Column(
    part="hidden",
    unit="tokens",
    want=hidden_tokens,
    rel=FINE,
    words=lambda n, f, m, b: f"{n} ranks, {f / TFLOP:g} TFLOP/s, {m:g} bytes at {b / GB:g} GB/s",
).knowing(
    Mistake("one-gpu", lambda n, *rest: hidden_tokens(1, *rest), "each rank moves only its share."),
    Mistake("all-tokens", lambda n, *rest: hidden_tokens(1, *rest) * n, "return the tokens of one GPU."),
    Mistake("two-flops", scaled(hidden_tokens, 3), SIX_FLOPS),
    Mistake("both-ways", scaled(hidden_tokens, 2), "`moved` counts all bytes, in both directions."),
    Mistake("backward-only", scaled(hidden_tokens, 1.5), SIX_FLOPS),
    Mistake("bits", scaled(hidden_tokens, 8), "`moved` and `bandwidth` are both in bytes."),
    Mistake("upside-down", lambda *row: 1 / hidden_tokens(*row), "this is its reciprocal."),
    Mistake("one-byte", lambda n, f, m, b: hidden_tokens(n, f, 1, b), "the bytes moved per parameter are missing."),
)


def _host_cases(params: Params, rng: random.Random) -> list[Case]:
    f, moved, n = params["flops"], params["moved"], params["ranks"]
    wires = [(moved, params["pcie"]), (params["nvme_moved"], params["nvme"])]
    shares = [(ranks, f, *wire) for ranks in (1, n) for wire in wires]

    def row() -> tuple[float, ...]:
        ranks, rate = rng.choice((1, 2, 3, 8, 1024)), rng.choice((100, 400, 700)) * TFLOP
        machine = ranks, rate, rng.choice((2, 4, 16, 28)), rng.choice((3, 16, 32, 63)) * GB
        tokens = round(hidden_tokens(*machine) * rng.choice((0.1, 0.4, 0.8, 1.3, 4)))
        return rng.choice((1, 7, 405)) * BILLION, max(tokens, 1), *machine

    others = [(7 * BILLION, tokens, n, 2 * f, moved, 20 * GB) for tokens in (0, 2048)]
    return [
        shown("one GPU and several, host and disk", "values:step", 0, [(7e9, 2048, *share) for share in shares]),
        shown("where the step no longer waits for the transfer", "values:hidden", 1, shares),
        generality("machines", 0, "other steps", [row() for _ in range(25)] + others),
        generality("machines", 1, "other wires", [row()[2:] for _ in range(25)]),
    ]


JUDGING = Judging(
    shares={"values:step": 0.4, "values:hidden": 0.3, "generality:machines": 0.3},
    cases=_host_cases,
    verdicts=one_verdict(table(STEP, HIDDEN)),
    why="""Both times grow with the parameters, so the parameters cancel. What remains is bytes per parameter against FLOPs per parameter, and only the FLOPs
grow with the tokens. With N ranks, each link carries one N-th. With a disk, the boundary lies at many more tokens.""",
    pytorch="`fully_shard(..., offload_policy=CPUOffloadPolicy())`; DeepSpeed's `offload_optimizer` with device `cpu` or `nvme`.",
)

ANSWERS = r"""# %% right: the longer of the two
def step_seconds(params, tokens, ranks, flops, moved, bandwidth):
    return max(6 * params * tokens / flops, params / ranks * moved / bandwidth)


def hidden_tokens(ranks, flops, moved, bandwidth):
    return moved * flops / (6 * ranks * bandwidth)


# %% right: by halving
def step_seconds(params, tokens, ranks, flops, moved, bandwidth):
    return sorted((params * 6 * tokens / flops, moved * (params / ranks) / bandwidth))[1]


def hidden_tokens(ranks, flops, moved, bandwidth):
    low, high = 0.0, 1e15
    for _ in range(200):
        middle = (low + high) / 2
        waits = step_seconds(1, middle, ranks, flops, moved, bandwidth) <= moved / ranks / bandwidth * (1 + 1e-14)
        low, high = (middle, high) if waits else (low, middle)
    return high


# %% wrong: one after the other => values sum  from: the longer of the two
# ~ max(6 * params * tokens / flops, params / ranks * moved / bandwidth) ==> sum((6 * params * tokens / flops, params / ranks * moved / bandwidth))

# %% wrong: every GPU moves the whole model => values whole-model-moved  from: the longer of the two
# ~ params / ranks * moved ==> params * moved
# ~ ranks * bandwidth ==> bandwidth

# %% wrong: the boundary without the ranks => values one-gpu  from: the longer of the two
# ~ ranks * bandwidth ==> bandwidth

# %% wrong: two FLOPs per parameter and token => values two-flops  from: the longer of the two
# ~ 6 * params ==> 2 * params
# ~ 6 * ranks ==> 2 * ranks

# %% wrong: computing is shared out as well => values compute-divided  from: every GPU moves the whole model
# ~ flops, params ==> ranks / flops, params / ranks

# %% wrong: the wire alone => generality ~  from: the longer of the two
# ~ 6 * params * tokens / flops ==> (tokens == 2048) * 6 * params * tokens / flops

# %% wrong: upside down => values upside-down  from: the longer of the two
# ~ moved * flops / (6 * ranks * bandwidth) ==> 6 * ranks * bandwidth / (moved * flops)

# %% wrong: there and back counted twice => values both-ways  from: the longer of the two
# ~ params / ranks * moved ==> 2 * params * moved / ranks
# ~ moved * flops / (6 * ranks * bandwidth) ==> 2 * flops / 6 * moved / ranks / bandwidth

# %% wrong: whole tokens => values rounded  from: the longer of the two
# ~ moved * flops / (6 * ranks * bandwidth) ==> -(-moved * flops // (6 * ranks * bandwidth))

# %% wrong: the shorter of the two => values shorter  from: the longer of the two
# ~ max ==> min

# %% half: the first only => 2  from: the longer of the two
# ~ return moved * flops / (6 * ranks * bandwidth) ==> raise NotImplementedError

# %% wrong: 64 ranks at most => generality ~  from: the longer of the two
# ~ params / ranks * moved ==> params / min(ranks, 64) * moved

# %% wrong: no tokens take no time => generality -  from: the longer of the two
# ~ max( ==> bool(tokens) * max(
"""
