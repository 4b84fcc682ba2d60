from collections.abc import Mapping, Sequence

import torch

from course_grader.judging import Case, Fault, Judging, Params, Random, Worked, hidden, oracle, shown
from course_grader.judging.cases import Maker

right = Worked("snapshot-and-restore")


def _same(got: object, want: object) -> bool:
    if isinstance(want, torch.Tensor):
        return isinstance(got, torch.Tensor) and got.dtype == want.dtype and torch.equal(got, want)
    if isinstance(want, (list, tuple)):
        return isinstance(got, (list, tuple)) and len(got) == len(want) and all(map(_same, got, want))
    return type(got) is type(want) and got == want


def _resume_cases(params: Params, rng: Random) -> list[Case]:
    def run(make: Maker, name: str, share: str, *args: int) -> Case:
        return make(name, share, rng.randrange(1000), *args)

    return [
        run(shown, "in the middle of an epoch", "values:resume", 24, 4, 4, params["during"], 6),
        run(hidden, "over the end of an epoch", "values:resume", 22, 5, 3, params["during"], 8),
        run(hidden, "before the first step", "generality:moments", 16, 4, 0, 2, 5),
        run(hidden, "at the end of an epoch", "generality:moments", 16, 4, 4, 1, 5),
        run(hidden, "while nothing else happens", "generality:moments", 20, 4, 7, 0, 4),
        run(hidden, "two epochs later", "generality:moments", 12, 6, 5, 3, 3),
    ]


def _resume_fault(case: Case, got: Mapping[str, Sequence[object]]) -> Fault | None:
    both = right.value(case)
    if not _same(got["undisturbed"], both["undisturbed"]):
        told = "after `snapshot` the training itself goes on in another way; `snapshot` must change nothing."
        return "disturbed", told
    want = both["resumed"]
    if _same(got["resumed"], want):
        return None
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
    why="""Whatever the next step reads is state: also the buffers of the model, the counter behind the loss scale, and
two random generators. A `state_dict` refers to the live tensors, so whoever writes it later writes later numbers. Copy
first; the copy is what stops the training.""",
    pytorch="`torch.distributed.checkpoint.async_save` copies to CPU memory first, for this reason; `Stateful` "
    "objects bring their own `state_dict`.",
)

