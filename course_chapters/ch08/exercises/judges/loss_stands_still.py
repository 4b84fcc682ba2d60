from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from course_chapters.ch08.exercises.probes import WEIGHED
from course_chapters.ch08.exercises.work import STATE, tied_model
from course_grader.judging import Fault, Judging, Params, Random, Weighed, Worked, Wrong, is_number, oracle, shown
from course_grader.judging.ranks import on_ranks
from course_grader.judging.tensors import coin_of
from course_grader.records import Case, Outcome

right = Worked("loss-stands-still")
RATE, LENGTH = 0.05, 5
CLOSE = 1e-7  # absolute, in float64: rounding is far below, every known mistake far above
LIMIT = 0.5  # of the norm, which is 1.4 to 7 in the first step


def _maker(params: Params, rng: Random) -> Callable[..., Case]:
    coin = coin_of(rng)

    def case(name: str, share: str, ranks: int, *, steps: int = 2, visible: bool = False, **more: object) -> Case:
        spec = {"seed": rng.randrange(2**31), "hidden": params["width"], "vocab": 11, "layers": 2, "rate": RATE}
        spec |= {"optimizer": "adamw", "most": LIMIT, **more}

        def batch() -> tuple[Tensor, Tensor]:
            row = torch.randint(spec["vocab"], (2, LENGTH + 1), generator=coin)
            return row[:, :-1].clone(), row[:, 1:].clone()

        rows = tuple(([batch() for _ in range(steps)],) for _ in range(ranks))
        return shown(name, share, spec, per_rank=rows, visible=visible)

    return case


def _cases(params: Params, rng: Random) -> list[Case]:
    case = _maker(params, rng)
    return [
        case("three ranks, clipped", "values:weights", 3, visible=True),
        case("two ranks, other data", "values:weights", 2, hidden=params["width"] + 2, vocab=13),
        case("three ranks, nothing to clip", "generality:runs", 3, most=1e6),
        case("one rank alone", "generality:runs", 1, steps=4),
        case("four ranks, three blocks", "generality:runs", 4, layers=3),
    ]


def _near(got: object, want: Tensor) -> bool:
    return isinstance(got, Tensor) and got.shape == want.shape and torch.allclose(got.double(), want, 0, CLOSE)


def _training_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    wants = right.value(case)
    for rank, (row, want) in enumerate(zip(outcome.value, wants, strict=True)):
        got, lead = row["weights"], f"Rank {rank}: "
        told = "" if type(got) is dict else "return (losses, sharded), a list and the FullySharded model."
        if not told and (odd := sorted(map(str, set(got) ^ set(want["weights"])))):
            told = f"the model has other parameters, such as {odd[0]!r}; the head shares the embedding's weights."
        if not told and not all(_near(got[name], weight) for name, weight in want["weights"].items()):
            told = "the weights are not those of one process."
        if told:
            return Wrong("other-weights", lead + told, lead, ("weights",))
    for rank, (row, want) in enumerate(zip(outcome.value, wants, strict=True)):
        pairs = zip(row["losses"], want["losses"], strict=False)
        if len(row["losses"]) != len(want["losses"]) or not all(is_number(a) and abs(a - b) < 1e-6 for a, b in pairs):
            return "other-losses", f"Rank {rank}: the weights are right; return the rank's own losses, one per step."
    return None


def _model_bytes(case: Case) -> int:
    return sum(weight.nbytes for weight in tied_model(**case.args[0]).parameters())


def _state_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    kept, fair = max(row["state"] for row in outcome.value), 2 * _model_bytes(case) / (case.ranks or 1)
    if case.ranks == 1 or kept <= 1.3 * fair + 2048:
        return None
    return "whole-state", f"A rank keeps {kept:,} bytes of optimizer state; its share is {fair:,.0f}."


