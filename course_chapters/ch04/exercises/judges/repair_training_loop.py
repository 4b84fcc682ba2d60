"""Judge of repair-training-loop: accumulation changed the run."""

import itertools
import json
import random
import statistics
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from course_chapters.ch04.exercises.probes import factor, setting
from course_grader.exercises.values import describe, is_number, near
from course_grader.judging import Fault, Judging, Params, judged
from course_grader.judging.cases import hidden, shown
from course_grader.judging.tensors import all_close, tensor_fault
from course_grader.records import Case, Outcome, Verdict

REL = 1e-5  # PyTorch adds 1e-6 to the norm when it clips, and an answer need not
PAD = -100

BUGS: Mapping[str, str] = {
    "schedule-per-micro-batch": "the schedule moves on once per micro-batch, not once per update",
    "schedule-never": "the schedule never moves on",
    "schedule-first": "the schedule moves on before the update, which then uses the next learning rate",
    "clip-per-micro-batch": "the gradient is clipped before it is complete",
    "not-clipped": "the gradient is not clipped by its global norm",
    "mean-of-means": "the micro-batches' means are averaged, whatever their number of tokens",
    "padding-counted": "divided by all targets; those of -100 do not count",
    "not-divided": "the losses are summed over tokens and never divided",
    "means-added": "the micro-batches' means are added up",
    "step-per-micro-batch": "the optimizer steps once per micro-batch",
    "not-zeroed": "gradients of earlier updates are still there",
    "empty-not-skipped": "an entry without a token that counts still makes an update",
    "empty-moves-schedule": "an entry without a token that counts moves the schedule on",
}
EXCLUSIVE = (
    ("step-per-micro-batch", "not-zeroed"),
    ("schedule-per-micro-batch", "schedule-never", "schedule-first"),
    ("clip-per-micro-batch", "not-clipped"),
    ("mean-of-means", "padding-counted", "not-divided", "means-added"),
    ("empty-not-skipped", "empty-moves-schedule"),
)
AS_PRINTED = ("schedule-per-micro-batch", "clip-per-micro-batch", "mean-of-means")


def run(spec: Mapping[str, Any], bugs: Sequence[str] = ()) -> tuple[list[float], list[Tensor]]:
    """Losses and last weights of the loop with some of its bugs."""
    losses, weights, _ = _run(json.dumps(spec), tuple(bugs))
    return losses, weights


@lru_cache(maxsize=512)
def _run(spec_text: str, bugs: tuple[str, ...]) -> tuple[list[float], list[Tensor], list[float]]:
    """The same, and the norm of every update's gradient before clipping."""
    spec = json.loads(spec_text)
    model, optimizer, _, updates = setting(spec)
    (group,), losses, moved = optimizer.param_groups, list[float](), 0
    first, norms = group["initial_lr"], list[float]()
    for micro_batches in updates:
        counts = [int((targets != PAD).sum()) for _, targets in micro_batches]
        if not sum(counts) and "empty-not-skipped" not in bugs:
            moved += "empty-moves-schedule" in bugs
            continue
        if "not-zeroed" not in bugs:
            optimizer.zero_grad()
        moved += "schedule-first" in bugs
        total = 0.0
        for (inputs, targets), count in zip(micro_batches, counts, strict=True):
            group["lr"] = first * factor(moved)
            loss = functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum")
            share = loss / max(sum(counts), 1)
            if "mean-of-means" in bugs or "means-added" in bugs:
                share = loss / max(count, 1) / (len(micro_batches) if "mean-of-means" in bugs else 1)
            elif "padding-counted" in bugs:
                share = loss / sum(targets.numel() for _, targets in micro_batches)
            elif "not-divided" in bugs:
                share = loss
            share.backward()
            total += share.item()
            if "clip-per-micro-batch" in bugs:
                torch.nn.utils.clip_grad_norm_(model.parameters(), spec["limit"])
            moved += "schedule-per-micro-batch" in bugs
            if "step-per-micro-batch" in bugs:
                optimizer.step()
                optimizer.zero_grad()
        if not {"clip-per-micro-batch", "not-clipped"} & set(bugs):
            norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), spec["limit"]).item())
        group["lr"] = first * factor(moved)
        if "step-per-micro-batch" not in bugs:
            optimizer.step()
        moved += not {"schedule-per-micro-batch", "schedule-never", "schedule-first"} & set(bugs)
        losses.append(total)
    return losses, [parameter.detach() for parameter in model.parameters()], norms


