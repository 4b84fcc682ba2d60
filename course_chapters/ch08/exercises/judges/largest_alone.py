from course_grader.judging import Case, Judging, Params, Random, Worked, generality, safely_off_whole, shown
from course_grader.judging.per_row import EXACT, FINE, Column, one_verdict, table
from course_lib.estimate.units import BILLION, GB

right = Worked("largest-alone")
NONE = "two layers and the activations already exceed the memory; return None"
LARGEST = Column("largest", "parameters", words=right.words(0), rel=FINE)
RANKS_FOR = Column("ranks", "GPUs", words=right.words(1), rel=EXACT, none=NONE)


def _cases(params: Params, rng: Random) -> list[Case]:
    own = params["memory"], params["layers"], params["activations"], params["per_param"]

    def row() -> tuple[float, int, float, int]:
        memory, layers = rng.choice((24, 40, 80, 141, 192)) * GB, rng.choice((2, 16, 32, 61, 80, 126))
        return memory, layers, rng.choice((0.05, 0.2, 0.5)) * memory, rng.choice((8, 12, 16, 18))

    def model() -> tuple[object, ...]:
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
    cases=_cases,
    verdicts=one_verdict(table(LARGEST, RANKS_FOR, right=right)),
    why="""Only the state is divided by N. Two gathered layers grow with the model, and activations stay. With ever more
GPUs the largest model tends to (memory − activations) · layers / 4, not to infinity. Beyond that the layers or the
sequence must be cut as well.""",
    pytorch="`fully_shard` on half a block makes the gathered unit smaller; tensor parallelism cuts the layer itself.",
)

ANSWERS = r'''# %% right: worked
def largest_model(ranks, memory, layers, activations, per_param) -> float:
    """Parameters of the largest model that fits, with stage 3 and no other parallelism."""
    return max(0, memory - activations) / (per_param / ranks + 2 * 2 / layers)


def ranks_for(params, memory, layers, activations, per_param) -> int | None:
    """The fewest GPUs on which a model fits; None if no number of them is enough."""
    room = memory - activations - 4 * params / layers
    return math.ceil(per_param * params / room - 1e-9) if room > 0 else None
# %% right: the fewest by halving  from: worked
from bisect import bisect_left


def ranks_for(params, memory, layers, activations, per_param):
    counts, rest = range(1, 10**18), (layers, activations, per_param)
    place = bisect_left(counts, True, key=lambda n: largest_model(n, memory, *rest) >= params * (1 - 1e-12))
    return counts[place] if place < len(counts) else None
# %% wrong: state only => values
# > a GPU holds more than its share of the state.
# ~ max(0, memory - activations) / (per_param / ranks + 2 * 2 / layers) ==> memory / (per_param / ranks)
# ~ room = memory - activations - 4 * params / layers ==> room = memory
# %% wrong: nothing gathered => values
# > two layers' weights are whole on every GPU.
# ~ + 2 * 2 / layers ==>
# ~ - 4 * params / layers ==>
# %% wrong: no activations => values
# > the activations are missing.
# ~ max(0, memory - activations) ==> memory
# ~ room = memory - activations ==> room = memory
# %% wrong: one layer => values
# > two layers' weights are whole on every GPU, not one layer's.
# ~ 2 * 2 / layers ==> 2 / layers
# ~ 4 * params ==> 2 * params
# %% wrong: gradients of two layers gathered as well => values two-and-two
# > only the weights of two layers are whole, at two bytes each.
# ~ 2 * 2 / layers ==> 8 / layers
# ~ 4 * params ==> 8 * params
# %% wrong: own part off => values
# > the share is held beside the two layers.
# ~ 2 * 2 / layers ==> 4 / layers * (1 - 1 / ranks)
# %% wrong: whole weights => values
# > the weights of all layers are whole here; only two layers' are, at two bytes each.
# ~ 2 * 2 / layers ==> 2
# ~ 4 * params / layers ==> 2 * params
# %% wrong: not 16 bits => values
# > a gathered layer has weights alone, at two bytes each.
# ~ 2 * 2 / layers ==> 2 * per_param / layers
# ~ 4 * params / layers ==> 2 * per_param * params / layers
# %% wrong: activations shared => values
# > each GPU has its own activations.
# ~ memory - activations) / ==> memory - activations / ranks) /
# %% wrong: a model of negative size => generality negative
# > if nothing fits, return 0.
# ~ max(0, memory - activations) ==> (memory - activations)
# %% wrong: the bytes of the example => generality other-bytes
# > the bytes per parameter are the last argument.
# ~ per_param / ranks ==> 16 / ranks
# ~ per_param * params ==> 16 * params
# %% wrong: the largest as a whole number of billions => values rounded
# ~ + 2 * 2 / layers) ==> + 2 * 2 / layers) // 1e9 * 1e9 + 3e8
# %% wrong: rounded down => values
# > it needs one GPU more.
# ~ math.ceil(per_param * params / room - 1e-9) ==> int(per_param * params / room)
# %% wrong: one GPU more where it is exactly full => generality one-more
# > one fewer is enough; exactly full fits.
# ~ math.ceil(per_param * params / room - 1e-9) ==> int(per_param * params / room) + 1
# %% wrong: a negative number of GPUs => generality none-is-right
# ~ if room > 0 else None ==>
# %% half: the first only => 2.1
# ~ room = memory - activations - 4 * params / layers ==> raise NotImplementedError
# %% wrong: at least sixteen layers => generality ~
# ~ 2 * 2 / layers ==> 4 / max(layers, 16)
# ~ 4 * params / layers ==> 4 * params / max(layers, 16)
'''