def _units_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    spec, n, meter = case.args[0], case.ranks or 1, outcome.meter
    steps, fewest, sent = len((case.per_rank or ())[0][0]), min(meter["messages_sent"]), max(meter["bytes_sent"])
    least = (n - 1) * steps * (2 * spec["layers"] + 2)  # rows may be kept until the backward pass
    if fewest < least:
        told = f"A rank sent {fewest} messages; gathering and reducing every block takes at least {least}"
        return "one-giant-unit", f"{told}. Is the model gathered as one unit?"
    model = _model_bytes(case) * (n - 1) / n
    if sent > 4.2 * model * steps + model + 4096 * steps:
        return "too-many-bytes", f"A rank sent {sent:,} bytes; {steps} steps of FSDP take {3 * model * steps:,.0f}."
    return None


def _weighed(params: Params, rng: Random) -> Weighed:
    """1.2 MB of weights on four ranks, with 24 times as much state: a rank holds 6 times the weights; 7.8 are allowed,
    24 are not.

    There is also room for the model as built, all gathered rows and all gradients, and for twice as much again.
    """
    make, ranks, width = _maker(params, rng), 4, 64
    places = torch.randint(2 * width * width, (16,), generator=coin_of(rng))

    def case(name: str, width: int) -> Case:
        made = make(name, "cost:state", ranks, steps=1, hidden=width, layers=3, optimizer="paces", **{WEIGHED: places})
        return replace(made, seconds=30.0)

    def done(outcome: Outcome) -> bool:
        if not on_ranks(outcome, right.value(large), lambda got, want: _near(got, want) and got.dtype == want.dtype):
            return False
        fault = _units_fault(params, large, outcome)  # gathering the weights to look at them takes a third of a step
        return fault is None or fault[0] == "too-many-bytes"

    large, warm = case("four ranks, 1.2 MB of weights with 29 MB of state", width), case("four ranks, few weights", 8)
    most = ranks * (STATE["paces"] / ranks * 1.3 + 3 * 3) * _model_bytes(large)
    return Weighed(case=large, warm=warm, most=most, done=done, shares=("cost:state",))


JUDGING = Judging(
    shares={"values:weights": 0.5, "cost:state": 0.15, "cost:units": 0.15, "generality:runs": 0.2},
    measured_by_worker=("cost:state",),
    weighed=_weighed,
    cases=_cases,
    verdicts=oracle(_training_fault, {"cost:state": _state_fault, "cost:units": _units_fault}),
    why="""Sharding replaces parameters, and an optimizer over the old ones steps tensors that the model no longer uses.
So shard first, then make the optimizer over `shards()`. The norm of one rank's shards is not the norm of the model. A
tensor used in two places belongs to one unit that is gathered for both: here the root.""",
    pytorch="""With `fully_shard` the order is the same: shard, then build the optimizer; `clip_grad_norm_` works on its
DTensors. Since 2.13 it refuses a parameter in two groups; `fully_shard([module_a, module_b])` puts both in one.""",
)

