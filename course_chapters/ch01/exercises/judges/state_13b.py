from course_grader.judging import Case, Judging, Params, Random, Worked, log_uniform, one_apart, plain, shown, unseen
from course_grader.judging.per_row import EXACT, Column, gpus_text, shares, table
from course_lib.estimate import facts
from course_lib.estimate.units import bytes_text, number_text

right = Worked("state-13b")


def _spread_words(nbytes: float, gpu_memory: float) -> str:
    """A size and a GPU in words, to the byte where rounding would make them look alike."""
    text, one = bytes_text(nbytes), bytes_text(gpu_memory)
    if text == one and nbytes != gpu_memory:
        text, one = f"{nbytes:,.0f} bytes", f"{gpu_memory:,.0f} bytes"
    return f"{text} on GPUs of {one}"


def _cases(params: Params, rng: Random) -> list[Case]:
    size, card = params["params"], params["memory"]
    nbytes = right[0](size)
    fewest = right[1](nbytes, card)
    cards = [facts.device(name).memory for name in ("A100 SXM 40GB", "H100 SXM", "H200 SXM", "B300 SXM", "MI300X")]
    sizes = [125e6, 1, 1.5e9, 405_000_000_000, 1e12, *(log_uniform(rng, 1e8, 2e12) for _ in range(15))]
    many = [(16 * log_uniform(rng, 1e9, 5e11), float(rng.choice(cards))) for _ in range(16)]
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
    inexact = [(16_000 * log_uniform(rng, 1e7, 9e7) + 1e7, float(rng.choice(cards))) for _ in range(3)]
    example = [(nbytes, card, n) for n in (fewest, fewest + 1, fewest + 5)]
    return [
        shown(f"{number_text(size)} parameters", "values:state", 0, [(size,)]),
        shown("the fewest GPUs", "values:fewest", 1, [(nbytes, card)]),
        shown("headroom on each GPU", "values:headroom", 2, example),
        plain("state", 0, "three more sizes", [(log_uniform(rng, 1e9, 9e10),) for _ in range(3)]),
        plain("fewest", 1, "three more GPU sizes", inexact),
        plain("headroom", 2, "three more headrooms", [(n, m, right[1](n, m) + rng.randint(1, 8)) for n, m in inexact]),
        unseen(rng, "state", 0, "other sizes", [(p,) for p in sizes]),
        unseen(rng, "fewest", 1, "other GPU sizes", many + exact + odd),
        unseen(
            rng,
            "headroom",
            2,
            "other headrooms",
            [*rooms, *one_apart(rooms, right[2]), (160e9, 80e9, 2), (160e9, 80e9, 1), (208e9, 80e9, 2)],
        ),
    ]


JUDGING = Judging(
    shares=shares(state=(0.2, 0.2), fewest=(0.1, 0.2), headroom=(0.1, 0.2)),
    cases=_cases,
    verdicts=table(
        Column(
            "state",
            "bytes",
            words=lambda p: f"{number_text(p)} parameters",
            hint="Compare your bytes per parameter with the listed ones.",
        ),
        Column("fewest", "GPUs", rel=EXACT, words=_spread_words),
        Column("headroom", "bytes", words=lambda n, m, g: f"{bytes_text(n)} on {gpus_text(g)} of {bytes_text(m)}"),
        right=right,
    ),
    why="State is a sum over buckets, each parameters × bytes. The fewest GPUs are a quotient rounded up, because you "
    "cannot rent a fraction of a GPU. That count leaves little or no room for activations, so people use more "
    "GPUs than the state requires. The headroom of each GPU is its memory minus an even share.",
    pytorch="`torch.optim.AdamW` creates its two moments at the first `step()`; "
    "`torch.distributed.fsdp.fully_shard` spreads the state evenly (chapter 08).",
)