def _combinations() -> list[tuple[str, ...]]:
    """The loop as it was printed, then single bugs, then pairs of two kinds."""
    pairs = [pair for one, two in itertools.combinations(EXCLUSIVE, 2) for pair in itertools.product(one, two)]
    return [AS_PRINTED, *((bug,) for bug in BUGS), *pairs]


def _spec(rng: random.Random, updates: Any, optimizer: str = "sgd", limit: float = 0.5) -> dict[str, Any]:
    return {"seed": rng.randrange(2**31), "updates": updates, "optimizer": optimizer, "limit": limit}


def _between(spec: dict[str, Any]) -> dict[str, Any]:
    """The description with a limit that clips some updates and not others: else a wrong factor would be clipped away."""
    norms = _run(json.dumps({**spec, "limit": 1e9}), ())[2]
    return {**spec, "limit": round(statistics.median(norms), 3)}


def _telling(rng: random.Random, updates: Any) -> dict[str, Any]:
    """A description on which every bug that needs no empty entry leads to other weights."""
    hardest = "clip-per-micro-batch"  # it shows in the fewest draws, so it is tried first
    bugs = sorted((bug for bug in BUGS if not bug.startswith("empty")), key=lambda bug: bug != hardest)
    while True:
        spec = _between(_spec(rng, updates))
        want = run(spec)[1]
        if not any(all_close(run(spec, [bug])[1], want, 1e-3) for bug in bugs):
            return spec


def _cases(params: Params, rng: random.Random) -> list[Case]:
    def update(*lengths: int) -> list[tuple[int, int]]:
        return [(length, rng.randrange(0, length)) for length in lengths]

    shown_updates = [update(3, 7, 4) for _ in range(params["updates"])]
    many = [update(*(rng.randrange(2, 9) for _ in range(rng.randrange(1, 5)))) for _ in range(5)]
    many += [[(3, 1)] * 9, [(40, 3), (2, 1)]]
    empty = [[(4, 1), (3, 6), (6, 2)], update(5, 2), [(2, 4), (3, 6)], [], update(4, 4), [(3, 6), (2, 1)]]
    return [
        shown(f"{params['updates']} updates of 3 micro-batches", "values:weights", _telling(rng, shown_updates)),
        hidden("7 updates of 1 to 9 micro-batches", "generality:sizes", _between(_spec(rng, many))),
        hidden("7 updates with AdamW", "generality:sizes", _spec(rng, many, "adamw", limit=0.05)),
        hidden("7 updates below the limit", "generality:sizes", _spec(rng, many, limit=1e3)),
        hidden("micro-batches without a token", "generality:empty", _between(_spec(rng, empty))),
    ]


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    (spec,), losses, got = case.args, outcome.value["losses"], outcome.value["weights"]
    want_losses, want = run(spec)
    fault = None if all_close(got, want, REL) else _weights_fault(case, spec, got, want)
    told = _loss_fault(case, losses, want_losses)
    if case.kind == "values":
        return judged(case, fault, ("values", "losses", told))
    return judged(case, fault or told)


def _weights_fault(case: Case, spec: Mapping[str, Any], got: Any, want: list[Tensor]) -> Fault:
    if all_close(got, [parameter.detach() for parameter in setting(spec)[0].parameters()], REL):
        return "nothing-moves", f"{case.name}: the weights are those from before the first update."
    for bugs in _combinations():
        found = run(spec, bugs)[1]
        if all_close(got, found, REL) and not all_close(found, want, REL):
            return bugs[0], f"{case.name}: {'; '.join(BUGS[bug] for bug in bugs)}."
    pairs = zip(got, want, strict=False)
    faults = (tensor_fault(f"{case.name}, weight {at}", one, two, rel=REL) for at, (one, two) in enumerate(pairs))
    return next(
        (fault for fault in faults if fault), ("wrong-shape", f"{case.name}: a weight of the model is missing.")
    )


def _loss_fault(case: Case, got: Sequence[Any], want: list[float]) -> Fault | None:
    if len(got) != len(want):
        return "other-count", f"{case.name}: {len(got)} losses came back, and there are {len(want)} updates."
    for update, (one, right) in enumerate(zip(got, want, strict=True), 1):
        one = one.item() if isinstance(one, Tensor) and one.numel() == 1 else one
        if not is_number(one):
            return "not-a-number", f"{case.name}, update {update}: the loss is {describe(one)}; return a number."
        if not near(one, right, 1e-4):
            return (
                "other-loss",
                f"{case.name}, update {update}: the loss is {one / right:.4g} times the mean over all tokens.",
            )
    return None