ANSWERS = r'''from torch import nn
from torch.nn import functional as F
from course_lib.parallel import sharding
from course_lib.parallel.sharding import full_gradients, FullySharded
# %% right: worked
def train(comm, build, make, batches, most):
    """This rank's losses and the sharded model, trained as one process would."""
    model = build()
    sharded = FullySharded(comm, model, list(model.blocks))  # tied weights: both uses in the root unit
    optimizer = make(sharded.shards())  # after sharding
    losses = []
    for inputs, targets in batches:
        logits = sharded(inputs)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        sharded.finish()
        sharding.clip_gradients(sharded, most)  # the norm of all parts
        optimizer.step()
        sharded.zero_grad()
        losses.append(loss.item())
    return losses, sharded
# %% right: the norm by hand, another loss, more ahead
# ~ list(model.blocks)) ==> [*model.blocks, model.norm], prefetch=2)
# ~ logits.flatten(0, 1), targets.flatten() ==> logits.transpose(1, 2), targets
# -         sharding.clip_gradients(sharded, most)  # the norm of all parts
# +         square = torch.stack([each.grad.square().sum() for each in sharded.shards()]).sum()
# +         comm.all_reduce(square)
# +         if square.sqrt() > most:
# +             for each in sharded.shards():
# +                 each.grad *= most / (square.sqrt() + 1e-6)
# %% right: half a block to a unit
# ~ list(model.blocks)) ==> [part for block in model.blocks for part in (block.attention, block.mlp)])
# %% right: weights kept after the forward pass
# ~ list(model.blocks)) ==> list(model.blocks), reshard_after_forward=False)
# %% right: the norm of whole gradients
# -         sharding.clip_gradients(sharded, most)  # the norm of all parts
# +         norm = torch.stack([each.norm() for each in full_gradients(sharded).values()]).norm()
# +         if norm > most:
# +             for shard in sharded.shards():
# +                 shard.grad.mul_(most / (norm + 1e-6))
# %% wrong: as it was found => values raised  from: the card
# %% wrong: only the units are put right => values nothing-moves  from: as it was found
# > no weight has changed. Which tensors does the optimizer step, and where are the gradients?
# ~ [model.embedding, *model.blocks, model.head] ==> list(model.blocks)
# %% wrong: each rank clips by its own norm => values own-norm
# > every rank clips by the norm of its own parts. Clip by the norm of the whole model.
# ~ sharding.clip_gradients(sharded, most) ==> nn.utils.clip_grad_norm_(sharded.shards(), most)
# %% wrong: clipping is left out => values not-clipped
# > no gradient was clipped before the optimizer's step.
# -         sharding.clip_gradients(sharded, most)  # the norm of all parts
# %% wrong: the head is untied to calm the error => values ~
#       model = build()
# +     model.head.weight = nn.Parameter(model.embedding.weight.detach().clone())
# ~ list(model.blocks)) ==> [model.embedding, *model.blocks, model.head])
# %% wrong: one giant unit => cost one-giant-unit
# ~ model, list(model.blocks)) ==> model)
# %% wrong: an optimizer made anew in every step => values
# > each step made a new optimizer. Make it once.
# ~ optimizer.step() ==> make(sharded.shards()).step()
# %% wrong: gradients are never dropped => values
# > gradients of earlier steps are still added.
# -         sharded.zero_grad()
# %% wrong: trained without shards, sharded in the end => cost ~
# -     sharded = FullySharded(comm, model, list(model.blocks))  # tied weights: both uses in the root unit
# ~ sharded.shards() ==> model.parameters()
# ~ sharded(inputs) ==> model(inputs)
# -         sharded.finish()
# -         sharding.clip_gradients(sharded, most)  # the norm of all parts
# +         for each in model.parameters():
# +             comm.all_reduce(each.grad, op="AVG")
# +         nn.utils.clip_grad_norm_(model.parameters(), most)
# ~ sharded.zero_grad() ==> optimizer.zero_grad()
# ~ losses, sharded ==> losses, FullySharded(comm, model, list(model.blocks))
# %% wrong: only the losses come back => values other-weights
# ~ losses, sharded ==> losses
# %% wrong: the loss divided by the ranks => values divided-again
# > the gradients are divided by the ranks once more; `FullySharded` has averaged them.
# ~ targets.flatten()) ==> targets.flatten()) / comm.size
# ~ item() ==> item() * comm.size
# %% wrong: the mean of all losses comes back => values other-losses
# -         losses.append(loss.item())
# +         mean = loss.detach().clone()
# +         comm.all_reduce(mean, op="AVG")
# +         losses.append(mean.item())
# %% wrong: an optimizer of the model that was cut => raised
# ~ sharded.shards() ==> model.parameters()
# %% wrong: eleven words in every vocabulary => values raised
# ~ logits.flatten(0, 1) ==> logits.reshape(-1, 11)
'''
