"""Training on the cluster: communication inside backward hooks and checkpoints, equal to one process, and errors that
unwind."""

import threading

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from course_lib.cluster import AVG, Deadlock, RankError, interleavings, simulate
from tests.tables import each_of


def model_of(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).double()


def data_parallel(comm, model, x, overlap):
    """Gradients averaged as they appear: a hook per parameter, waited for at the end."""
    works = []

    def reduce(parameter):
        works.append(comm.all_reduce(parameter.grad, op=AVG, async_op=overlap))

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(reduce)
    model(x).square().mean().backward()
    for work in works:
        if work is not None:
            work.wait()
    return [parameter.grad.clone() for parameter in model.parameters()]


def batches(ranks):
    coin = torch.Generator().manual_seed(1)
    return list(torch.randn(ranks, 4, 6, generator=coin, dtype=torch.float64))


def serial(ranks):
    model = model_of(0)
    model(torch.cat(batches(ranks))).square().mean().backward()
    return [parameter.grad for parameter in model.parameters()]


@each_of("overlap", [False, True])
@each_of("ranks", [1, 3, 8])
def test_gradients_reduced_in_hooks_equal_one_process(ranks, overlap):
    run = simulate(lambda comm, x: data_parallel(comm, model_of(0), x, overlap), ranks, per_rank=batches(ranks))
    for gradients in run.results:
        for got, want in zip(gradients, serial(ranks), strict=True):
            torch.testing.assert_close(got, want)
    count = len(list(model_of(0).parameters()))
    assert run.meter.messages_sent == [2 * (ranks - 1) * count] * ranks


def test_overlapped_reduction_is_safe_under_all_adversaries():
    program = lambda comm, x: data_parallel(comm, model_of(0), x, True)  # noqa: E731
    assert interleavings(program, 3, per_rank=batches(3)) is None


@each_of("reentrant", [False, True])
def test_a_checkpointed_block_may_communicate(reentrant):
    class Total(torch.autograd.Function):
        """Sum over ranks; its gradient passes as it is."""

        @staticmethod
        def forward(ctx, x, comm):
            y = x.clone()
            comm.all_reduce(y)
            return y

        @staticmethod
        def backward(ctx, gradient):
            return gradient, None

    def program(comm, x):
        x = x.clone().requires_grad_()
        y = checkpoint(lambda t: Total.apply(t * t, comm), x, use_reentrant=reentrant)
        y.sum().backward()
        return y.detach(), x.grad

    given = [torch.full((2,), float(rank + 1)) for rank in range(3)]
    run = simulate(program, 3, per_rank=given, account=True)
    for (total, gradient), x in zip(run.results, given, strict=True):
        assert torch.equal(total, torch.full((2,), 14.0)) and torch.equal(gradient, 2 * x)
    # the recomputation repeats the all_reduce, unless torch stops it early: what it needs comes before
    assert run.meter.messages_sent == [8 if reentrant else 4] * 3


def test_a_deadlock_inside_a_backward_hook_unwinds_and_names_the_hooks_line():
    def program(comm):
        x = torch.ones(2, requires_grad=True)
        x.register_hook(lambda gradient: comm.recv(gradient.clone(), (comm.rank + 1) % comm.size) and None)
        (x * 2).sum().backward()

    before = threading.active_count()
    with pytest.raises(Deadlock, match=r"test_cluster_training.py, line .*register_hook"):
        simulate(program, 4)
    assert threading.active_count() == before


def test_an_error_inside_a_backward_hook_is_the_ranks():
    def program(comm):
        x = torch.ones(2, requires_grad=True)
        x.register_hook(lambda gradient: 1 / 0)
        (x * 2).sum().backward()

    with pytest.raises(RankError, match="ZeroDivisionError"):
        simulate(program, 2)


def test_one_ranks_no_grad_is_not_anothers():
    def program(comm):
        x = torch.ones(1, requires_grad=True)
        if comm.rank == 0:
            with torch.no_grad():
                comm.barrier()
                return (x * 2).requires_grad
        comm.barrier()
        return (x * 2).requires_grad

    assert simulate(program, 2).results == [False, True]
