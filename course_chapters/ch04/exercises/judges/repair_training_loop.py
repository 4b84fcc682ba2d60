import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from torch import Tensor

from course_chapters.ch04.exercises.probes import Loop, Updates, setting, trained
from course_grader.exercises.values import describe, is_number, near, tensors_in
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Verdict, Worked, Wrong, hidden, judged, shown
from course_grader.judging.shipped import answers
from course_grader.judging.tensors import all_close, squares, tensor_fault

REL = 1e-5  # PyTorch adds 1e-6 to the norm when it clips, and an answer need not
right = Worked("repair-training-loop")


def _spec(rng: random.Random, updates: Updates, optimizer: str = "sgd", limit: float = 0.5) -> Loop:
    return {"seed": rng.randrange(2**31), "updates": updates, "optimizer": optimizer, "limit": limit}


def _between(spec: Loop) -> Loop:
    """The description with a limit that clips some updates and not others: else a wrong factor would be clipped
    away."""
    model, optimizer, schedule, updates = setting(spec)
    norms = list[float]()
    optimizer.register_step_pre_hook(
        lambda *_: norms.append(squares(p.grad for p in model.parameters() if p.grad is not None) ** 0.5)
    )
    right(model, optimizer, schedule, updates, 1e9)
    return {**spec, "limit": round(statistics.median(norms), 3)}


def _weights(loop: Callable[..., object], spec: Mapping[str, object]) -> list[Tensor]:
    return tensors_in(trained(loop, Case(name="", args=(spec,)))["weights"])


def _telling(rng: random.Random, updates: Updates) -> Loop:
    """A description on which every shipped bug that needs no empty entry leads to other weights."""
    bugs = [
        partial(right.wrong, each.name) for each in answers(right.exercise) if each.says and each.expected == "values"
    ]
    while True:
        spec = _between(_spec(rng, updates))
        want = _weights(right, spec)
        if not any(all_close(_weights(bug, spec), want, 1e-3) for bug in bugs):
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
    want, got = right.value(case), outcome.value
    fault = _weights_fault(case, got["weights"], want["weights"])
    told = _loss_fault(case, got["losses"], want["losses"])
    if case.kind == "values":
        return judged(case, fault, ("values", "losses", told))
    return judged(case, fault or told)


def _weights_fault(case: Case, got: list[Tensor], want: list[Tensor]) -> Fault | None:
    if all_close(got, [parameter.detach() for parameter in setting(case.args[0])[0].parameters()], REL):
        return "nothing-moves", f"{case.name}: the weights are those from before the first update."
    if len(got) != len(want):
        return "wrong-shape", f"{case.name}: a weight of the model is missing."
    for at, (one, like) in enumerate(zip(got, want, strict=True)):
        if fault := tensor_fault(f"{case.name}, weight {at}", one, like, rel=REL):
            return Wrong(*fault)._replace(lead=f"{case.name}: ", where=("weights",))
    return None


def _loss_fault(case: Case, got: Sequence[object], want: list[float]) -> Fault | None:
    if len(got) != len(want):
        return "other-count", f"{case.name}: {len(got)} losses came back, and there are {len(want)} updates."
    for update, (one, like) in enumerate(zip(got, want, strict=True), 1):
        one = one.item() if isinstance(one, Tensor) and one.numel() == 1 else one
        if not is_number(one):
            return "not-a-number", f"{case.name}, update {update}: the loss is {describe(one)}; return a number."
        if not near(one, like, 1e-4):
            told = f"{case.name}, update {update}: the loss is {one / like:.4g} times the mean over all tokens."
            return "other-loss", told
    return None


JUDGING = Judging(
    shares="values:weights 0.4, values:losses 0.1, generality:sizes 0.3, generality:empty 0.2",
    cases=_cases,
    verdicts=_verdicts,
    why="An update is defined by its batch, not by how the batch was cut. The loss must be a sum over tokens divided "
    "once, by the tokens of the whole batch. Clipping is not linear, so it belongs after the last micro-batch. "
    "The schedule counts updates. Each bug leaves a loss curve that looks normal, which is why a test against one "
    "large batch finds them and a look at the curve does not.",
    pytorch="transformers passes `num_items_in_batch` to the loss; accelerate's `accelerator.accumulate` makes "
    "`optimizer.step()` and `scheduler.step()` no-ops until the last micro-batch.",
)

