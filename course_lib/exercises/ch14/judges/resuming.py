"""Judges of chapter 14 on resuming: all of the state, each sample once, and a loop that resumed another run."""

import random
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any

import torch

from course_lib.exercises.ch14.probes import Job, Killed, Trainer, order_of, reference
from course_lib.judging import Fault, Judging, Params, describe, oracle
from course_lib.judging.cases import hidden, ranks_text, shown
from course_lib.records import Case

# --- snapshot and restore

_FORGOTTEN = {
    "model": "the model's `state_dict` is missing; its running means are part of it.",
    "optimizer": "the optimizer's state is missing: its moments begin at zero again.",
    "schedule": "the schedule's state is missing: the learning rate is another step's.",
    "generator": "the state of `trainer.generator` is missing: the next epoch is shuffled another way.",
    "dropout": "the state of torch's default generator is missing: dropout drops other numbers.",
    "position": "`order` and `position` are missing: other samples come next.",
    "average": "the moving average is missing: it begins at other weights.",
    "scale": "the loss scale and its counter are missing.",
}


def _same(got: Any, want: Any) -> bool:
    """Whether two runs are equal bit by bit."""
    if isinstance(want, torch.Tensor):
        return isinstance(got, torch.Tensor) and got.dtype == want.dtype and torch.equal(got, want)
    if isinstance(want, (list, tuple)):
        return isinstance(got, (list, tuple)) and len(got) == len(want) and all(map(_same, got, want))
    return type(got) is type(want) and got == want


@lru_cache(maxsize=1024)
def _reference(args: tuple[Any, ...], left_out: tuple[str, ...] = (), late: bool = False) -> list[Any]:
    return reference(args, left_out, late)


def _resume_cases(params: Params, rng: random.Random) -> list[Case]:
    def run(make: Any, name: str, share: str, *args: int) -> Case:
        return make(name, share, rng.randrange(1000), *args)

    return [
        run(shown, "in the middle of an epoch", "values:resume", 24, 4, 4, params["during"], 6),
        run(hidden, "over the end of an epoch", "values:resume", 22, 5, 3, params["during"], 8),
        run(hidden, "before the first step", "generality:moments", 16, 4, 0, 2, 5),
        run(hidden, "at the end of an epoch", "generality:moments", 16, 4, 4, 1, 5),
        run(hidden, "while nothing else happens", "generality:moments", 20, 4, 7, 0, 4),
        run(hidden, "two epochs later", "generality:moments", 12, 6, 5, 3, 3),
    ]


def _resume_fault(case: Case, got: Any) -> Fault | None:
    want = _reference(case.args)
    seed, samples, batch, before, during, _ = case.args
    with torch.random.fork_rng(devices=[]):
        trainer = Trainer(seed, samples, batch)
        trainer.seen(before)
        if not _same(got["undisturbed"], trainer.seen(during)):
            return (
                "disturbed",
                "after `snapshot` the training itself goes on in another way; `snapshot` must change nothing.",
            )
    if _same(got["resumed"], want):
        return None
    late = _reference(case.args, late=True)
    if not _same(late, want) and _same(got["resumed"], late):
        return "alias", "the snapshot moved on with the training: it holds the live tensors. Copy them."
    for count in (1, 2):
        for left_out in combinations(Trainer.PARTS, count):
            other = _reference(case.args, left_out)
            if not _same(other, want) and _same(got["resumed"], other):
                told = " Also, ".join(_FORGOTTEN[part] for part in left_out)
                return f"no-{left_out[0]}", told
    named = zip(("losses", "weights", "average", "loss scale", "order"), got["resumed"], want, strict=True)
    apart = next(name for name, one, two in named if not _same(one, two))
    losses = got["resumed"][0] if isinstance(got["resumed"][0], list) else []
    at = next((at for at, pair in enumerate(zip(losses, want[0], strict=False)) if not _same(*pair)), None)
    when = "" if at is None else f" The first loss that differs is that of step {at + 1} after the resume."
    return "other-run", f"the {apart} of the resumed run differ from those of the undisturbed one.{when}"


