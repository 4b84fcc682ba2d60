from course_grader.judging import EXACT, FINE, Case, Column, Judging, Params, Random, Worked, gpus_text, hidden, table
from course_grader.judging.random_inputs import draw_rows, plain
from course_lib.estimate.units import GB, TFLOP, bytes_text

right = Worked("break-even")


def _words(flops: float, bandwidth: float, size: float, gpus: str = "") -> str:
    return f"{flops / TFLOP:,.0f} TFLOP/s on links of {bytes_text(bandwidth)}/s{gpus}, {size:g} bytes a gradient"


TOKENS = Column("tokens", "tokens", rel=FINE, words=lambda f, b, n, size: _words(f, b, size, f", {gpus_text(n)}"))
GPUS = Column("gpus", "GPUs", rel=EXACT, words=lambda batch, *row: f"{batch:,.0f} tokens, {_words(*row)}")


def _clear(row: tuple[float, float, float, int]) -> bool:
    """Whether a batch is not at the edge of a whole number of GPUs, where rounding would decide."""
    batch, rate, speed, size = row
    return 0.02 < batch / (2 * right[0](rate, speed, 2, size)) % 1 < 0.98


def _cases(params: Params, rng: Random) -> list[Case]:
    shown = (params["rate"], params["bandwidth"], params["ranks"], 2)
    fleet = (params["batch"], params["rate"], params["bandwidth"], 2)
    rates, speeds = [150 * TFLOP, 400 * TFLOP, 900 * TFLOP], [25 * GB, 50 * GB, 100 * GB, 450 * GB]
    ranks, sizes = (2, 3, 8, 64, 1024, 24_576), (1, 2, 4)
    table = draw_rows(rng, 40, rates, speeds, ranks, sizes)
    fleets = draw_rows(rng, 40, lambda rng: float(rng.randrange(20_000, 8_000_000)), rates, speeds, sizes, keep=_clear)
    batch, rate, speed, size = fleets[0]  # and three that differ from it in one place
    fleets += [(batch, 1.7 * rate, speed, size), (batch, rate, 2.2 * speed, size), (batch, rate, speed, 3)]
    machines = [(rate, speed) for rate in rates for speed in speeds]
    exact = [(rate, speed) for rate, speed in machines if speed != 450 * GB]  # float arithmetic leaves batches whole
    tasks = [(*machine, n, 2) for machine in machines for n in (8, 64)]
    whole = [task for task in tasks if right[0](*task) % 1 == 0]  # as the ones shown
    large = [
        (4 * (n - 1) * rate / (params["flops_each"] * speed), rate, speed, 2)
        for n, (rate, speed) in zip((64, 256, 1024), rng.sample(exact, 3), strict=True)
    ]
    return [
        Case(name="shown", args=(0, [shown]), part="tokens"),
        Case(name="shown", args=(1, [fleet]), part="gpus"),
        plain("tokens", 0, "three more links and GPUs", rng.sample(whole, 3)),
        plain("gpus", 1, "three more batches", large),
        hidden("one GPU alone", "generality:tokens", 0, [(4e14, 50e9, 1, 2)]),
        hidden("40 other links and GPUs", "generality:tokens", 0, table),
        hidden("40 other batches", "generality:gpus", 1, fleets),
        hidden("a batch so small that one GPU is all", "generality:gpus", 1, [(500.0, 9e14, 25e9, 4)]),
    ]


JUDGING = Judging(
    shares={"values:tokens": 0.35, "values:gpus": 0.25, "generality:tokens": 0.2, "generality:gpus": 0.2},
    cases=_cases,
    verdicts=table(TOKENS, GPUS, right=right),
    why="Bytes and FLOPs both grow with the number of parameters, so it cancels. What decides is how many tokens each "
    "GPU processes per parameter that it sends. A fixed batch on more GPUs means fewer tokens on each. With k "
    "FLOPs per parameter and token to hide behind, gradients of g bytes and bandwidth β, the limit is N − 1 = k · "
    "batch · β / (2·g·F).",
    pytorch="No setting changes this balance except fewer bytes (`bf16_compress_hook`), more tokens, or fewer GPUs "
    "in the group.",
)

