"""Gradients that several ranks hold: averaged over replicas, summed over tied parameters, counted once in a norm."""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

import torch
from torch import Tensor, nn

from course_lib.cluster import AVG, Comm, P2POp
from course_lib.parallel.schedules import Schedule

Tie = Sequence[tuple[int, str]]  # (stage, parameter's name)s that are one parameter


def parameters_of(stages: Mapping[int, nn.Module]) -> list[nn.Parameter]:
    """The parameters of a rank's stages, each once."""
    return list({id(p): p for stage in stages.values() for p in stage.parameters()}.values())


def gradient_norm(comm: Comm, schedule: Schedule, stages: Mapping[int, nn.Module], ties: Sequence[Tie] = ()) -> float:
    """The norm of all gradients of the model, the same on every rank; a parameter on several ranks counts once."""
    elsewhere = set()
    for tie in shared(schedule, stages, ties):
        if min(_holders(schedule, tie)) < comm.rank:
            elsewhere |= {id(each) for each in _here(stages, tie)}
    mine = [p.grad for p in parameters_of(stages) if p.grad is not None and id(p) not in elsewhere]
    total = sum((grad.double().square().sum() for grad in mine), torch.zeros((), dtype=torch.float64)).reshape(1)
    comm.all_reduce(total)
    return total.sqrt().item()


def sync_places(schedule: Schedule, rank: int, stages: Mapping[int, nn.Module]) -> dict[int, list[nn.Parameter]]:
    """The parameters whose gradients are complete after each position of a row: every stage has its own last
    backward."""
    last = schedule.last_backward(rank)
    place: dict[nn.Parameter, int] = {}
    for stage, module in stages.items():
        for parameter in module.parameters():  # a parameter of two stages is complete after the later one
            place[parameter] = max(last[stage], place.get(parameter, 0))
    found: dict[int, list[nn.Parameter]] = {}
    for parameter, at in place.items():
        found.setdefault(at, []).append(parameter)
    return found


class Average:
    """The mean of some gradients over replicas, computed while the row continues."""

    def __init__(self, replicas: Comm, parameters: list[nn.Parameter]) -> None:
        self.parameters = parameters
        self.flat = torch.cat([_grad(each).flatten() for each in parameters])
        self.work = replicas.all_reduce(self.flat, AVG, async_op=True)

    def wait(self) -> None:
        """The gradients are the mean when this returns."""
        assert self.work is not None
        self.work.wait()
        for parameter, mean in zip(self.parameters, self.flat.split([p.numel() for p in self.parameters]), strict=True):
            parameter.grad = mean.view_as(parameter)


def shared(schedule: Schedule, stages: Mapping[int, nn.Module], ties: Sequence[Tie]) -> list[Tie]:
    """The ties of this rank: those given, and every parameter of a stage that another rank holds too."""
    found = [tie for tie in ties if any(stage in stages for stage, _ in tie)]
    if len(schedule.routes) > 1:
        given = {tuple(place) for tie in ties for place in tie}
        places = {(stage, name) for stage, module in stages.items() for name, _ in module.named_parameters()}
        found += [(place,) for place in sorted(places - given)]  # sorted: both ranks of a pair use the same order
    return found


def check_empty(stages: Mapping[int, nn.Module], ties: Sequence[Tie]) -> None:
    """Refuse a tied gradient of an earlier step: it is a sum already and would be summed again."""
    for tie in ties:
        for parameter in _here(stages, tie):
            if parameter.grad is not None and bool(parameter.grad.any()):
                raise ValueError(
                    f"{tie[0][1]} of stage {tie[0][0]} is on several stages and has a gradient already; call "
                    "optimizer.zero_grad() before each step: sums over stages cannot be added to."
                )


def _holders(schedule: Schedule, tie: Tie) -> list[int]:
    return sorted({route[stage] for route in schedule.routes for stage, _ in tie})


def _here(stages: Mapping[int, nn.Module], tie: Tie) -> list[nn.Parameter]:
    """This rank's parameters of a tie; one with two names counts once."""
    found = [stages[stage].get_parameter(name) for stage, name in tie if stage in stages]
    return list({id(each): each for each in found}.values())


@torch.no_grad()
def add_up(comm: Comm, schedule: Schedule, stages: Mapping[int, nn.Module], tie: Tie) -> None:
    """The sum of a tied parameter's gradients, on every rank that holds it, in the same order of addition
    everywhere."""
    mine = _here(stages, tie)
    own = _sum(_grad(each) for each in mine).contiguous()
    parts = {rank: torch.empty_like(own) for rank in _holders(schedule, tie)}
    parts[comm.rank] = own
    others = [rank for rank in parts if rank != comm.rank]
    halves = [P2POp(comm.isend, own, rank) for rank in others] + [
        P2POp(comm.irecv, parts[rank], rank) for rank in others
    ]
    for work in comm.batch_isend_irecv(halves) if halves else ():
        work.wait()
    total = _sum(parts[rank] for rank in sorted(parts))
    for each in mine:
        each.grad = total.clone()


def _sum(tensors: Iterable[Tensor]) -> Tensor:
    return reduce(torch.add, tensors)


def _grad(parameter: nn.Parameter) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
