import random
from collections.abc import Mapping, Sequence

import torch

from course_grader.judging import Fault, Judging, Params, Worked, Wrong, judged
from course_grader.judging.cases import hidden, shown, under
from course_grader.judging.ranks import UNKIND, PerRank
from course_grader.judging.tensors import coin_of, nbytes, normal, tensor_fault
from course_grader.judging.traffic import too_few_bytes
from course_grader.records import Case, Outcome, Verdict

right = Worked("outer-step")
Shapes = Sequence[tuple[int, ...]]
USUAL: Shapes = ((6, 4), (5,), (3, 2))


def _cases(params: Params, rng: random.Random) -> list[Case]:
    coin, workers = coin_of(rng), params["workers"]

    def given(count: int, rounds: int, shapes: Shapes = USUAL, dtype: torch.dtype = torch.float32) -> PerRank:
        shared, velocity = ([normal(coin, *shape, dtype=dtype) for shape in shapes] for _ in range(2))
        return tuple(
            (
                [each.clone() for each in shared],
                [each.clone() for each in velocity],
                [[normal(coin, *shape, dtype=dtype) for shape in shapes] for _ in range(rounds)],
            )
            for _ in range(count)
        )

    many = [(2,)] * 12
    return [
        shown(f"{workers} workers, one outer step", "values:step", per_rank=given(workers, 1)),
        shown(f"{workers} workers, four outer steps", "values:rounds", per_rank=given(workers, 4)),
        hidden("five workers", "values:rounds", per_rank=given(5, 3)),
        hidden("one worker", "generality:workers", per_rank=given(1, 3)),
        hidden("two workers", "generality:workers", per_rank=given(2, 2)),
        hidden("float64", "generality:tensors", per_rank=given(3, 2, dtype=torch.float64)),
        hidden("one tensor", "generality:tensors", per_rank=given(4, 2, [(30,)])),
        hidden("one tensor, three workers, one step", "generality:tensors", per_rank=given(3, 1, [(7,)])),
        hidden("one tensor, one worker, one step", "generality:tensors", per_rank=given(1, 1, [(4,)])),
        hidden("four workers, one step", "generality:workers", per_rank=given(4, 1)),
        hidden("a single number and an empty tensor", "generality:tensors", per_rank=given(3, 2, [(), (0, 4), (9,)])),
        hidden("twelve small tensors", "generality:tensors", per_rank=given(4, 2, many)),
        *under(UNKIND, "four workers", "generality:workers", lambda: given(4, 2)),
    ]