ANSWERS = r'''# %% right: worked
flops_each = params("break-even").flops_each  # leave as is: FLOPs per parameter and token that hide the all-reduce


def break_even_tokens(flops, bandwidth, ranks, grad_bytes):
    """Tokens per GPU and step at which the all-reduce takes as long as the time that hides it."""
    return 2 * (ranks - 1) / ranks * grad_bytes / bandwidth * flops / flops_each


def most_gpus(batch_tokens, flops, bandwidth, grad_bytes):
    """The largest whole number of GPUs on which a batch of `batch_tokens` still hides the all-reduce."""
    return 1 + math.floor(flops_each * batch_tokens * bandwidth / (2 * grad_bytes * flops))
# %% right: two times of a model of one parameter, and a search by doubling
def seconds(tokens, flops, bandwidth, ranks, grad_bytes):
    return 4 * tokens / flops, 2 * (ranks - 1) * grad_bytes / ranks / bandwidth


def break_even_tokens(flops, bandwidth, ranks, grad_bytes):
    computing, talking = seconds(1.0, flops, bandwidth, ranks, grad_bytes)
    return talking / computing


def most_gpus(batch_tokens, flops, bandwidth, grad_bytes):
    def hidden(n):
        computing, talking = seconds(batch_tokens / n, flops, bandwidth, n, grad_bytes)
        return talking <= computing

    low = 1
    while hidden(2 * low):
        low *= 2
    high = 2 * low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if hidden(middle) else (low, middle)
    return low
# %% wrong: hides behind another part of the step => values wrong-window
# > this hides communication behind another part of the step than the task asks for.
# ~ flops / flops_each ==> flops / (10 - flops_each)
# ~ flops_each * batch_tokens ==> (10 - flops_each) * batch_tokens
# %% wrong: very many ranks => values endless-ring
# > this is the limit for very many GPUs; the ring's factor is 2(N − 1)/N.
# ~ (ranks - 1) / ranks * grad_bytes ==> grad_bytes
# %% wrong: one half of the ring => values one-half
# > a ring all-reduce has two halves, and this counts one of them.
# ~ 2 * (ranks - 1) ==> (ranks - 1)
# ~ (2 * grad_bytes ==> (grad_bytes
# %% wrong: bits => values
# > this confuses bits and bytes; `grad_bytes` is in bytes.
# ~ grad_bytes / bandwidth ==> grad_bytes * 8 / bandwidth
# %% wrong: an eighth of a byte => values bits
# ~ grad_bytes / bandwidth ==> grad_bytes / 8 / bandwidth
# %% wrong: tokens of all GPUs => values all-gpus
# > these are the tokens of all GPUs; return the tokens of one.
# ~ (ranks - 1) / ranks * ==> (ranks - 1) *
# %% wrong: the forward pass only => values forward-only
# > 2 FLOPs per parameter is the forward pass.
# ~ flops / flops_each ==> flops / 2
# %% wrong: forgets that the ring's factor shrinks => values one-too-few
# > one more GPU fits: of N parts, a ring sends N − 1.
# ~ 1 + math.floor(flops_each * batch_tokens * bandwidth / (2 * grad_bytes * flops))
# ~~ ==> max(1, math.floor(flops_each * batch_tokens * bandwidth / (2 * grad_bytes * flops)))
# %% wrong: rounds up => generality rounded-up
# > with that many, communication is exposed; round down.
# ~ math.floor ==> math.ceil
# %% wrong: rounds to the nearest => generality
# > this is rounded to the nearest whole number, on which communication can be exposed; round down.
# ~ math.floor ==> round
# %% wrong: a fraction of a GPU => generality not-whole
# > the number of GPUs must be whole.
# ~ math.floor ==> float
# %% wrong: rounds tokens => generality rounded  from: two times of a model of one parameter, and a search by doubling
# > this is rounded to a whole number; tokens per GPU need not be whole.
# ~ return talking / computing ==> return round(talking / computing)
# %% wrong: the shown numbers learnt by heart => values only-the-example
# ~ (ranks - 1) / ranks * grad_bytes / bandwidth * flops / flops_each ==> 63 / 64 * 2 / 50e9 * 400e12 / 4
# ~ 1 + math.floor(flops_each * batch_tokens * bandwidth / (2 * grad_bytes * flops)) ==> 251
# %% wrong: always 16 bits => generality
# > this takes 2 bytes a gradient, whatever `grad_bytes` is.
# ~ (ranks - 1) / ranks * grad_bytes ==> (ranks - 1) / ranks * 2
# ~ (2 * grad_bytes ==> (2 * 2
# %% wrong: none for one => generality
# > one GPU sends nothing, so at least one is enough.
# -     return 1 + math.floor(flops_each * batch_tokens * bandwidth / (2 * grad_bytes * flops))
# +     n = 1 + math.floor(flops_each * batch_tokens * bandwidth / (2 * grad_bytes * flops))
# +     return n if n > 1 else 0
# %% wrong: powers of two => values
# > this is a power of two; the largest whole number was asked for.
# ~ 1 + math.floor(flops_each * batch_tokens * bandwidth / (2 * grad_bytes * flops))
# ~~ ==> 2 ** int(math.log2(1 + flops_each * batch_tokens * bandwidth / (2 * grad_bytes * flops)))
# %% wrong: text => values not-a-number
# ~ 2 * (ranks - 1) / ranks * grad_bytes / bandwidth * flops / flops_each ==> "7875 tokens"
# %% wrong: at most 1,024 ranks => generality ~
# ~ (ranks - 1) / ranks * ==> (min(ranks, 1024) - 1) / min(ranks, 1024) *
# %% half: the tokens alone => 2.8
# ~ return 1 + math.floor(flops_each * batch_tokens * bandwidth / (2 * grad_bytes * flops))
# ~~ ==> raise NotImplementedError
'''