ANSWERS = r'''from torch.nn import functional as F
# %% right: worked
def train_loop(model, optimizer, schedule, updates, limit: float) -> list[float]:
    """The mean loss of every update; one optimizer step and one schedule step for each."""
    losses = []
    for micro_batches in updates:
        tokens = sum((targets != -100).sum().item() for _, targets in micro_batches)
        if not tokens:
            continue
        optimizer.zero_grad()
        total = 0.0
        for inputs, targets in micro_batches:
            logits = model(inputs).flatten(0, 1)
            loss = F.cross_entropy(logits, targets.flatten(), ignore_index=-100, reduction="sum") / tokens
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
# %% wrong: clips every micro-batch => values clip-per-micro-batch
# > the gradient is clipped before it is complete.
# -         torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
# +             torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
# %% wrong: as it was => values schedule-per-micro-batch  from: the card
# > the schedule moves on and the gradient is clipped once per micro-batch; means are averaged, whatever their number of
# > tokens.
# %% wrong: only the schedule is repaired => values clip-per-micro-batch  from: the card
# > the gradient is clipped before it is complete, and means are averaged, whatever their number of tokens.
# -             schedule.step()
#           optimizer.step()
# +         schedule.step()
# %% wrong: only the clipping is repaired => values schedule-per-micro-batch  from: the card
# > the schedule moves on once per micro-batch, and means are averaged, whatever their number of tokens.
# -             torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
#               schedule.step()
# +         torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
# %% wrong: only the mean is repaired => values schedule-per-micro-batch
# > the schedule moves on once per micro-batch, and the gradient is clipped before it is complete.
# -         torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
# +             torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
# +             schedule.step()
# -         schedule.step()
# %% wrong: the schedule per micro-batch => values schedule-per-micro-batch
# > the schedule moves on once per micro-batch, not once per update.
#               total += loss.item()
# +             schedule.step()
# -         schedule.step()
# %% wrong: the schedule first => values schedule-first
# > the schedule moves on before the update, which then uses the next learning rate.
#           total = 0.0
# +         schedule.step()
# -         schedule.step()
# %% wrong: no schedule => values schedule-never
# > the schedule never moves on.
# -         schedule.step()
# %% wrong: does not clip => values not-clipped
# > the gradient is not clipped by its global norm.
# -         torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
# %% wrong: a mean of means => values mean-of-means
# > the micro-batches' means are averaged, whatever their number of tokens.
# -         if not tokens:
# -             continue
# ~ reduction="sum") / tokens ==> reduction="mean") / len(micro_batches)
# %% wrong: the ignored targets count => values padding-counted
# > the loss is divided by all targets; those of -100 do not count.
# ~ (targets != -100).sum().item ==> targets.numel
# %% wrong: sums alone => values not-divided
# > the losses are summed over tokens and never divided.
# ~ reduction="sum") / tokens ==> reduction="sum")
# %% wrong: a sum of means => values means-added
# > the micro-batches' means are added up.
# ~ reduction="sum") / tokens ==> reduction="mean")
# %% wrong: an update for every micro-batch => values step-per-micro-batch
# > the optimizer steps once per micro-batch.
# -         torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
# -         optimizer.step()
# +             torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
# +             optimizer.step()
# +             optimizer.zero_grad()
# %% wrong: gradients are never zeroed => values not-zeroed
# > gradients of earlier updates are still there.
# -         optimizer.zero_grad()
# %% wrong: an entry without a token divides by zero => generality empty-not-skipped
# > an entry without a token that counts still makes an update.
# -         if not tokens:
# -             continue
# %% wrong: the schedule moves on where nothing happens => generality empty-moves-schedule
# > an entry without a token that counts moves the schedule on.
#           if not tokens:
# +             schedule.step()
# %% wrong: a loss for what was skipped => generality other-count
#           if not tokens:
# +             losses.append(0.0)
# %% wrong: no step => values nothing-moves
# -         optimizer.step()
# %% wrong: the last micro-batch's loss => values other-loss
# ~ total += loss ==> total = loss
'''
