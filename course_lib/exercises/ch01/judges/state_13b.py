"""Judge of state-13b: the state, the fewest GPUs, the room left."""

import random

from course_lib import facts, memory
from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import EXACT, Column, gpus_text, shares, table
from course_lib.judging.draws import log_uniform, one_apart, plain, unseen
from course_lib.judging.mistakes import scaled, shifted
from course_lib.records import Case
from course_lib.units import GB, GiB, bytes_text, number_text

_MISSING = {
    "master": "a bucket is missing: the fp32 master copy of the weights, if both of Adam's moments are there.",
    "moments": "Adam's two moments are missing; they are state too.",
    "main_grads": "a bucket is missing: the second, fp32 copy of the gradients, if the master copy is there.",
    "grads": "a bucket is missing: the gradients, if the weights are there.",
    "weights": "a bucket is missing: the weights themselves.",
}


def state_of(params: float, convention: str) -> float:
    """Bytes of state: the five buckets added up, one by one."""
    return params * sum(memory.CONVENTIONS[convention].buckets.values())


def least_gpus(nbytes: float, gpu_memory: float) -> int:
    """The least whole number of GPUs, by exact arithmetic on the numbers given."""
    top, below = float(nbytes).as_integer_ratio()
    size, size_below = float(gpu_memory).as_integer_ratio()
    return max(1, -(-(top * size_below) // (below * size)))


def _spread_words(nbytes: float, gpu_memory: float) -> str:
    """A size and a GPU in words, to the byte where rounding would make them look alike."""
    text, one = bytes_text(nbytes), bytes_text(gpu_memory)
    if text == one and nbytes != gpu_memory:
        text, one = f"{nbytes:,.0f} bytes", f"{gpu_memory:,.0f} bytes"
    return f"{text} on GPUs of {one}"


def _state_column(convention: str) -> Column:
    size = memory.CONVENTIONS[convention].buckets

    def state(params: float) -> float:
        return state_of(params, convention)

    total = sum(size.values())
    return Column(
        part="state",
        unit="bytes",
        want=state,
        words=lambda p: f"{number_text(p)} parameters",
        hint="Compare your bytes per parameter with the listed ones.",
        mistakes=(
            Mistake("gigabytes", scaled(state, 1 / GB), "this is in GB; return bytes."),
            Mistake("gibibytes", scaled(state, 1 / GiB), "this is in GiB; return bytes."),
            Mistake("gib-for-gb", scaled(state, GiB / GB), "this takes 2³⁰ bytes for a GB; a GB is 10⁹ bytes."),
            Mistake("gib-for-gb", scaled(state, GB / GiB), "this takes 2³⁰ bytes for a GB; a GB is 10⁹ bytes."),
            Mistake("bits", scaled(state, 8), "this counts bits; a byte has eight."),
            Mistake("weights-only", lambda p: p * size["weights"], "these are the weights alone; training keeps more."),
            *(
                Mistake(f"missing-{name}", lambda p, left=total - size[name]: p * left, message)
                for name, message in _MISSING.items()
                if size[name]
            ),
            Mistake("one-moment", lambda p: state(p) - p * size["moments"] / 2, "one of Adam's moments is missing."),
        ),
    )


def _headroom(nbytes: float, gpu_memory: float, gpus: int) -> float:
    return gpu_memory - nbytes / gpus


_FEWEST_MISTAKES = (
    Mistake("rounded-down", lambda n, m: n // m, "that many cannot hold it; a remainder is left over."),
    Mistake("not-whole", lambda n, m: n / m, "GPUs come in whole numbers."),
    Mistake("one-too-many", shifted(least_gpus, 1), "one GPU fewer holds it too."),
    Mistake("none-at-all", lambda n, m: 0, "even a small model needs one GPU."),
)
_FEWEST = Column(part="fewest", unit="GPUs", want=least_gpus, rel=EXACT, words=_spread_words, mistakes=_FEWEST_MISTAKES)
_HEADROOM = Column(
    part="headroom",
    unit="bytes",
    want=_headroom,
    words=lambda n, m, g: f"{bytes_text(n)} on {gpus_text(g)} of {bytes_text(m)}",
    mistakes=(
        Mistake("gigabytes", scaled(_headroom, 1 / GB), "this is in GB; return bytes."),
        Mistake("all-gpus-together", lambda n, m, g: m * g - n, "this is the headroom of all GPUs together."),
        Mistake("not-shared", lambda n, m, g: m - n, "this puts the whole state on one GPU."),
        Mistake("the-share", lambda n, m, g: n / g, "this is the memory in use, not the memory left."),
        Mistake("sign", scaled(_headroom, -1), "the sign is wrong: free memory is positive."),
        Mistake("cut-at-zero", lambda *row: max(0, _headroom(*row)), "return the shortfall as a negative number."),
    ),
)


def _state_cases(params: Params, rng: random.Random) -> list[Case]:
    size, card = params["params"], params["memory"]
    nbytes = state_of(size, params["convention"])
    fewest = least_gpus(nbytes, card)
    cards = [facts.device(name).memory for name in ("A100 SXM 40GB", "H100 SXM", "H200 SXM", "B300 SXM", "MI300X")]
    sizes = [125e6, 1, 1.5e9, 405_000_000_000, 1e12, *(log_uniform(rng, 1e8, 2e12) for _ in range(15))]
    many = [(state_of(log_uniform(rng, 1e9, 5e11), "B"), float(rng.choice(cards))) for _ in range(16)]
    exact = [(160e9, 80e9), (80e9, 80e9), (640_000_000_000, 80_000_000_000), (1.28e12, 40e9), (282e9, 141e9)]
    odd = [
        (1e6, 80e9),
        (16, 80e9),
        (80e9 + 1, 80e9),
        (1e15, 16e9),
        (1120e9, 80 * 2.0**30),
        (208e9, 24 * 2.0**30),
        (81e9, 40e9),
    ]
    rooms = [(n, m, rng.choice((1, 2, 3, 8, 64, 20_000))) for n, m in many]
    inexact = [(1000 * state_of(log_uniform(rng, 1e7, 9e7), "B") + 1e7, float(rng.choice(cards))) for _ in range(3)]
    example = [(nbytes, card, n) for n in (fewest, fewest + 1, fewest + 5)]
    return [
        shown(f"{number_text(size)} parameters", "values:state", 0, [(size,)]),
        shown("the fewest GPUs", "values:fewest", 1, [(nbytes, card)]),
        shown("headroom on each GPU", "values:headroom", 2, example),
        plain("state", 0, "three more sizes", [(log_uniform(rng, 1e9, 9e10),) for _ in range(3)]),
        plain("fewest", 1, "three more GPU sizes", inexact),
        plain(
            "headroom", 2, "three more headrooms", [(n, m, least_gpus(n, m) + rng.randint(1, 8)) for n, m in inexact]
        ),
        unseen(rng, "state", 0, "other sizes", [(p,) for p in sizes]),
        unseen(rng, "fewest", 1, "other GPU sizes", many + exact + odd),
        unseen(
            rng,
            "headroom",
            2,
            "other headrooms",
            [*rooms, *one_apart(rooms, _headroom), (160e9, 80e9, 2), (160e9, 80e9, 1), (208e9, 80e9, 2)],
        ),
    ]


JUDGING = Judging(
    shares=shares(state=(0.2, 0.2), fewest=(0.1, 0.2), headroom=(0.1, 0.2)),
    cases=_state_cases,
    verdicts=lambda params, *given: table(_state_column(params["convention"]), _FEWEST, _HEADROOM)(params, *given),
    why="State is a sum over buckets, each parameters × bytes. The fewest GPUs are a quotient rounded up, because you cannot "
    "rent a fraction of a GPU. That count leaves little or no room for activations, so people use more GPUs than the state "
    "requires. The headroom of each GPU is its memory minus an even share.",
    pytorch="`torch.optim.AdamW` creates its two moments at the first `step()`; "
    "`torch.distributed.fsdp.fully_shard` spreads the state evenly (chapter 08).",
)

ANSWERS = r"""import math

GB = 1e9


# %% right: plain
def training_state(params):
    return params * (2 + 2 + 4 + 8)


def fewest_gpus(nbytes, gpu_memory):
    return max(1, math.ceil(nbytes / gpu_memory))


def headroom(nbytes, gpu_memory, gpus):
    return gpu_memory - nbytes / gpus


# %% right: floor division turned round, six digits  from: plain
# ~ params * (2 + 2 + 4 + 8) ==> float(f"{params * 16:.6g}")
# ~ max(1, math.ceil(nbytes / gpu_memory)) ==> int(max(-(-nbytes // gpu_memory), 1))
# ~ gpu_memory - nbytes / gpus ==> (gpu_memory / GB - nbytes / GB / gpus) * GB

# %% right: any variant  from: plain
# - def training_state(params):
# + from course_lib import memory, params
# + PER_PARAM = sum(memory.CONVENTIONS[params("state-13b").convention].buckets.values())
# + def training_state(params):
# ~ (2 + 2 + 4 + 8) ==> PER_PARAM
# ~ gpu_memory - nbytes ==> (gpu_memory * gpus - nbytes)

# %% wrong: no master copy => values missing-master  from: plain
# ~ (2 + 2 + 4 + 8) ==> 12

# %% wrong: weights only => values weights-only  from: plain
# ~ (2 + 2 + 4 + 8) ==> 2

# %% wrong: gigabytes => values gigabytes  from: plain
# ~ (2 + 2 + 4 + 8) ==> 16 / 1e9
# ~ gpu_memory - nbytes / gpus ==> (gpu_memory - nbytes / gpus) / 1e9

# %% wrong: rounded down => values rounded-down  from: plain
# ~ (2 + 2 + 4 + 8) ==> 16
# ~ max(1, math.ceil(nbytes / gpu_memory)) ==> int(nbytes // gpu_memory)

# %% wrong: not whole => values not-whole  from: rounded down
# ~ int(nbytes // gpu_memory) ==> nbytes / gpu_memory

# %% wrong: room of all GPUs together => values all-gpus-together  from: plain
# ~ (2 + 2 + 4 + 8) ==> 16
# ~ - nbytes / gpus ==> * gpus - nbytes

# %% wrong: the example by heart => values only-the-example  from: plain
# ~ params * (2 + 2 + 4 + 8) ==> 208e9
# ~ max(1, math.ceil(nbytes / gpu_memory)) ==> 3
# ~ gpu_memory - nbytes / gpus ==> {3: 10.6667e9, 4: 28e9, 8: 54e9}.get(gpus, 54e9)

# %% wrong: always one more => generality one-too-many  from: rounded down
# ~ (nbytes // gpu_memory) ==> (nbytes // gpu_memory) + 1  # one too many where it fits exactly

# %% wrong: rounded to the nearest => values rounded-down  from: rounded down
# ~ int(nbytes // gpu_memory) ==> max(1, round(nbytes / gpu_memory))

# %% wrong: never negative => generality cut-at-zero  from: room of all GPUs together
# ~ gpu_memory * gpus - nbytes ==> max(0, gpu_memory - nbytes / gpus)

# %% wrong: fractions come back => raised  from: plain
# ~ params * (2 + 2 + 4 + 8) ==> __import__("fractions").Fraction(params) * 16

# %% half: only the state => 1  from: plain
# ~ (2 + 2 + 4 + 8) ==> 16
# ~ return max(1, math.ceil(nbytes / gpu_memory)) ==> raise NotImplementedError
# ~ return gpu_memory - nbytes / gpus ==> raise NotImplementedError

# %% half: no room left => 1.5  from: plain
# ~ params * (2 + 2 + 4 + 8) ==> 16 * params
# ~ gpu_memory - nbytes / gpus ==> None

# %% wrong: a GB of 2³⁰ bytes => values gib-for-gb  from: plain
# -     return params * (2 + 2 + 4 + 8)
# +     return params * (2 + 2 + 4 + 8) / 2**30 * GB
"""