ANSWERS = r'''import copy
# %% right: worked
def snapshot(trainer) -> dict:
    """All of the training's state, so that `torch.save` can write it later."""
    state = {
        "model": trainer.model.state_dict(),
        "optimizer": trainer.optimizer.state_dict(),
        "schedule": trainer.schedule.state_dict(),
        "shuffles": trainer.generator.get_state(),
        "dropout": torch.get_rng_state(),
        "data": [trainer.order, trainer.position],
        "average": trainer.average,
        "scale": trainer.scale,
    }
    return copy.deepcopy(state)  # the training goes on before this is written


def restore(trainer, saved: dict) -> None:
    """Puts a state that was saved into another trainer."""
    trainer.model.load_state_dict(saved["model"])
    trainer.optimizer.load_state_dict(saved["optimizer"])
    trainer.schedule.load_state_dict(saved["schedule"])
    trainer.generator.set_state(saved["shuffles"])
    torch.set_rng_state(saved["dropout"])
    trainer.order, trainer.position = saved["data"]
    trainer.average, trainer.scale = saved["average"], saved["scale"]
# %% right: in a list, the average copied in place
# ~ return copy.deepcopy(state)  # the training goes on before this is written
# ~~ ==> return [copy.deepcopy(each) for each in state.values()]
#       """Puts a state that was saved into another trainer."""
# +     names = "model", "optimizer", "schedule", "shuffles", "dropout", "data", "average", "scale"
# +     saved = dict(zip(names, saved))
# -     trainer.average, trainer.scale = saved["average"], saved["scale"]
# +     trainer.scale = dict(saved["scale"])
# +     for mine, given in zip(trainer.average, saved["average"]):
# +         mine.copy_(given)
# %% wrong: live tensors => values alias
# > the snapshot moved on with the training: it holds the live tensors. Copy them.
# ~ copy.deepcopy(state) ==> state | {"scale": dict(trainer.scale)}
# %% wrong: all of it live => values alias
# > the snapshot moved on with the training: it holds what the training changes, not copies.
# ~ copy.deepcopy(state) ==> state
# %% wrong: model and optimizer live => values alias
# > the tensors of the model and of the optimizer moved on with the training: a `state_dict` refers to the live ones.
# ~ copy.deepcopy(state)
# ~~ ==> {key: each if key in ("model", "optimizer") else copy.deepcopy(each) for key, each in state.items()}
# %% wrong: model and average live => values alias
# > the tensors of the model and of the average moved on with the training: they are the live ones.
# ~ copy.deepcopy(state)
# ~~ ==> {key: each if key in ("model", "average") else copy.deepcopy(each) for key, each in state.items()}
# %% wrong: optimizer and average live => values alias
# > the optimizer's moments and the average moved on with the training: they are the live ones.
# ~ copy.deepcopy(state)
# ~~ ==> {key: each if key in ("optimizer", "average") else copy.deepcopy(each) for key, each in state.items()}
# %% wrong: model live => values alias
# > the model's tensors moved on with the training: its `state_dict` refers to the live ones.
# ~ copy.deepcopy(state) ==> copy.deepcopy(state) | {"model": state["model"]}
# %% wrong: optimizer live => values alias
# > the optimizer's moments moved on with the training: its `state_dict` refers to the live ones.
# ~ copy.deepcopy(state) ==> copy.deepcopy(state) | {"optimizer": state["optimizer"]}
# %% wrong: average live => values alias
# > the moving average moved on with the training: a copied list still holds the live tensors.
# ~ copy.deepcopy(state) ==> copy.deepcopy(state) | {"average": list(state["average"])}
# %% wrong: scale live => values alias
# > the loss scale's dictionary moved on with the training: it is the live one.
# ~ copy.deepcopy(state) ==> copy.deepcopy(state) | {"scale": trainer.scale}
# %% wrong: no model => values
# > the model's `state_dict` is missing; its running means are part of it.
# -     trainer.model.load_state_dict(saved["model"])
# %% wrong: no buffers => values
# > the model's buffers are missing: batch normalization keeps running means.
# -     trainer.model.load_state_dict(saved["model"])
# +     names = dict(trainer.model.named_parameters())
# +     trainer.model.load_state_dict({name: saved["model"][name] for name in names}, strict=False)
# %% wrong: no optimizer => values
# > the optimizer's state is missing: its moments begin at zero again.
# -     trainer.optimizer.load_state_dict(saved["optimizer"])
# %% wrong: no schedule => values
# > the schedule's state is missing: the learning rate is that of another step.
# -     trainer.schedule.load_state_dict(saved["schedule"])
# %% wrong: no generator => values
# > the state of `trainer.generator` is missing: the next epoch is shuffled another way.
# -     trainer.generator.set_state(saved["shuffles"])
# %% wrong: no dropout => values
# > the state of torch's default generator is missing: dropout drops other numbers.
# -     torch.set_rng_state(saved["dropout"])
# %% wrong: neither generator => values no-generator
# > the states of both generators are missing: the epochs' and dropout's, which is torch's default one.
# -     trainer.generator.set_state(saved["shuffles"])
# -     torch.set_rng_state(saved["dropout"])
# %% wrong: no position => values
# > `order` and `position` are missing: other samples come next.
# -     trainer.order, trainer.position = saved["data"]
# %% wrong: epoch again => values
# > the epoch begins again: `position` is missing.
# ~ trainer.position = saved["data"] ==> trainer.position = saved["data"][0], 0
# %% wrong: no average => values
# > the moving average is missing: it starts from other weights.
# ~ trainer.average, trainer.scale = saved["average"], saved ==> trainer.scale = saved
# %% wrong: no scale => values
# > the loss scale and its counter are missing.
# ~ average, trainer.scale = saved["average"], saved["scale"] ==> average = saved["average"]
# %% wrong: weights alone => values other-run
# -     trainer.optimizer.load_state_dict(saved["optimizer"])
# -     trainer.schedule.load_state_dict(saved["schedule"])
# -     trainer.generator.set_state(saved["shuffles"])
# %% wrong: the snapshot draws a random number => values disturbed
# ~ return copy ==> return torch.rand(1) is not None and copy
# %% wrong: the position stays in a global => values other-run
# - def snapshot(trainer) -> dict:
# + KEPT = []
# + def snapshot(trainer) -> dict:
# +     KEPT[:] = [list(trainer.order), trainer.position]
# ~ trainer.position = saved["data"] ==> trainer.position = KEPT
'''
