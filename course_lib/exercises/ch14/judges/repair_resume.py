"""Judge of repair-resume: it resumes, but not the same run."""

import random
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from course_lib.exercises.ch14.probes import Job, Killed
from course_lib.judging import Fault, Judging, Params, oracle
from course_lib.judging.cases import hidden, shown
from course_lib.records import Case


def looped(
    args: tuple[Any, ...], *, early: bool = False, late_epoch: bool = False, afresh: bool = False
) -> dict[str, Any]:
    """What the loop leads to, right or with some of its bugs: saved before the update, epoch of the next step, data afresh."""
    seed, of_epoch, every, steps, kills = args
    job = Job(seed, of_epoch, every, list(kills))

    def train() -> None:
        checkpoint = job.load() or {"step": 0, "weights": []}
        step, job.weights = checkpoint["step"], checkpoint["weights"]
        drawn, order = 0, []
        if afresh:
            drawn, order = (step + late_epoch) // job.batches + 1, job.shuffled()
        while step < steps:
            epoch, place = divmod(step + late_epoch, job.batches)
            while drawn <= epoch:
                order, drawn = job.shuffled(), drawn + 1
            step += 1
            if early and step % job.every == 0:
                job.save({"step": step, "weights": job.weights})
            job.update(order[place], step)
            if not early and step % job.every == 0:
                job.save({"step": step, "weights": job.weights})

    for _ in range(len(kills) + 1):
        try:
            train()
            break
        except Killed:
            job.restart()
    return {"weights": job.weights, "calls": job._calls, "saves": job.saves}


def _loop_cases(params: Params, rng: random.Random) -> list[Case]:
    every = params["every"]

    def run(
        make: Any, name: str, share: str, of_epoch: int, steps: int, kills: Sequence[int], every: int = every
    ) -> Case:
        return make(name, share, rng.randrange(1000), of_epoch, every, steps, list(kills))

    many = sorted(rng.sample(range(2, 60), 6))
    return [
        run(shown, "no kill, two epochs of five batches", "values:undisturbed", 5, 10, []),
        run(shown, "killed once", "values:resumed", 6, 14, [every + 2]),
        run(hidden, "no kill, three epochs", "values:undisturbed", 4, 12, []),
        run(hidden, "killed before the first checkpoint", "values:resumed", 6, 11, [2]),
        run(hidden, "killed just after a checkpoint", "values:resumed", 7, 16, [2 * every + 1]),
        run(hidden, "killed in the third epoch", "values:resumed", 3, 13, [8]),
        run(
            hidden, "a checkpoint at the end of an epoch", "generality:runs", 2 * every, 4 * every + 1, [2 * every + 1]
        ),
        run(hidden, "killed many times", "generality:runs", 5, 90, many),
        run(hidden, "a save after each update", "generality:runs", 4, 9, [3, 4, 9], every=1),
        run(hidden, "one batch an epoch", "generality:runs", 1, 7, [3]),
        run(hidden, "no steps", "generality:runs", 4, 0, []),
        run(hidden, "started again when all is done", "generality:runs", 4, 2 * every, [0]),
    ]


def _loop_fault(case: Case, got: Any) -> Fault | None:
    want = looped(case.args)
    got = {**got, "weights": [tuple(each) for each in got["weights"]]}
    if got == want:
        return None
    bugs = {
        "early": "the checkpoint counts an update that its weights have not had.",
        "late_epoch": "epoch and place in it are computed from a step that is already counted.",
        "afresh": "after a restart, `job.shuffled()` begins with the first epoch's order again.",
    }
    for count in (1, 2, 3):
        for names in combinations(bugs, count):
            try:
                other = looped(case.args, **dict.fromkeys(names, True))
            except IndexError:
                continue
            if other != want and got == other:
                return names[0].replace("_", "-"), " Also, ".join(bugs[name] for name in names)
    kills = (
        f"killed at update{'s' * (len(case.args[4]) > 1)} {', '.join(map(str, case.args[4]))}"
        if case.args[4]
        else "never killed"
    )
    kills = "started again when all is done" if case.args[4] == [0] else kills
    if got["weights"] == want["weights"] and got["calls"] > want["calls"]:
        return "repeated-work", f"{kills}: {got['calls']} updates were made; {want['calls']} are enough."
    if got["weights"] == want["weights"]:
        return "other-saves", f"{kills}: saves came after {got['saves']} updates; they must come after {want['saves']}."
    pairs = zip([*got["weights"], None], [*want["weights"], None], strict=False)
    at, (one, two) = next((at, pair) for at, pair in enumerate(pairs) if pair[0] != pair[1])
    return "other-updates", f"{kills}: update {at + 1} in the weights is (batch, step) = {one}; it must be {two}."


