"""Judge of largest-alone: how large a model by sharding alone?"""

import math
import random
from collections.abc import Callable
from typing import Any

from course_lib.exercises.ch08.judges.shared import least_ranks
from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import EXACT, FINE, Column, one_verdict, table
from course_lib.judging.draws import generality, safely_off_whole
from course_lib.records import Case
from course_lib.units import BILLION, GB


def largest(ranks: int, memory: float, layers: int, activations: float, per_param: float) -> float:
    """Parameters of the largest model that fits."""
    return max(0.0, memory - activations) / (per_param / ranks + 4 / layers)


def ranks_for(params: float, memory: float, layers: float, activations: float, per_param: float) -> int | None:
    """The fewest GPUs on which a model fits, or None."""
    return least_ranks(per_param * params, memory - activations - 4 * params / layers)


def _whole(held: Callable[[int, int, float], float]) -> Callable[..., float]:
    """The largest model if `held(ranks, layers, per_param)` bytes per parameter are on a GPU."""
    return lambda n, m, layers, a, b: max(0.0, m - a) / held(n, layers, b)


def _limits(m: float, layers: int, a: float, b: float) -> str:
    return f"GPUs of {m / GB:g} GB, {layers} layers, {a / GB:g} GB of activations, {b:g} bytes"


STATE_ONLY = "a GPU holds more than its share of the state."
GATHERED = "two layers' weights are whole on every GPU."
TWO_BYTES = "only the weights of two layers are whole, at two bytes each."
NO_ACTIVATIONS = "the activations are missing."
LAST_ARGUMENT = "the bytes per parameter are the last argument."

LARGEST = Column(
    part="largest", unit="parameters", want=largest, rel=FINE, words=lambda n, *rest: f"{n:,} {_limits(*rest)}"
).knowing(
    Mistake("state-only", lambda n, m, layers, a, b: n * m / b, STATE_ONLY),
    Mistake("nothing-gathered", lambda n, m, layers, a, b: n * max(0.0, m - a) / b, GATHERED),
    Mistake("no-activations", lambda n, m, layers, a, b: largest(n, m, layers, 0, b), NO_ACTIVATIONS),
    Mistake("one-layer", _whole(lambda n, k, b: b / n + 2 / k), GATHERED),
    Mistake("two-and-two", _whole(lambda n, k, b: b / n + 8 / k), TWO_BYTES),
    Mistake("own-part-off", _whole(lambda n, k, b: b / n + 4 / k * (1 - 1 / n)), "the share is held beside them."),
    Mistake("whole-weights", _whole(lambda n, k, b: b / n + 2), TWO_BYTES),
    Mistake("not-16-bits", _whole(lambda n, k, b: b / n + 2 * b / k), TWO_BYTES),
    Mistake(
        "activations-shared", lambda n, m, k, a, b: largest(n, m, k, a / n, b), "each GPU has its own activations."
    ),
    Mistake("negative", lambda n, m, k, a, b: (m - a) / (b / n + 4 / k), "if nothing fits, return 0."),
    Mistake("other-bytes", lambda n, m, layers, a, b: largest(n, m, layers, a, 16), LAST_ARGUMENT),
)

RANKS_FOR = Column(
    part="ranks",
    unit="GPUs",
    want=ranks_for,
    rel=EXACT,
    words=lambda p, *rest: f"{p / BILLION:g}B on {_limits(*rest)}",
    none="two layers and the activations already exceed the memory; return None",
).knowing(
    Mistake("rounded-down", lambda *row: (ranks_for(*row) or 0) - 1 or None, "it needs one GPU more."),
    Mistake("state-only", lambda p, m, layers, a, b: math.ceil(b * p / m), STATE_ONLY),
    Mistake("nothing-gathered", lambda p, m, k, a, b: math.ceil(b * p / (m - a)) if m > a else None, GATHERED),
    Mistake("no-activations", lambda p, m, layers, a, b: ranks_for(p, m, layers, 0, b), NO_ACTIVATIONS),
    Mistake("one-more", lambda *row: (ranks_for(*row) or 0) + 1, "one fewer is enough; exactly full fits."),
    Mistake("two-and-two", lambda p, m, layers, a, b: ranks_for(p, m, layers / 2, a, b), TWO_BYTES),
    Mistake("other-bytes", lambda p, m, layers, a, b: ranks_for(p, m, layers, a, 16), LAST_ARGUMENT),
)


def _alone_cases(params: Params, rng: random.Random) -> list[Case]:
    own = params["memory"], params["layers"], params["activations"], params["per_param"]

    def row() -> tuple[Any, ...]:
        memory, layers = rng.choice((24, 40, 80, 141, 192)) * GB, rng.choice((2, 16, 32, 61, 80, 126))
        return memory, layers, rng.choice((0.05, 0.2, 0.5)) * memory, rng.choice((8, 12, 16, 18))

    def model() -> tuple[Any, ...]:
        while True:
            size, (memory, layers, activations, per_param) = rng.choice((1, 7, 30, 70, 180, 405, 1000)) * BILLION, row()
            room = memory - activations - 4 * size / layers
            if abs(room) > 1e-3 * memory and safely_off_whole(per_param * size / room):
                return size, memory, layers, activations, per_param

    floor = own[1] * (own[0] - own[2]) / 4  # parameters of a model whose two layers fill the remaining memory
    edges = [(floor * 2, *own), (floor * 0.45, *own), (10e9, 50e9, 40, 60e9, 16)]
    full = [(8e9, 41e9, 32, 8e9, per_param) for per_param in (16, 12)]  # exactly full, in any order of operations
    clusters = [(rng.choice((1, 2, 8, 100, 4096)), *row()) for _ in range(20)]
    clusters += [(8, 20e9, 32, 24e9, 16), (8, 24e9, 32, 4e9, 16), (8, 24e9, 32, 4e9, 12)]
    models = [*(model() for _ in range(25)), *edges, *full]
    return [
        shown(f"{params['ranks']} GPUs", "values:largest", 0, [(n, *own) for n in (params["ranks"], 1, 1 << 20)]),
        shown("70B and 405B", "values:ranks", 1, [(70e9, *own), (405e9, *own)]),
        generality("clusters", 0, "other clusters", clusters),
        generality("clusters", 1, "other models, some of them too large", models),
    ]