# --- each sample once


def batches(seed: int, samples: int, batch: int, consumed: int, *, short: bool, first: bool = False) -> list[int]:
    """The ids of the next batch; `first` takes every epoch in the order of the first one."""
    order, ids = order_of(seed, samples), []
    while len(ids) < batch:
        epoch, place = divmod(consumed + len(ids), samples)
        ids += order(0 if first else epoch)[place : place + batch - len(ids)]
        if short:
            break
    return ids


def shared(ids: Sequence[int], ranks: int) -> list[list[int]]:
    """Contiguous parts whose sizes differ by at most one, the larger ones first."""
    small, extra = divmod(len(ids), ranks)
    starts = [rank * small + min(rank, extra) for rank in range(ranks + 1)]
    return [list(ids[a:b]) for a, b in zip(starts, starts[1:], strict=False)]


def _larger_last(ids: Sequence[int], ranks: int) -> list[list[int]]:
    starts = [len(ids) * rank // ranks for rank in range(ranks + 1)]
    return [list(ids[a:b]) for a, b in zip(starts, starts[1:], strict=False)]


def told(args: tuple[Any, ...], short: bool, share: Any = shared, first: bool = False) -> list[dict[str, Any]]:
    """What the probe tells of a run, for the right answer and for known mistakes."""
    seed, samples, batch, phases, consumed = args
    steps = []
    for count, ranks in phases:
        for _ in range(count):
            ids = batches(seed, samples, batch, consumed, short=short, first=first)
            consumed += len(ids)
            steps.append({"ids": share(ids, ranks), "consumed": [consumed]})
    return steps


def _sampler_cases(params: Params, rng: random.Random) -> list[Case]:
    def run(make: Any, name: str, share: str, samples: int, batch: int, phases: Any, consumed: int = 0) -> Case:
        return make(name, share, rng.randrange(1000), samples, batch, phases, consumed)

    drawn = [(rng.randrange(1, 5), rng.randrange(1, 7)) for _ in range(4)]
    return [
        run(shown, "20 samples, 4 ranks and then 2", "values:run", 20, 8, [(2, 4), (3, 2)]),
        run(hidden, "one rank alone", "values:run", 20, 8, [(9, 1)]),
        run(hidden, "4 ranks, then 3, then 5", "values:run", 36, 12, [(2, 4), (3, 3), (4, 5)]),
        run(hidden, "a batch that the ranks do not divide", "values:uneven", 30, 7, [(3, 4), (4, 3), (2, 2)]),
        run(hidden, "more ranks than ids", "values:uneven", 12, 3, [(3, 5), (3, 2)]),
        run(hidden, "an epoch that the batch does not divide", "generality:epochs", 17, 5, [(4, 2), (7, 3)]),
        run(hidden, "epochs shorter than a batch", "generality:epochs", 5, 12, [(3, 2), (3, 3)]),
        run(hidden, "from a checkpoint in the fifth epoch", "generality:epochs", 13, 4, [(5, 3)], 13 * 4 + 8),
        run(hidden, "from a checkpoint at the end of an epoch", "generality:epochs", 16, 4, [(5, 2)], 32),
        run(hidden, "drawn sizes", "generality:epochs", rng.randrange(9, 40), rng.randrange(2, 9), drawn),
        run(hidden, "many ranks, ids and epochs", "generality:epochs", 100, 30, [(2, 12), (1, 9)], 20_000_037),
        run(hidden, "one sample", "generality:epochs", 1, 1, [(3, 2)]),
    ]


def _sampler_fault(params: Params, case: Case, got: Any) -> Fault | None:
    short = params["batches"] == "short"
    want = told(case.args, short)
    if got == want:
        return None
    lead = "this solves the public form of the exercise: " if short else ""
    other = (
        "a batch never spans epochs here." if short else "a batch that ends with the epoch is filled from the next one."
    )
    strided = {"share": lambda ids, ranks: [list(ids[rank::ranks]) for rank in range(ranks)]}
    dropped = {
        "share": lambda ids, ranks: [list(ids[r * (n := len(ids) // ranks) : (r + 1) * n]) for r in range(ranks)]
    }
    known: list[tuple[str, bool, dict[str, Any], str]] = [
        ("public-form" if short else "short-batches", not short, {}, lead + other),
        ("strided", short, strided, "each rank reads every n-th id; contiguous parts are asked for."),
        ("remainder-dropped", short, dropped, "the ids that are left after dividing by the ranks are read by nobody."),
        ("larger-last", short, {"share": _larger_last}, "the larger parts come first."),
        ("first-order-again", short, {"first": True}, "every epoch has an order of its own; `order(epoch)` gives it."),
    ]
    for name, kind, change, message in known:
        if got == told(case.args, kind, **change):
            return name, message
    steps = [(ranks, at) for count, ranks in case.args[3] for at in range(count)]
    for at, (one, two) in enumerate(zip(got, want, strict=False)):
        where = f"step {at + 1}, {ranks_text(steps[at][0])}: "
        if type(one) is not dict or len(one["consumed"]) != 1:
            return "ranks-disagree", f"{where}the ranks return different numbers, or no whole number, of consumed ids."
        read, wanted = [each for part in one["ids"] for each in part], [each for part in two["ids"] for each in part]
        if len(set(read)) < len(set(wanted)) and set(read) < set(wanted):
            return "not-read", f"{where}{len(set(wanted) - set(read))} ids of the batch are read by no rank."
        if read != wanted:
            return (
                "other-batch",
                f"{where}the ranks together read {describe(read)}, and the batch is {describe(wanted)}.",
            )
        if one["ids"] != two["ids"]:
            return "other-parts", f"{where}the parts are {describe(one['ids'])}; they must be {describe(two['ids'])}."
        if one["consumed"] != two["consumed"]:
            return "miscounted", f"{where}{one['consumed'][0]} ids are said to be consumed; it is {two['consumed'][0]}."
    return "too-few-steps", "the run ended early."


# --- a loop that resumed another run


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


RESUMING = {
    "snapshot-and-restore": Judging(
        shares="values:resume 0.5, generality:moments 0.5",
        cases=_resume_cases,
        verdicts=oracle(lambda params, case, outcome: _resume_fault(case, outcome.value), named=True),
        why="""Whatever the next step reads is state: also the buffers of the model, the counter behind the loss scale, and two random generators. A
`state_dict` refers to the live tensors, so whoever writes it later writes later numbers. Copy first; the copy is what stops the training.""",
        pytorch="`torch.distributed.checkpoint.async_save` copies to CPU memory first, for this reason; `Stateful` objects bring their own `state_dict`.",
    ),
    "exactly-once": Judging(
        shares="values:run 0.4, values:uneven 0.2, generality:epochs 0.4",
        cases=_sampler_cases,
        verdicts=oracle(lambda params, case, outcome: _sampler_fault(params, case, outcome.value), named=True),
        why="""The stream of batches belongs to the job, not to its ranks: it follows from the seed and one number. Ranks only divide a
batch. So any number of ranks can go on from any checkpoint, and the loss is that of the undisturbed run up to rounding.""",
        pytorch="`DistributedSampler` divides the data by ranks first, so its order depends on their number; `torchdata`'s `StatefulDataLoader` saves a position per rank.",
    ),
    "repair-resume": Judging(
        shares="values:undisturbed 0.2, values:resumed 0.4, generality:runs 0.4",
        cases=_loop_cases,
        verdicts=oracle(lambda params, case, outcome: _loop_fault(case, outcome.value), named=True),
        why="""A checkpoint is a promise: these weights have had exactly so many updates. Everything else follows from that number: the epoch, the
place in it, and how often the data was shuffled. Each bug breaks the promise silently, for the loop still runs to its end.""",
        pytorch="A `StatefulDataLoader` and `Stateful` trainers save the position; a test that kills the job and compares weights bit by bit finds these bugs.",
    ),
}