def _fault(case: Case, results: Sequence[Mapping[str, object]]) -> Fault | None:
    for rank, (got, want) in enumerate(zip(results, right.value(case), strict=True)):
        lead = f"Rank {rank} of {case.ranks}: "
        if type(got["x"]) is not list or len(got["x"]) != len(want["x"]):
            return "wrong-shape", f"{lead}{len(want['x'])} outer steps are expected."
        for at, (mine, due) in enumerate(zip(got["x"], want["x"], strict=True)):
            if type(mine) is not list or len(mine) != len(due):
                return "wrong-shape", f"{lead}two lists of {len(due) // 2} tensors each are expected."
            for place, (one, other) in enumerate(zip(mine, due, strict=True)):
                what = ("shared", "velocity")[2 * place // len(due)]
                if fault := tensor_fault(f"outer step {at + 1}, {what}[{place % (len(due) // 2)}]", one, other):
                    return Wrong(*fault)._replace(lead=lead)
        if got["touched"] is not False:
            return "changed", f"{lead}`own`, `shared` or `velocity` was changed."
    return None


def _traffic(case: Case, outcome: Outcome) -> Fault | None:
    (shared, _, moves), ranks, meter = (case.per_rank or ())[0], case.ranks or 1, outcome.meter
    size, rounds = sum(map(nbytes, shared)), len(moves)
    sent, messages = max(meter["bytes_sent"]), max(meter["messages_sent"])
    if sent > 2 * size * rounds:
        return "too-many-bytes", f"A worker sends {sent / rounds:,.0f} bytes in an outer step; {2 * size:,} are enough."
    most = 2 * (ranks - 1) * rounds
    if messages > most:
        return "too-many-messages", f"A worker sends {messages:,} messages; one all-reduce a step sends {most:,}."
    least = [size * rounds * (ranks > 1) * 0.9] * ranks
    return too_few_bytes(meter, least, least)


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    return judged(case, _fault(case, outcome.value), ("cost", "traffic", _traffic(case, outcome)), named=True)


JUDGING = Judging(
    shares="values:step 0.2, values:rounds 0.25, cost:traffic 0.25, generality:workers 0.15, generality:tensors 0.15",
    cases=_cases,
    verdicts=_verdicts,
    why="""The workers' own optimizers have done the descent; the outer gradient only says where the workers are, seen
from the shared weights. So it points from `own` to `shared`, and the outer optimizer goes against it. One all-reduce of
all differences is the whole traffic of many inner steps, because each worker computes the same outer step.""",
    pytorch="torchft's `DiLoCo` has the outer optimizer as an argument: "
    "`torch.optim.SGD(lr=0.7, momentum=0.9, nesterov=True)`.",
)

ANSWERS = r'''import torch

from course_lib import params


# %% right: worked
given = params("outer-step")  # leave as is: form ("Nesterov" or "heavy ball"), rate and momentum


def outer_step(comm, own: list, shared: list, velocity: list) -> tuple[list, list]:
    """The shared weights and the velocity after an outer step."""
    ### BEGIN SOLUTION
    flat = torch.cat([(s - o).flatten() for s, o in zip(shared, own, strict=True)])
    comm.all_reduce(flat)
    parts = (flat / comm.size).split([s.numel() for s in shared])
    mean = [part.view_as(s) for part, s in zip(parts, shared, strict=True)]
    speed = [given.momentum * v + g for v, g in zip(velocity, mean, strict=True)]
    if given.form == "Nesterov":
        step = [g + given.momentum * v for g, v in zip(mean, speed, strict=True)]
    else:
        step = speed
    return [s - given.rate * d for s, d in zip(shared, step, strict=True)], speed
    ### END SOLUTION

# %% right: the mean of the weights first
def outer_step(comm, own, shared, velocity):
    given = params("outer-step")
    total = torch.cat([each.reshape(-1) for each in own])
    comm.all_reduce(total)
    weights, speed = (torch.cat([each.reshape(-1) for each in some]) for some in (shared, velocity))
    gradient = weights - total / comm.size
    speed = gradient.add(speed, alpha=given.momentum)
    step = gradient.add(speed, alpha=given.momentum) if given.form == "Nesterov" else speed

    def home(flat):
        sizes = [each.numel() for each in shared]
        return [part.reshape(each.shape) for part, each in zip(flat.split(sizes), shared)]

    return home(weights - given.rate * step), home(speed)


# %% wrong: the other sign => values
# > the outer gradient has the other sign, so the shared weights go away from where the workers have gone.
# ~ (s - o).flatten() ==> (o - s).flatten()
# %% wrong: the mean of the workers => values
# > these are the mean weights of the workers; the outer optimizer takes its own step from the shared ones.
# ~ return [s - given.rate * d for s, d in zip(shared, step, strict=True)], speed
# ~~ ==> return [s - g for s, g in zip(shared, mean, strict=True)], speed
# %% wrong: the sum over workers => values
# > the outer gradient is the sum over the workers; it should be the mean.
# ~ (flat / comm.size).split ==> flat.split
# %% wrong: the other form => values
# > this is the step of the other form of momentum.
# ~ given.form == "Nesterov" ==> given.form != "Nesterov"
# %% wrong: velocity is forgotten => values
# > the velocity of earlier outer steps is lost.
# ~ given.momentum * v + g for ==> g for
# %% wrong: a running mean => values
# > the new gradient is multiplied by 1 − μ, as in Adam; here it counts fully.
# ~ given.momentum * v + g for ==> given.momentum * v + (1 - given.momentum) * g for
# %% wrong: no outer rate => values
# > the step is not multiplied by the outer rate.
# ~ s - given.rate * d ==> s - d
# %% wrong: without the other workers => values
# > the outer gradient is this worker's own, so the workers' shared weights differ.
# ~ comm.all_reduce(flat) ==> flat = flat * comm.size
# %% wrong: a message for each tensor => cost too-many-messages
# ~ comm.all_reduce(flat) ==> pieces = flat.split([s.numel() for s in shared])
# +     [comm.all_reduce(piece) for piece in pieces]
# %% wrong: velocity travels, too => cost too-many-bytes
# ~ comm.all_reduce(flat) ==> flat = torch.cat([flat, *(v.flatten() for v in velocity)]); comm.all_reduce(flat)
# +     flat = flat[: sum(s.numel() for s in shared)]
# %% wrong: travels twice in fp64 => cost too-many-bytes
# ~ comm.all_reduce(flat) ==> wide = flat.double(); wide = torch.cat([wide, wide]); comm.all_reduce(wide)
# +     flat = wide[: len(flat)].to(flat.dtype)
# %% wrong: shared weights are changed => values changed
# ~ [s - given.rate * d for s, d in zip(shared, step, strict=True)]
# ~~ ==> [s.sub_(given.rate * d) for s, d in zip(shared, step, strict=True)]
# %% wrong: the message in half the bits => values
# > the outer gradient has lost bits on its way.
# ~ comm.all_reduce(flat) ==> half = flat.bfloat16(); comm.all_reduce(half); flat = half.to(flat.dtype)
# %% wrong: 32 bits at most => generality
# > the tensors come back in another dtype.
# ~ flat = torch.cat([(s - o).flatten() for s, o in zip(shared, own, strict=True)])
# ~~ ==> flat = torch.cat([(s - o).flatten() for s, o in zip(shared, own, strict=True)]).float()
# %% wrong: left as it is => not-answered
# ~ flat = torch.cat( ==> raise NotImplementedError; flat = torch.cat(
'''
