"""What lies between the parts and the communicator: the learner's own ring, single-rank groups, exchanges with
gradients."""

import torch
from torch import Tensor


class Ringed:
    """A communicator whose blocking sums and means travel by the part `ring_all_reduce`; everything else is the
    communicator's."""

    def __init__(self, comm, ring) -> None:
        self._comm, self._ring = comm, ring

    def __getattr__(self, name: str):
        return getattr(self._comm, name)

    def all_reduce(self, tensor: Tensor, op: str = "SUM", async_op: bool = False):
        """As the communicator's; sums and means of floating-point tensors go around the ring unless they are
        asynchronous."""
        own = isinstance(tensor, torch.Tensor) and tensor.is_floating_point() and op in ("SUM", "AVG") and not async_op
        if not own:
            return self._comm.all_reduce(tensor, op=op, async_op=async_op)
        with torch.no_grad():
            total = self._ring(self._comm, tensor.detach().clone())
            tensor.detach().copy_(total / self._comm.size if op == "AVG" else total)
        return None

    def new_group(self, ranks) -> "Ringed":
        """A communicator of these ranks, with the same ring."""
        return Ringed(self._comm.new_group(ranks), self._ring)


def group_of(comm, groups):
    """This rank's communicator among `groups`, lists of ranks; every rank makes all of them in one order."""
    mine = None
    for ranks in groups:
        made = comm.new_group(sorted(ranks))
        if comm.rank in ranks:
            mine = made
    return mine


def alone(comm):
    """A communicator of this rank alone."""
    return group_of(comm, [[rank] for rank in range(comm.size)])


class _Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, comm, send, receive):
        ctx.comm, ctx.send, ctx.receive = comm, send, receive
        return _exchanged(comm, rows, send, receive)

    @staticmethod
    def backward(ctx, grad):
        return _exchanged(ctx.comm, grad, ctx.receive, ctx.send), None, None, None


def _exchanged(comm, rows: Tensor, send, receive) -> Tensor:
    width = rows.shape[1]
    arrived = rows.new_empty(sum(receive), width)
    comm.all_to_all_single(
        arrived.view(-1),
        rows.detach().contiguous().view(-1),
        [count * width for count in receive],
        [count * width for count in send],
    )
    return arrived


def exchange_over(comm):
    """`exchange(rows, send, receive)` with gradients: send[j] rows go to rank j, receive[i] rows come from rank i."""

    def exchange(rows: Tensor, send, receive) -> Tensor:
        return _Exchange.apply(rows, comm, list(send), list(receive))

    return exchange
