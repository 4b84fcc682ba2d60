import random

from course_grader.judging import Judging, Params, Worked
from course_grader.judging.cases import shown
from course_grader.judging.per_row import EXACT, Column, shares, table
from course_grader.judging.random_inputs import each_changed, generality, plain, unseen
from course_grader.records import Case

right = Worked("models-on-gpus")
B = 2**30  # of parameters and of bytes: sums of these are exact


def _cases(params: Params, rng: random.Random) -> list[Case]:
    state = params["state"]
    actor, reference, critic = (8 * B, True), (8 * B, False), (4 * B, True)

    def models() -> list[tuple[int, bool]]:
        found = [(rng.choice((1, 2, 4, 8, 14)) * B, True)]
        return found + [(rng.choice((1, 2, 8)) * B, rng.random() < 0.4) for _ in range(rng.randrange(3))]

    def bytes_of(held: list[tuple[int, bool]]) -> int:
        return sum(count * (state if trained else 2) for count, trained in held)

    drawn = [(models(), rng.choice((4, 8, 24, 64))) for _ in range(6)]
    fits = (([actor], 4), ([actor, reference], 8), ([actor, reference, critic], 16))
    edges = [(held, bytes_of(held) // gpus + 4 * B + more, 4 * B) for held, gpus in fits for more in (0, -1, 1)]
    pair, other = [actor, critic], ([actor], 20, 4, 96 * B, 8192)
    lone = [([(2 * B, True)], 80 * B, 10 * B), ([(2 * B, True)], 2 * B * state + 9 * B, 9 * B)]
    some = [([(64 * B, True)], 80 * B, 20 * B), *((held, 80 * B, rng.choice((6, 13)) * B) for held, _ in drawn[:4])]
    room = [(models(), rng.choice((8, 16, 32)), rng.choice((1, 2, 4)), 80 * B, 131_072) for _ in range(6)]
    share = bytes_of([actor]) // 8 if params["sleeps"] == "stays" else 0
    full = share + 16 * B // 2  # what two GPUs of a group hold each
    tight = [([actor], 8, 2, full + more, 1024) for more in (-1, 0, 511, 512, 1023, 1024)]
    return [
        shown("actor and reference on 16 GPUs", "values:state", 0, [([actor, reference], 16)]),
        shown("80 GiB", "values:fewest", 1, [([actor, reference], 80 * B, 12 * B)]),
        shown("a cache beside them", "values:cache", 2, [([actor, reference], 16, 2, 80 * B, 131_072)]),
        plain("state", 0, "other models", drawn),
        plain("fewest", 1, "other models", some),
        plain("cache", 2, "other models", room),
        unseen(rng, "state", 0, "one model, one GPU, frozen ones", [([actor], 1), ([actor] + [reference] * 3, 7)]),
        generality("state", 0, "one number changes", each_changed((pair, 6), ([actor, reference], 5))),
        unseen(rng, "fewest", 1, "both sides of an exact fit", edges + lone),
        generality("fewest", 1, "one number changes", each_changed(lone[0], ([critic], 40 * B, 60 * B))),
        generality("cache", 2, "both sides of a full memory", tight),
        generality("cache", 2, "one number changes", each_changed((pair, 16, 2, 80 * B, 4096), other)),
    ]


JUDGING = Judging(
    shares=shares(state=(0.15, 0.15), fewest=(0.15, 0.2), cache=(0.15, 0.2)),
    cases=_cases,
    verdicts=table(
        Column(part="state", unit="bytes", want=right[0], words=right.words(0)),
        Column(part="fewest", unit="GPUs", want=right[1], words=right.words(1), rel=EXACT),
        Column(part="cache", unit="tokens", want=right[2], words=right.words(2), rel=EXACT),
    ),
    why="""A frozen model costs its weights alone, a small part of what a trained one costs, so dropping the reference
saves little and dropping the critic saves much: this is one reason for GRPO. What stays on the GPUs while they generate
is missing from the cache, and a small cache means a small batch.""",
    pytorch="vLLM's sleep mode and verl's `param_offload` and `optimizer_offload` move one side out while the other "
    "side works.",
)

ANSWERS = r'''import math

from course_lib import params

# %% right: worked
asked = params("models-on-gpus")  # leave as is: .state bytes per trained parameter; .sleeps: "stays" or "offloaded"


def state_bytes(models: list, gpus: int) -> float:
    """Bytes of all models' state on each GPU."""
    ### BEGIN SOLUTION
    return sum(count * (asked.state if trained else 2) for count, trained in models) / gpus
    ### END SOLUTION


def fewest_gpus(models: list, memory: float, working: float) -> int:
    """The fewest GPUs that hold the state beside their working memory."""
    ### BEGIN SOLUTION
    return max(1, math.ceil(state_bytes(models, 1) / (memory - working)))
    ### END SOLUTION


def cache_tokens(models: list, gpus: int, tp: int, memory: float, kv: int) -> float:
    """Tokens in the KV cache of a group of `tp` GPUs that also train."""
    ### BEGIN SOLUTION
    held = state_bytes(models, gpus) if asked.sleeps == "stays" else 0
    room = tp * (memory - held) - 2 * models[0][0]
    return max(0, room // kv)
    ### END SOLUTION

# %% right: in other forms
# ~ count * (asked.state if trained else 2) for ==> count * 2 + trained * count * (asked.state - 2) for
# ~ max(1, math.ceil(state_bytes(models, 1) / (memory - working)))
# ~~ ==> next(n for n in range(1, 10_000) if state_bytes(models, n) + working <= memory)
# %% wrong: all are trained => values
# > a frozen model has no gradients and no optimizer state.
# ~ (asked.state if trained else 2) ==> asked.state
# %% wrong: weights alone => values
# > these are the weights alone; a trained model has gradients and optimizer state, too.
# ~ (asked.state if trained else 2) ==> 2
# %% wrong: the frozen ones are left out => values
# > frozen models have to be in memory as well.
# ~ (asked.state if trained else 2) ==> asked.state * trained
# %% wrong: a copy on each GPU => values
# > this is all of it; ZeRO-3 divides the state among the GPUs.
# ~ for count, trained in models) / gpus ==> for count, trained in models)
# ~ state_bytes(models, 1) / ==> state_bytes(models, 1) * 1 /
# ~ held = state_bytes(models, gpus) if ==> held = state_bytes(models, gpus) / gpus if
# %% wrong: one GPU more on an exact fit => generality
# > an exact fit is enough.
# ~ math.ceil(state_bytes(models, 1) / (memory - working)) ==> int(state_bytes(models, 1) // (memory - working)) + 1
# %% wrong: rounded down => values
# > the state does not fit on so few GPUs.
# ~ math.ceil(state_bytes(models, 1) / (memory - working)) ==> int(state_bytes(models, 1) // (memory - working))
# %% wrong: no working memory => values
# > each GPU also needs its working memory.
# ~ (memory - working) ==> memory
# %% wrong: the working memory is divided => values
# > working memory is needed on each GPU, not once.
# ~ math.ceil(state_bytes(models, 1) / (memory - working)) ==> math.ceil((state_bytes(models, 1) + working) / memory)
# %% wrong: the other way to sleep => values
# > whether the training state stays on the GPUs while they generate is taken the other way round.
# ~ asked.sleeps == "stays" ==> asked.sleeps != "stays"
# %% wrong: every GPU holds the actor => values
# > the GPUs of a group divide the actor's weights among them.
# ~ - 2 * models[0][0] ==> - 2 * models[0][0] * tp
# %% wrong: no copy for generation => values
# > the weights with which the group generates are missing.
# ~ - 2 * models[0][0] ==> - 0 * models[0][0]
# %% wrong: every model generates => values
# > this holds a second copy of every model's weights; the actor alone generates.
# ~ - 2 * models[0][0] ==> - 2 * sum(count for count, _ in models)
# %% wrong: of one GPU => values
# > this is the cache of one GPU of the group.
# ~ room = tp * (memory - held) - 2 * models[0][0] ==> room = memory - held - 2 * models[0][0] / tp
# %% wrong: negative tokens => generality
# > the memory is too small even for the models; the result is 0.
# ~ return max(0, room // kv) ==> return room // kv
# %% wrong: rounded up => generality
# > the last token does not fit whole.
# ~ room // kv ==> math.ceil(room / kv)
'''