JUDGING = Judging(
    shares={"values:largest": 0.35, "values:ranks": 0.3, "generality:clusters": 0.35},
    cases=_alone_cases,
    verdicts=one_verdict(table(LARGEST, RANKS_FOR)),
    why="""Only the state is divided by N. Two gathered layers grow with the model, and activations stay. With ever more GPUs the largest model
tends to (memory − activations) · layers / 4, not to infinity. Beyond that the layers or the sequence must be cut as well.""",
    pytorch="`fully_shard` on half a block makes the gathered unit smaller; tensor parallelism cuts the layer itself.",
)

ANSWERS = r"""import math


# %% right: solved for P
def largest_model(ranks, memory, layers, activations, per_param):
    return max(0, memory - activations) / (per_param / ranks + 2 * 2 / layers)


def ranks_for(params, memory, layers, activations, per_param):
    room = memory - activations - 4 * params / layers
    return math.ceil(per_param * params / room - 1e-9) if room > 0 else None


# %% right: by halving
from bisect import bisect_left


def _held(params, ranks, layers, activations, per_param):
    return per_param * params / ranks + 2 * (2 * params / layers) + activations


def largest_model(ranks, memory, layers, activations, per_param):
    low, high = 0.0, 1e16
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if _held(middle, ranks, layers, activations, per_param) <= memory else (low, middle)
    return low


def ranks_for(params, memory, layers, activations, per_param):
    most, counts = memory * (1 + 1e-12), range(1, 10**18)
    place = bisect_left(counts, True, key=lambda n: _held(params, n, layers, activations, per_param) <= most)
    return counts[place] if place < len(counts) else None


# %% wrong: state only => values state-only
def largest_model(ranks, memory, layers, activations, per_param):
    return ranks * memory / per_param


def ranks_for(params, memory, layers, activations, per_param):
    return math.ceil(per_param * params / memory)


# %% wrong: nothing is gathered => values nothing-gathered  from: state only
# ~ ranks * memory / per_param ==> ranks * max(0, memory - activations) / per_param
# ~ (per_param * params / memory) ==> (per_param * params / (memory - activations))


# %% wrong: the activations are left out => values no-activations  from: solved for P
# ~ max(0, memory - activations) ==> memory
# ~ memory - activations - 4 ==> memory - 4

# %% wrong: one layer whole => values one-layer  from: solved for P
# ~ 2 * 2 / layers ==> 2 / layers
# ~ 4 * params ==> 2 * params

# %% wrong: all weights whole => values whole-weights  from: state only
# ~ ranks * memory / per_param ==> max(0, memory - activations) / (per_param / ranks + 2)
# ~ math.ceil(per_param * params / memory) ==> None

# %% wrong: activations shared out as well => values activations-shared  from: all weights whole
# ~ - activations) / (per_param / ranks + 2) ==> - activations / ranks) / (per_param / ranks + 4 / layers)

# %% wrong: rounded down => values rounded-down  from: solved for P
# ~ 2 * 2 ==> 4
# ~ math.ceil(per_param * params / room - 1e-9) ==> int(per_param * params / room)

# %% wrong: a negative number of GPUs => generality none-is-right  from: state only
# ~ ranks * memory / per_param ==> max(0, memory - activations) / (per_param / ranks + 4 / layers)
# ~ (per_param * params / memory) ==> (per_param * params / (memory - activations - 4 * params / layers) - 1e-9)

# %% wrong: a model of negative size => generality negative  from: solved for P
# ~ max(0, memory - activations) ==> (memory - activations)

# %% wrong: the bytes of the example => generality other-bytes  from: solved for P
# ~ per_param / ranks + 2 * 2 ==> 16 / ranks + 4
# ~ per_param * params ==> 16 * params

# %% wrong: the largest as a whole number of billions => values -  from: solved for P
# ~ max(0, memory - activations) / (per_param / ranks + 2 * 2 / layers) ==> (memory - activations) / (per_param / ranks + 4 / layers) // 1e9 * 1e9 + 3e8

# %% wrong: gradients of two layers gathered as well => values two-and-two  from: solved for P
# ~ 2 * 2 / layers ==> 8 / layers
# ~ 4 * params ==> 8 * params

# %% wrong: one GPU more where it is exactly full => generality one-more  from: rounded down
# ~ (per_param * params / room) if room > 0 else None ==> (per_param * params / room) + 1 if room > 0 else None

# %% wrong: the own share of two layers taken off => values own-part-off  from: solved for P
# ~ 2 * 2 / layers ==> 4 / layers * (1 - 1 / ranks)

# %% half: the first only => 2.1  from: a negative number of GPUs
# ~ return math.ceil(per_param * params / (memory - activations - 4 * params / layers) - 1e-9) ==> raise NotImplementedError

# %% wrong: at least sixteen layers => generality ~  from: solved for P
# ~ 2 * 2 / layers ==> 4 / max(layers, 16)
# ~ 4 * params / layers ==> 4 * params / max(layers, 16)
"""
