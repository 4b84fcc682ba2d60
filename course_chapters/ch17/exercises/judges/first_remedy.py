from course_chapters.ch17.exercises.first_remedy import REMEDIES
from course_grader.judging import Case, Judging, Params, Random, Word, Worked, each_changed, table
from course_grader.judging.cases import hidden, shown
from course_lib.estimate.units import BILLION, GB

Run = tuple[int, int, int, int, int, int]  # parameters, gpus, sequences, activations, inputs, memory


def totals(parameters: int, gpus: int, sequences: int, activations: int, inputs: int) -> tuple[float, ...]:
    """Bytes of a GPU after each remedy but the last."""
    state, cut = 16 * parameters, 4 * parameters + 12 * parameters / gpus
    whole, sharded = state + activations, state / gpus + inputs
    return state + sequences * activations, whole, cut + activations, cut + inputs, sharded


REMEDY = Word(
    "",
    REMEDIES,
    words=lambda p, n, s, a, i, memory: (
        f"{p / BILLION:.3g}B parameters, {n} GPUs of {memory / GB:.4g} GB, {s} sequences of {a / GB:.3g} GB (inputs "
        f"{i / GB:.3g})"
    ),
)


def drawn(rng: Random, at: int, edge: int | None = None) -> Run:
    """A run that remedy `at` makes fit and the one before does not; with `edge`, by so many bytes."""
    while True:
        parameters, gpus = rng.randrange(2, 60) * 512 * 10**6, rng.choice((2, 8, 32, 64))
        activations = rng.randrange(20, 400) * 10**8
        run = parameters, gpus, rng.choice((2, 4, 8)), activations, activations // rng.choice((8, 16, 20))
        held = totals(*run)
        if any(one <= 1.02 * two for one, two in zip(held, held[1:], strict=False)):
            continue
        if at == 5:
            return *run, int(held[4] * rng.uniform(0.3, 0.97))
        if edge is not None:
            return *run, int(held[at]) + edge
        above = held[at - 1] if at else 2 * held[0]
        return *run, int(held[at] + rng.uniform(0.1, 0.9) * (above - held[at]))


def _cases(params: Params, rng: Random) -> list[Case]:
    billions, gpus, sequences = (params[name] for name in ("billions", "gpus", "sequences"))
    base = billions * 10**9, gpus, sequences, 24 * 10**9, 2 * 10**9
    example = [(*base, int(held * 1.01)) for held in totals(*base)[1:4]]
    edges = [drawn(rng, at, 0) for at in range(5)]
    one_gpu = [
        (2 * 10**9, 1, 2, 8 * 10**9, 10**9, 34 * 10**9),  # sharding over one GPU changes nothing
        (2 * 10**9, 1, 2, 8 * 10**9, 10**9, 33 * 10**9),
        (2 * 10**9, 1, 2, 8 * 10**9, 10**9, 33 * 10**9 - 1),
        (10**9, 8, 1, 8 * 10**9, 8 * 10**9, 30 * 10**9),  # one sequence, and inputs as large as everything
        (10**9, 8, 1, 8 * 10**9, 8 * 10**9, 23 * 10**9),
        (10**9, 8, 1, 8 * 10**9, 8 * 10**9, 8 * 10**9),
    ]
    middle = [drawn(rng, at) for at in range(6) for _ in range(3)] + [(10**11, 512, 4, 24 * 10**9, 2 * 10**9, 10**10)]
    large = (7 * 10**9, 64, 16, 24 * 10**9, 2 * 10**9, 500 * 10**9), (4 * 10**10, 512, 40, 3 * 10**11, 10**9, 10**11)
    small = (7 * 10**9, 64, 4, 24 * 10**9, 8 * 10**9, 35 * 10**9), (10**9, 512, 40, 10**9, 10**9, 9 * 10**9)
    middle += each_changed(*large) + each_changed(*small)
    rng.shuffle(middle)
    return [
        shown("the example", "values:remedies", 0, example),
        hidden("other runs", "values:remedies", 0, middle),
        hidden("memory that is exactly full", "generality:edges", 0, edges),
        hidden("a byte too little", "generality:edges", 0, [drawn(rng, at, -1) for at in range(5)]),
        hidden("one GPU, one sequence", "generality:edges", 0, one_gpu),
    ]


JUDGING = Judging(
    shares="values:remedies 0.75, generality:edges 0.25",
    cases=_cases,
    verdicts=table(REMEDY, right=Worked("first-remedy")),
    why="Each remedy buys memory with something else: nothing, bytes on the wire, compute, and at the end complexity. "
    "If you climb the ladder from the bottom, you pay only for what this run needs. A tensor-parallel group of "
    "eight solves the same problem, but it communicates in every layer.",
    pytorch="Gradient accumulation, `ZeroRedundancyOptimizer`, `torch.utils.checkpoint`, `fully_shard`, and only then "
    "`parallelize_module` and pipelines.",
)

ANSWERS = r'''# %% right: worked
def first_remedy(parameters: int, gpus: int, sequences: int, activations: int, inputs: int, memory: int) -> str:
    """The first remedy of the list that makes the run fit."""
    whole, cut = 16 * parameters, (4 + 12 / gpus) * parameters
    held = {
        "nothing": whole + sequences * activations,
        "accumulate": whole + activations,
        "shard the optimizer": cut + activations,
        "recompute": cut + inputs,
        "shard everything": whole / gpus + inputs,
    }
    return next((name for name, each in held.items() if each <= memory), "split the model")
# %% right: in capitals
# ~ "split the model") ==> "split the model").upper()
# %% wrong: always shards => values always-the-same
# ~ next((name for name, each in held.items() if each <= memory), "split the model") ==> "shard everything"
# %% wrong: full is too full => generality
# > a run that fills the memory exactly fits.
# ~ each <= memory ==> each < memory
# %% wrong: one at a time => values
# > a remedy keeps the ones before it.
# ~ cut + activations, ==> cut + sequences * activations,
# ~ cut + inputs, ==> whole + sequences * inputs,
# ~ gpus + inputs, ==> gpus + sequences * activations,
# %% wrong: all sequences under ZeRO-1 => values
# > a remedy keeps the ones before it: with a sharded optimizer, too, one sequence is there at a time.
# ~ cut + activations, ==> cut + sequences * activations,
# %% wrong: all cut by ZeRO-1 => values all-cut-by-zero-1
# > ZeRO-1 cuts the optimizer's 12 bytes; weights and gradients stay whole.
# ~ (4 + 12 / gpus) ==> 16 / gpus
# %% wrong: state alone => values
# > activations take memory too.
# ~ whole, cut = 16 * parameters, (4 + 12 / gpus) * parameters
# ~~ ==> whole, cut, activations, inputs = 16 * parameters, (4 + 12 / gpus) * parameters, 0, 0
# %% wrong: all inputs => values
# > with accumulation, one sequence is there at a time.
# ~ cut + inputs, ==> cut + sequences * inputs,
# ~ gpus + inputs, ==> gpus + sequences * inputs,
# %% wrong: the strongest => values
# > this remedy is enough, but a cheaper one is too.
# ~ in held.items() ==> in reversed(held.items())
# %% wrong: sequences of the first run are remembered => values
#       whole, cut = 16 * parameters, (4 + 12 / gpus) * parameters
# +     sequences = first_remedy.__dict__.setdefault(str((parameters, gpus)), sequences)
# %% wrong: another word => values no-such-word
# ~ next((name for name, each in held.items() if each <= memory), "split the model") ==> "buy more GPUs"
# %% wrong: nothing comes back => values returned-none
# ~ return next ==> next
'''
