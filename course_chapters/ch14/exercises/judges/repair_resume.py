from collections.abc import Sequence
from typing import TypedDict

from course_grader.judging import Case, Fault, Judging, Params, Random, Worked, hidden, oracle, shown
from course_grader.judging.cases import Maker

right = Worked("repair-resume")


def _loop_cases(params: Params, rng: Random) -> list[Case]:
    every = params["every"]

    def run(
        make: Maker, name: str, share: str, of_epoch: int, steps: int, kills: Sequence[int], every: int = every
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


class Ran(TypedDict):
    """What a loop did: (batch, step) of each update in the weights, updates made, and the updates saved."""

    weights: list[tuple[int, ...]]
    calls: int
    saves: list[int]


def _loop_fault(case: Case, got: Ran) -> Fault | None:
    want = right.value(case)
    got = {**got, "weights": [tuple(each) for each in got["weights"]]}
    if got == want:
        return None
    when = ", ".join(map(str, case.args[4]))
    kills = f"killed at update{'s' * (len(case.args[4]) > 1)} {when}" if when else "never killed"
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
    why="""A checkpoint is a promise: these weights have had exactly so many updates. Everything else follows from that
number: the epoch, the place in it, and how often the data was shuffled. Each bug breaks the promise silently, for the
loop still runs to its end.""",
    pytorch="A `StatefulDataLoader` and `Stateful` trainers save the position; a test that kills the job and compares "
    "weights bit by bit finds these bugs.",
)

ANSWERS = r'''# %% right: worked
def train(job, steps: int) -> None:
    """Trains to update number `steps`, from the checkpoint if there is one."""
    checkpoint = job.load() or {"step": 0, "weights": []}
    step, job.weights = checkpoint["step"], checkpoint["weights"]
    drawn, order = 0, []
    while step < steps:
        epoch, place = divmod(step, job.batches)
        while drawn <= epoch:  # also those of the epochs before a resume
            order, drawn = job.shuffled(), drawn + 1
        step += 1
        job.update(order[place], step)
        if step % job.every == 0:
            job.save({"step": step, "weights": job.weights})
# %% right: all orders first
# -     drawn, order = 0, []
# +     stream = [batch for _ in range(-(-steps // job.batches)) for batch in job.shuffled()]
# -         epoch, place = divmod(step, job.batches)
# -         while drawn <= epoch:  # also those of the epochs before a resume
# -             order, drawn = job.shuffled(), drawn + 1
# ~ order[place] ==> stream[step - 1]
# %% wrong: early => values
# > the checkpoint counts an update that its weights have not had.
# -         job.update(order[place], step)
#               job.save({"step": step, "weights": job.weights})
# +         job.update(order[place], step)
# %% wrong: late epoch => values
# > epoch and place in it are computed from a step that is already counted.
# ~ divmod(step, job.batches) ==> divmod(step + 1, job.batches)
# %% wrong: afresh => values
# > after a restart, `job.shuffled()` begins with the first epoch's order again.
# ~ drawn, order = 0, [] ==> drawn, order = step // job.batches + 1, job.shuffled()
# %% wrong: afresh, and the next where an epoch begins => values afresh
# ~ drawn, order = 0, [] ==> drawn, order = max(1, -(-step // job.batches)), job.shuffled()
# %% wrong: early and late epoch => values early  from: early
# > the checkpoint counts an update that its weights have not had. Also, epoch and place in it are computed from a step
# > that is already counted.
# ~ divmod(step, job.batches) ==> divmod(step + 1, job.batches)
# %% wrong: early and afresh => values early  from: early
# > the checkpoint counts an update that its weights have not had. Also, after a restart, `job.shuffled()` begins with
# > the first epoch's order again.
# ~ drawn, order = 0, [] ==> drawn, order = step // job.batches + 1, job.shuffled()
# %% wrong: late epoch and afresh => values late-epoch
# > epoch and place in it are computed from a step that is already counted. Also, after a restart, `job.shuffled()`
# > begins with the first epoch's order again.
# ~ drawn, order = 0, [] ==> drawn, order = (step + 1) // job.batches + 1, job.shuffled()
# ~ divmod(step, job.batches) ==> divmod(step + 1, job.batches)
# %% wrong: as given => values early  from: the card
# > the checkpoint counts an update that its weights have not had. Also, epoch and place in it are computed from a step
# > that is already counted, and after a restart `job.shuffled()` begins with the first epoch's order again.
# %% wrong: one order too many => values
# > one order too many is drawn at the start of an epoch.
# ~ while drawn <= epoch: ==> while drawn <= epoch + (place == 0):
# %% wrong: last update missing => values
# > the last update is missing.
# ~ while step < steps: ==> while step < steps - 1:
# %% wrong: one too few counted => values
# > the checkpoint counts one update fewer than its weights have had.
# ~ {"step": step, "weights" ==> {"step": step - 1, "weights"
# %% wrong: an epoch begins with the old order => values other-updates
# ~ while drawn <= epoch: ==> while drawn < max(1, epoch + (place > 0)):
# %% wrong: it saves after every update => values other-saves
# ~ job.every ==> 1
# %% wrong: it saves at the end as well => values other-saves
# -     while step < steps:
# +     while True:
# +         if step >= steps:
# +             job.save({"step": step, "weights": job.weights})
# +             return
# %% wrong: it never resumes => values repeated-work
# ~ checkpoint = job.load() or ==> checkpoint =
# %% wrong: steps count from 0 => values other-updates
# ~ job.update(order[place], step) ==> job.update(order[place], step - 1)
# %% wrong: the weights are not restored => values other-updates
# ~ step, job.weights = checkpoint["step"], checkpoint["weights"] ==> step = checkpoint["step"]
# %% wrong: one update more when all is done => generality repeated-work
#       drawn, order = 0, []
# +     if step == steps and steps:
# +         job.update(job.shuffled()[0], step + 1)
'''
