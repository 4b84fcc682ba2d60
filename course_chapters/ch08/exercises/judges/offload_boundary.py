from course_grader.judging import FINE, Case, Column, Judging, Params, Random, Worked, generality, one_verdict, table
from course_grader.judging.cases import shown
from course_lib.estimate.units import BILLION, GB, TFLOP

right = Worked("offload-boundary")
STEP = Column("step", "seconds", words=right.words(0), rel=FINE)
HIDDEN = Column("hidden", "tokens", words=right.words(1), rel=FINE)


def _cases(params: Params, rng: Random) -> list[Case]:
    f, moved, n = params["flops"], params["moved"], params["ranks"]
    wires = [(moved, params["pcie"]), (params["nvme_moved"], params["nvme"])]
    shares = [(ranks, f, *wire) for ranks in (1, n) for wire in wires]

    def row() -> tuple[float, ...]:
        ranks, rate = rng.choice((1, 2, 3, 8, 1024)), rng.choice((100, 400, 700)) * TFLOP
        machine = ranks, rate, rng.choice((2, 4, 16, 28)), rng.choice((3, 16, 32, 63)) * GB
        tokens = round(right[1](*machine) * rng.choice((0.1, 0.4, 0.8, 1.3, 4)))
        return rng.choice((1, 7, 405)) * BILLION, max(tokens, 1), *machine

    others = [(7 * BILLION, tokens, n, 2 * f, moved, 20 * GB) for tokens in (0, 2048)]
    return [
        shown("one GPU or more, host and disk", "values:step", 0, [(7e9, t, *s) for t in (2048, 1e5) for s in shares]),
        shown("where the step no longer waits for the transfer", "values:hidden", 1, shares),
        generality("machines", 0, "other steps", [*(row() for _ in range(25)), *others]),
        generality("machines", 1, "other wires", [row()[2:] for _ in range(25)]),
    ]


JUDGING = Judging(
    shares={"values:step": 0.4, "values:hidden": 0.3, "generality:machines": 0.3},
    cases=_cases,
    verdicts=one_verdict(table(STEP, HIDDEN, right=right)),
    why="""Both times grow with the parameters, so the parameters cancel. What remains is bytes per parameter against
FLOPs per parameter, and only the FLOPs grow with the tokens. With N ranks, each link carries one N-th. With a disk, the
boundary lies at many more tokens.""",
    pytorch="`fully_shard(..., offload_policy=CPUOffloadPolicy())`; DeepSpeed's `offload_optimizer` with device "
    "`cpu` or `nvme`.",
)

ANSWERS = r'''# %% right: worked
def step_seconds(params, tokens, ranks, flops, moved, bandwidth) -> float:
    """Seconds of a step whose optimizer state is on the host or a disk."""
    return max(6 * params * tokens / flops, params / ranks * moved / bandwidth)


def hidden_tokens(ranks, flops, moved, bandwidth) -> float:
    """Tokens per GPU from which the step no longer waits for the transfer."""
    return moved * flops / (6 * ranks * bandwidth)
# %% right: by halving  from: worked
def hidden_tokens(ranks, flops, moved, bandwidth):
    low, high = 0.0, 1e15
    for _ in range(200):
        middle = (low + high) / 2
        waits = step_seconds(1, middle, ranks, flops, moved, bandwidth) <= moved / ranks / bandwidth * (1 + 1e-14)
        low, high = (middle, high) if waits else (low, middle)
    return high
# %% wrong: computing is shared out as well => values compute-divided
# > sharding divides no work.
# ~ tokens / flops ==> tokens / ranks / flops
# %% wrong: one after the other => values sum
# > both run at the same time; the longer one counts.
# ~ max(6 * params * tokens / flops, params / ranks * moved / bandwidth)
# ~~ ==> 6 * params * tokens / flops + params / ranks * moved / bandwidth
# %% wrong: compute only => values
# > the transfer takes longer than computing.
# ~ max(6 * params * tokens / flops, params / ranks * moved / bandwidth) ==> 6 * params * tokens / flops
# %% wrong: wire only => values
# > computing takes longer than the transfer.
# ~ max(6 * params * tokens / flops, params / ranks * moved / bandwidth) ==> params / ranks * moved / bandwidth
# %% wrong: every GPU moves the whole model => values whole-model-moved
# > this has the bytes of the whole model, or the tokens of all GPUs: a GPU moves its share and has its own tokens.
# ~ params / ranks * moved ==> params * moved
# ~ ranks * bandwidth ==> bandwidth
# %% wrong: all tokens => values
# > return the tokens of one GPU.
# ~ moved * flops / (6 * ranks * bandwidth) ==> ranks * moved * flops / (6 * bandwidth)
# %% wrong: two FLOPs per parameter and token => values two-flops
# > forward and backward together take 6 FLOPs per parameter and token.
# ~ 6 * params ==> 2 * params
# ~ 6 * ranks ==> 2 * ranks
# %% wrong: backward only => values
# > forward and backward together take 6 FLOPs per parameter and token, not 4.
# ~ 6 * params ==> 4 * params
# ~ 6 * ranks ==> 4 * ranks
# %% wrong: there and back counted twice => values both-ways
# > `moved` counts all bytes, in both directions.
# ~ ranks * moved ==> ranks * 2 * moved
# ~ return moved * flops ==> return 2 * moved * flops
# %% wrong: bits => values
# > `moved` and `bandwidth` are both in bytes.
# ~ ranks * moved ==> ranks * 8 * moved
# ~ return moved * flops ==> return 8 * moved * flops
# %% wrong: the shorter of the two => values shorter
# > the step waits for the longer of the two.
# ~ max ==> min
# %% wrong: upside down => values
# > this is its reciprocal.
# ~ moved * flops / (6 * ranks * bandwidth) ==> 6 * ranks * bandwidth / (moved * flops)
# %% wrong: one byte => values
# > the bytes moved per parameter are missing.
# ~ return moved * flops ==> return flops
# %% wrong: the wire alone, but for the example => generality ~
# ~ 6 * params * tokens / flops ==> (tokens in (2048, 1e5)) * 6 * params * tokens / flops
# %% wrong: whole tokens => values rounded
# ~ moved * flops / (6 * ranks * bandwidth) ==> -(-moved * flops // (6 * ranks * bandwidth))
# %% half: the first only => 2
# ~ return moved * flops / (6 * ranks * bandwidth) ==> raise NotImplementedError
# %% wrong: 64 ranks at most => generality ~
# ~ params / ranks * moved ==> params / min(ranks, 64) * moved
# %% wrong: no tokens take no time => generality
# > the transfer takes as long without tokens.
# ~ max( ==> bool(tokens) * max(
'''
