"""Judge of snapshot-and-restore: resume bit for bit."""

import random
from functools import lru_cache
from itertools import combinations
from typing import Any

import torch

from course_lib.exercises.ch14.probes import Trainer, reference
from course_lib.judging import Fault, Judging, Params, oracle
from course_lib.judging.cases import hidden, shown
from course_lib.records import Case

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


JUDGING = Judging(
    shares="values:resume 0.5, generality:moments 0.5",
    cases=_resume_cases,
    verdicts=oracle(lambda params, case, outcome: _resume_fault(case, outcome.value), named=True),
    why="""Whatever the next step reads is state: also the buffers of the model, the counter behind the loss scale, and two random generators. A
`state_dict` refers to the live tensors, so whoever writes it later writes later numbers. Copy first; the copy is what stops the training.""",
    pytorch="`torch.distributed.checkpoint.async_save` copies to CPU memory first, for this reason; `Stateful` objects bring their own `state_dict`.",
)

ANSWERS = r"""import copy
import torch


# %% right: as written
def snapshot(trainer):
    return copy.deepcopy(
        {
            "model": trainer.model.state_dict(),
            "optimizer": trainer.optimizer.state_dict(),
            "schedule": trainer.schedule.state_dict(),
            "generator": trainer.generator.get_state(),
            "random": torch.get_rng_state(),
            "order": trainer.order,
            "position": trainer.position,
            "average": trainer.average,
            "scale": trainer.scale,
        }
    )


def restore(trainer, saved):
    trainer.model.load_state_dict(saved["model"])
    trainer.optimizer.load_state_dict(saved["optimizer"])
    trainer.schedule.load_state_dict(saved["schedule"])
    trainer.generator.set_state(saved["generator"])
    torch.set_rng_state(saved["random"])
    trainer.order, trainer.position = saved["order"], saved["position"]
    trainer.average, trainer.scale = saved["average"], saved["scale"]


# %% right: tensor by tensor
def snapshot(trainer):
    optimizer = trainer.optimizer.state_dict()
    state = {key: {name: each.clone() for name, each in one.items()} for key, one in optimizer["state"].items()}
    return [
        [each.clone() for each in trainer.model.state_dict().values()],
        state,
        [dict(group) for group in optimizer["param_groups"]],
        dict(trainer.schedule.state_dict()),
        [trainer.generator.get_state(), torch.get_rng_state()],
        [list(trainer.order), trainer.position],
        [each.clone() for each in trainer.average],
        [trainer.scale["value"], trainer.scale["clean"]],
    ]


def restore(trainer, saved):
    model, state, groups, schedule, random, data, average, scale = saved
    trainer.schedule.load_state_dict(schedule)
    trainer.optimizer.load_state_dict({"state": state, "param_groups": groups})
    with torch.no_grad():
        for mine, given in zip(trainer.model.state_dict().values(), model):
            mine.copy_(given)
        for mine, given in zip(trainer.average, average):
            mine.copy_(given)
    trainer.generator.set_state(random[0])
    torch.random.set_rng_state(random[1])
    trainer.order, trainer.position = data
    trainer.scale = {"value": scale[0], "clean": scale[1]}


# %% wrong: live tensors => values alias  from: as written
# ~ copy.deepcopy ==> dict
# ~ trainer.scale, ==> dict(trainer.scale),

# %% wrong: without the optimizer => values no-optimizer  from: as written
# -     trainer.optimizer.load_state_dict(saved["optimizer"])

# %% wrong: without the schedule => values -  from: as written
# -     trainer.schedule.load_state_dict(saved["schedule"])

# %% wrong: without the generator => values no-generator  from: as written
# -     trainer.generator.set_state(saved["generator"])

# %% wrong: without torch's generator => values no-dropout  from: as written
# -     torch.set_rng_state(saved["random"])

# %% wrong: without the position => values -  from: as written
# -     trainer.order, trainer.position = saved["order"], saved["position"]

# %% wrong: the epoch begins again => values -  from: as written
# -     trainer.order, trainer.position = saved["order"], saved["position"]
# +     trainer.order = saved["order"]
# +     trainer.position = 0

# %% wrong: without the average => values no-average  from: as written
# ~ trainer.average, trainer.scale = saved["average"], saved ==> trainer.scale = saved

# %% wrong: without the loss scale => values no-scale  from: as written
# ~ average, trainer.scale = saved["average"], saved["scale"] ==> average = saved["average"]

# %% wrong: parameters without buffers => values -  from: as written
# -     trainer.model.load_state_dict(saved["model"])
# +     names = dict(trainer.model.named_parameters())
# +     trainer.model.load_state_dict({name: saved["model"][name] for name in names}, strict=False)

# %% wrong: weights alone => values -  from: as written
# -     trainer.optimizer.load_state_dict(saved["optimizer"])
# -     trainer.schedule.load_state_dict(saved["schedule"])
# -     trainer.generator.set_state(saved["generator"])

# %% wrong: the snapshot draws a random number => values -  from: as written
# -     return copy.deepcopy(
# +     torch.rand(1)
# +     return copy.deepcopy(

# %% wrong: the position stays in a global => values -  from: as written
# - def snapshot(trainer):
# + KEPT = []
# + def snapshot(trainer):
# +     KEPT[:] = [list(trainer.order), trainer.position]
# ~ trainer.position = saved["order"], saved["position"] ==> trainer.position = KEPT
"""