JUDGING = Judging(
    shares="values:undisturbed 0.2, values:resumed 0.4, generality:runs 0.4",
    cases=_loop_cases,
    verdicts=oracle(lambda params, case, outcome: _loop_fault(case, outcome.value), named=True),
    why="""A checkpoint is a promise: these weights have had exactly so many updates. Everything else follows from that number: the epoch, the
place in it, and how often the data was shuffled. Each bug breaks the promise silently, for the loop still runs to its end.""",
    pytorch="A `StatefulDataLoader` and `Stateful` trainers save the position; a test that kills the job and compares weights bit by bit finds these bugs.",
)

ANSWERS = r"""# %% right: as written
def train(job, steps):
    checkpoint = job.load() or {"step": 0, "weights": []}
    step, job.weights = checkpoint["step"], checkpoint["weights"]
    drawn, order = 0, None
    while step < steps:
        epoch, place = divmod(step, job.batches)
        while drawn <= epoch:
            order = job.shuffled()
            drawn += 1
        job.update(order[place], step + 1)
        step += 1
        if step % job.every == 0:
            job.save({"step": step, "weights": job.weights})


# %% right: all orders first
def train(job, steps):
    saved = job.load()
    if saved is not None:
        job.weights = saved["weights"]
    done = saved["step"] if saved is not None else 0
    stream = []
    for _ in range(-(-steps // job.batches)):
        stream += job.shuffled()
    for number in range(done + 1, steps + 1):
        job.update(stream[number - 1], number)
        if not number % job.every:
            job.save(dict(step=number, weights=list(job.weights)))


# %% wrong: as given => values -  from: the card

# %% wrong: saved before the update => values early  from: as written
# -         job.update(order[place], step + 1)
#               job.save({"step": step, "weights": job.weights})
# +         job.update(order[place], step)

# %% wrong: the epoch of the next step => values late-epoch  from: as written
# ~ place = divmod(step, job.batches) ==> place = divmod(step + 1, job.batches)

# %% wrong: the data begins again => values afresh  from: as written
# -     drawn, order = 0, None
# +     order = job.shuffled()
# +     first = step
# ~ epoch, place = divmod(step, job.batches) ==> place = step % job.batches
# ~ while drawn <= epoch: ==> if place == 0 and step > first:
# -             drawn += 1

# %% wrong: an epoch begins with the old order => values other-updates  from: as written
# ~ while drawn <= epoch: ==> while drawn < max(1, epoch + (place > 0)):

# %% wrong: it saves after every update => values other-saves  from: as written
# ~ job.every ==> 1

# %% wrong: it saves at the end as well => values other-saves  from: as written
# -     while step < steps:
# +     while True:
# +         if step >= steps:
# +             job.save({"step": step, "weights": job.weights})
# +             return

# %% wrong: it never resumes => values repeated-work  from: as written
# ~ checkpoint = job.load() or {"step": 0, "weights": []} ==> checkpoint = {"step": 0, "weights": []}

# %% wrong: steps count from 0 => values other-updates  from: as written
# ~ (order[place], step + 1) ==> (order[place], step)

# %% wrong: the weights are not restored => values other-updates  from: as written
# ~ step, job.weights = checkpoint["step"], checkpoint["weights"] ==> step = checkpoint["step"]

# %% wrong: one update more when all is done => generality repeated-work  from: as written
# -     drawn, order = 0, None
# +     drawn, order = 0, None
# +     if step == steps and steps:
# +         job.update(job.shuffled()[0], step + 1)
"""