JUDGING = Judging(
    shares="values:weights 0.4, values:losses 0.1, generality:sizes 0.3, generality:empty 0.2",
    cases=_cases,
    verdicts=_verdicts,
    why="An update is defined by its batch, not by how the batch was cut. The loss must be a sum over tokens divided once, by the tokens of the whole "
    "batch. Clipping is not linear, so it belongs after the last micro-batch. The schedule counts updates. Each bug leaves a loss curve that "
    "looks normal, which is why a test against one large batch finds them and a look at the curve does not.",
    pytorch="transformers passes `num_items_in_batch` to the loss; accelerate's `accelerator.accumulate` makes `optimizer.step()` and "
    "`scheduler.step()` no-ops until the last micro-batch.",
)

ANSWERS = r"""import torch
from torch.nn import functional as F


# %% right: sums over tokens, divided by all of them
def train_loop(model, optimizer, schedule, updates, limit):
    losses = []
    for micro_batches in updates:
        tokens = sum((targets != -100).sum().item() for _, targets in micro_batches)
        if not tokens:
            continue
        optimizer.zero_grad()
        total = 0.0
        for inputs, targets in micro_batches:
            logits = model(inputs)
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum") / tokens
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
        optimizer.step()
        schedule.step()
        losses.append(total)
    return losses


# %% right: the gradient is divided afterwards
def train_loop(model, optimizer, schedule, updates, limit):
    losses = []
    for micro_batches in updates:
        optimizer.zero_grad()
        total, tokens = 0.0, 0
        for inputs, targets in micro_batches:
            picked = model(inputs).log_softmax(-1).gather(-1, targets.clamp(min=0)[..., None])[..., 0]
            loss = -(picked * (targets != -100)).sum()
            loss.backward()
            total, tokens = total + loss.item(), tokens + int((targets != -100).sum())
        if tokens == 0:
            continue
        for parameter in model.parameters():
            parameter.grad /= tokens
        norm = sum(parameter.grad.square().sum() for parameter in model.parameters()).sqrt()
        for parameter in model.parameters():
            parameter.grad *= min(1.0, limit / norm.item())
        optimizer.step()
        schedule.step()
        losses.append(total / tokens)
    return losses


# %% wrong: as it was => values -  from: the card

# %% wrong: the schedule per micro-batch => values schedule-per-micro-batch  from: sums over tokens, divided by all of them
#               total += loss.item()
# +             schedule.step()
# -         schedule.step()

# %% wrong: the schedule first => values schedule-first  from: sums over tokens, divided by all of them
#           total = 0.0
# +         schedule.step()
# -         schedule.step()

# %% wrong: no schedule => values schedule-never  from: sums over tokens, divided by all of them
# -         schedule.step()

# %% wrong: clips every micro-batch => values clip-per-micro-batch  from: sums over tokens, divided by all of them
# -         torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
# +             torch.nn.utils.clip_grad_norm_(model.parameters(), limit)

# %% wrong: does not clip => values not-clipped  from: sums over tokens, divided by all of them
# -         torch.nn.utils.clip_grad_norm_(model.parameters(), limit)


# %% wrong: a mean of means => values mean-of-means  from: sums over tokens, divided by all of them
# -         if not tokens:
# -             continue
# ~ targets.flatten(), reduction="sum") / tokens ==> targets.flatten()) / len(micro_batches)

# %% wrong: the ignored targets count => values padding-counted  from: sums over tokens, divided by all of them
# ~ (targets != -100).sum().item ==> targets.numel

# %% wrong: sums alone => values not-divided  from: sums over tokens, divided by all of them
# ~ reduction="sum") / tokens ==> reduction="sum")

# %% wrong: an update for every micro-batch => values step-per-micro-batch  from: sums over tokens, divided by all of them
# -         torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
# -         optimizer.step()
# +             torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
# +             optimizer.step()
# +             optimizer.zero_grad()

# %% wrong: an entry without a token divides by zero => generality empty-not-skipped  from: sums over tokens, divided by all of them
# -         if not tokens:
# -             continue

# %% wrong: the schedule moves on where nothing happens => generality empty-moves-schedule  from: sums over tokens, divided by all of them
#           if not tokens:
# +             schedule.step()

# %% wrong: a loss for what was skipped => generality other-count  from: sums over tokens, divided by all of them
#           if not tokens:
# +             losses.append(0.0)

# %% wrong: no step => values nothing-moves  from: sums over tokens, divided by all of them
# -         optimizer.step()

# %% wrong: the last micro-batch's loss => values other-loss  from: sums over tokens, divided by all of them
# ~ total += loss ==> total = loss


# %% wrong: left as it is => not-answered  from: sums over tokens, divided by all of them
# ~ losses = [] ==> raise NotImplementedError
"""
