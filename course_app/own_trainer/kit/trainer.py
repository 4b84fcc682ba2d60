"""What all layouts share: the data, the schedule, the update, and the state that a checkpoint keeps."""

import torch
from torch import Tensor

from . import batches, model
from .model import Model
from .optimizer import Optimizer, Schedule
from .settings import Settings
from .wire import Ringed


class Trainer:
    """One rank of a training. A layout says which weights the rank holds and how a step makes their gradients.

    A layout gives `step_gradients(ids)`, which returns (loss over the whole batch, norm before clipping) and leaves
    clipped gradients in `.grad`. Its `weights()` are those that this rank holds.
    """

    def __init__(self, comm, s: Settings, parts, device: str = "cpu") -> None:
        if s.sequences % comm.size:
            raise ValueError(f"{s.sequences} sequences cannot be shared evenly by {comm.size} ranks.")
        self.s, self.parts, self.device = s, parts, device
        self.plain, self.comm = comm, Ringed(comm, parts.ring_all_reduce)
        self.data_rank, self.data_ranks = self.place()
        self.model = Model(self.weights()).to(device)
        self.schedule = Schedule(parts.learning_rate, s)
        self.order, self.position = batches.order(0), 0  # an epoch's ids; ids that all ranks have read
        self.generator = torch.Generator(device="cpu").manual_seed(s.seed)
        self.average: list[Tensor] = []
        self.scale: dict[str, float] = {"value": 1.0, "clean": 0}
        self.prepare()
        self.optimizer = self.make_optimizer()

    def place(self) -> tuple[int, int]:
        """(this rank's number, number of ranks) among those that read different data."""
        return self.comm.rank, self.comm.size

    def weights(self) -> dict[str, Tensor]:
        """The weights that this rank holds, by name."""
        return model.initial_weights(self.s)

    def prepare(self) -> None:
        """What a layout sets up once, such as hooks and groups."""

    def make_optimizer(self):
        """The optimizer over this rank's weights."""
        return Optimizer(self.parts.adamw, self.model.parameters(), self.s)

    def step_gradients(self, ids: list[int]) -> tuple[float, float]:
        """Leave clipped gradients in `.grad`; (mean loss of the whole batch, norm before clipping)."""
        raise NotImplementedError

    def set_rate(self, rate: float) -> None:
        """The learning rate of the next update."""
        self.optimizer.set_rate(rate)

    def step(self) -> tuple[float, float]:
        """One update; (mean loss of the whole batch before it, norm of the gradient before clipping)."""
        size = len(self.order)
        ids, self.position = self.parts.take(
            lambda epoch: [each + epoch * size for each in self.order],
            self.position,
            self.s.sequences,
            self.data_rank,
            self.data_ranks,
        )
        loss, norm = self.step_gradients(ids)
        self.set_rate(self.schedule.next())
        self.update()
        self.model.zero_grad(set_to_none=True)
        return loss, norm

    def update(self) -> None:
        """Change the weights by their gradients."""
        self.optimizer.step()

    # --- what layouts use

    def rows(self, ids: list[int]) -> tuple[Tensor, Tensor]:
        """Tokens and targets of these samples, on this rank's device."""
        tokens, targets = batches.rows(ids, self.s.seq, 0)
        return tokens.to(self.device), targets.to(self.device)

    def positions(self) -> Tensor:
        """All positions of a sequence."""
        return torch.arange(self.s.seq, device=self.device)

    def mean(self, loss: Tensor, comm=None) -> float:
        """The mean of every rank's loss."""
        value = loss.detach().clone().reshape(1)
        (comm or self.comm).all_reduce(value, op="AVG")
        return value.item()

    def gradients(self) -> dict[str, Tensor]:
        """Every gradient by the name of its weight."""
        return {name: weight.grad for name, weight in self.model.named().items() if weight.grad is not None}

    def clip_whole(self) -> float:
        """Clip gradients of which this rank holds all, by the part `clip`; their norm before."""
        shard = self.gradients()
        norm = float(self.parts.clip([shard], self.s.most, set()))
        for name, grad in shard.items():
            self.model[name].grad = grad
        return norm

    def clip_on_mesh(self, sizes: dict[str, int], axes_of) -> float:
        """Clip by the norm over the mesh `sizes`; `axes_of(name)` are the axes over which a weight is sharded."""
        grads = self.gradients()
        norm = float(self.parts.mesh_norm(self.comm, sizes, [(grad, axes_of(name)) for name, grad in grads.items()]))
        if norm > self.s.most:
            for grad in grads.values():
                grad.mul_(self.s.most / norm)
        return norm