ANSWERS = r'''from course_lib.estimate import memory
# %% right: worked
mine = params("state-13b")  # leave as is: your variant: mine.params, mine.memory, mine.convention, mine.buckets


def training_state(params: float) -> float:
    """Bytes of training state of a whole model, with the buckets of your variant."""
    return params * sum(memory.CONVENTIONS[mine.convention].buckets.values())


def fewest_gpus(nbytes: float, gpu_memory: float) -> int:
    """The least whole number of GPUs that hold `nbytes` bytes, spread evenly."""
    return max(1, math.ceil(nbytes / gpu_memory))


def headroom(nbytes: float, gpu_memory: float, gpus: int) -> float:
    """Bytes left on each GPU when `nbytes` bytes are spread evenly; negative where the share does not fit."""
    return gpu_memory - nbytes / gpus
# %% right: floor division turned round, six digits
# ~ params * sum(memory.CONVENTIONS[mine.convention].buckets.values())
# ~~ ==> float(f"{params * sum(memory.CONVENTIONS[mine.convention].buckets.values()):.6g}")
# ~ max(1, math.ceil(nbytes / gpu_memory)) ==> int(max(-(-nbytes // gpu_memory), 1))
# ~ gpu_memory - nbytes / gpus ==> (gpu_memory / 1e9 - nbytes / 1e9 / gpus) * 1e9
# %% right: in another order
# ~ params * sum(memory.CONVENTIONS[mine.convention].buckets.values())
# ~~ ==> sum(params * size for size in memory.CONVENTIONS[mine.convention].buckets.values())
# ~ gpu_memory - nbytes / gpus ==> (gpu_memory * gpus - nbytes) / gpus
# %% wrong: missing master => values
# > 4 bytes of each parameter are missing: the fp32 master copy of the weights, or one of Adam's two moments.
# ~ buckets.values()) ==> buckets.values()) - 4 * params
# %% wrong: missing moments => values
# > Adam's two moments are missing; they are state too.
# ~ buckets.values()) ==> buckets.values()) - 8 * params
# %% wrong: missing grads => values
# > 2 bytes of each parameter are missing: the gradients, or the weights themselves.
# ~ buckets.values()) ==> buckets.values()) - 2 * params
# %% wrong: weights only => values
# > these are the weights alone; training keeps more.
# ~ sum(memory.CONVENTIONS[mine.convention].buckets.values()) ==> 2
# %% wrong: fractions come back => raised
# ~ return params * ==> return __import__("fractions").Fraction(1) * int(params) * 16 or
# %% wrong: rounded down => values
# > that many cannot hold it; a remainder is left over.
# ~ max(1, math.ceil(nbytes / gpu_memory)) ==> int(nbytes // gpu_memory)
# %% wrong: rounded to the nearest => values
# > this is rounded to the nearest whole number, and a remainder below one half does not fit.
# ~ math.ceil(nbytes / gpu_memory) ==> round(nbytes / gpu_memory)
# %% wrong: not whole => values
# > GPUs come in whole numbers.
# ~ max(1, math.ceil(nbytes / gpu_memory)) ==> nbytes / gpu_memory
# %% wrong: always one more => values
# > one GPU fewer holds it too.
# ~ math.ceil(nbytes / gpu_memory) ==> math.ceil(nbytes / gpu_memory) + 1
# %% wrong: one too many => generality
# > one GPU fewer holds it too: an exact fit counts.
# ~ math.ceil(nbytes / gpu_memory))
# ~~ ==> math.ceil(nbytes / gpu_memory)) + (nbytes > gpu_memory and not nbytes % gpu_memory)
# %% wrong: none at all => generality
# > even a small model needs one GPU.
# ~ max(1, math.ceil(nbytes / gpu_memory)) ==> round(nbytes / gpu_memory + 0.4999) if nbytes > 1e9 else 0
# %% wrong: all gpus together => values
# > this is the headroom of all GPUs together.
# ~ - nbytes / gpus ==> * gpus - nbytes
# %% wrong: not shared => values
# > this puts the whole state on one GPU.
# ~ - nbytes / gpus ==> - nbytes
# %% wrong: the share => values
# > this is the memory in use, not the memory left.
# ~ gpu_memory - nbytes / gpus ==> nbytes / gpus
# %% wrong: cut at zero => generality
# > return the shortfall as a negative number.
# ~ gpu_memory - nbytes / gpus ==> max(0, gpu_memory - nbytes / gpus)
# %% wrong: the example by heart => values only-the-example
# ~ params * sum(memory.CONVENTIONS[mine.convention].buckets.values()) ==> 208e9
# ~ max(1, math.ceil(nbytes / gpu_memory)) ==> 3
# ~ gpu_memory - nbytes / gpus ==> {3: 10.6667e9, 4: 28e9, 8: 54e9}.get(gpus, 54e9)
# %% half: only the state => 1
# ~ return max(1, math.ceil(nbytes / gpu_memory)) ==> raise NotImplementedError
# ~ return gpu_memory - nbytes / gpus ==> raise NotImplementedError
# %% half: no room left => 1.5
# ~ gpu_memory - nbytes / gpus ==> None
'''
