"""torch.distributed inside a run: the same results, bytes and clock as the communicator, and the same reports."""

import threading

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed import distributed_c10d as c10d
from torch.distributed import init_process_group
from torch.distributed.tensor import Shard, distribute_tensor

from course_lib.cluster import Deadlock, InFlight, Mismatch, P2POp, RankError, interleavings, simulate
from tests.tables import each_of

RANKS = 4


def _row(rank: int, length: int = RANKS) -> torch.Tensor:
    return torch.arange(float(length)) + 10 * rank


def _ring(net, comm, start):
    """Pass a row around the ring in one batch; `start` makes the operations of the net."""
    into, next_rank = torch.empty(RANKS), (comm.rank + 1) % comm.size
    batch = [start(net.irecv, into, (comm.rank - 1) % comm.size), start(net.isend, _row(comm.rank), next_rank)]
    for work in net.batch_isend_irecv(batch):
        work.wait()
    return into


def _pair(net, comm):
    into = torch.empty(RANKS)
    if comm.rank % 2:
        return net.recv(into, comm.rank - 1), into
    return net.send(_row(comm.rank), comm.rank + 1)


def _later(net, comm):
    x, y = _row(comm.rank), _row(comm.rank)
    works = [net.all_reduce(x, async_op=True), net.broadcast(y, 2, async_op=True)]
    return [work.wait() for work in works], x, y


def _into(call, comm, *shape: int):
    """The tensor that a collective fills from this rank's row."""
    output = torch.empty(*shape)
    call(output, _row(comm.rank))
    return output


def _list(call, comm, root: int | None = None):
    """The list that a collective fills from this rank's row: on every rank, or at the root."""
    into = [torch.empty(RANKS) for _ in range(comm.size)] if root in (None, comm.rank) else None
    call(into, _row(comm.rank)) if root is None else call(_row(comm.rank), into, root)
    return into


def _scattered(net, comm):
    into, parts = torch.empty(RANKS), [_row(rank) for rank in range(comm.size)]
    net.scatter(into, parts if comm.rank == 1 else None, 1)
    return into


def _in_place(call, comm, *args, **options):
    x = _row(comm.rank)
    call(x, *args, **options)
    return x


@each_of(
    "what, program",
    ("all_reduce", lambda net, comm: _in_place(net.all_reduce, comm)),
    ("average", lambda net, comm: _in_place(net.all_reduce, comm, _op(net, "AVG"))),
    ("largest", lambda net, comm: _in_place(net.all_reduce, comm, op=_op(net, "MAX"))),
    ("broadcast", lambda net, comm: _in_place(net.broadcast, comm, 2)),
    ("reduce", lambda net, comm: _in_place(net.reduce, comm, 1)),
    ("gather", lambda net, comm: _list(net.gather, comm, 3)),
    ("scatter", _scattered),
    ("all_gather", lambda net, comm: _list(net.all_gather, comm)),
    ("all_gather_into_tensor", lambda net, comm: _into(net.all_gather_into_tensor, comm, RANKS * RANKS)),
    ("reduce_scatter_tensor", lambda net, comm: _into(net.reduce_scatter_tensor, comm, 1)),
    ("all_to_all_single", lambda net, comm: _into(net.all_to_all_single, comm, RANKS)),
    ("barrier", lambda net, comm: net.barrier()),
    ("send and recv", _pair),
    ("batch", lambda net, comm: _ring(net, comm, P2POp if net is comm else dist.P2POp)),
    ("async", _later),
)
def test_it_is_the_communicator(what, program):
    """Each operation gives the values, bytes, rounds and virtual seconds of the same operation of `comm`."""
    through_torch = simulate(lambda comm: program(dist, comm), RANKS)
    own = simulate(lambda comm: program(comm, comm), RANKS)
    assert str(through_torch.results) == str(own.results)
    assert through_torch.meter.as_dict() == own.meter.as_dict() or what == "send and recv"  # torch's are isend, wait
    assert through_torch.meter.pairs == own.meter.pairs and through_torch.seconds == own.seconds


def _op(net, name: str):
    return getattr(dist.ReduceOp, name) if net is dist else name


def _objects(rank: int, ranks: int):
    found, shared = [None] * ranks, ["here" if rank == 1 else None]
    dist.all_gather_object(found, {"rank": rank})
    dist.broadcast_object_list(shared, src=1)
    given = [None]
    dist.scatter_object_list(given, [f"for {r}" for r in range(ranks)] if rank == 0 else None, src=0)
    at_root = [None] * ranks if rank == 2 else None
    dist.gather_object(rank, at_root, dst=2)
    assert at_root == (list(range(ranks)) if rank == 2 else None)
    assert found == [{"rank": r} for r in range(ranks)] and shared == ["here"] and given == [f"for {rank}"]


def _lists(rank: int, ranks: int):
    outputs = [torch.empty(rank + 1) for _ in range(ranks)]
    dist.all_to_all(outputs, [torch.full((r + 1,), float(rank)) for r in range(ranks)])
    assert [out.tolist() for out in outputs] == [[float(r)] * (rank + 1) for r in range(ranks)]
    output = torch.empty(2)
    dist.reduce_scatter(output, [torch.full((2,), float(r)) for r in range(ranks)])
    assert output.tolist() == [rank * ranks] * 2


def _coalesced(rank: int, ranks: int):
    one, two, whole = torch.ones(3) * rank, torch.ones(5), torch.empty(2 * ranks)
    with c10d._coalescing_manager():
        dist.all_reduce(one)
        dist.all_reduce(two)
    with c10d._coalescing_manager(async_ops=True) as manager:
        dist.all_gather_into_tensor(whole, torch.full((2,), float(rank)))
    manager.wait()
    part = torch.empty(2)
    with c10d._coalescing_manager():
        dist.reduce_scatter_tensor(part, whole)
    assert one.tolist() == [ranks * (ranks - 1) / 2] * 3 and two.tolist() == [ranks] * 5
    assert part.tolist() == [rank * ranks] * 2


def _groups(rank: int, ranks: int):
    pair = dist.new_group([0, ranks - 1])
    own = dist.new_group([rank], use_local_synchronization=True)  # only its members call it
    x = torch.ones(2)
    if rank in (0, ranks - 1):
        dist.all_reduce(x, group=pair)
        assert (dist.get_rank(pair), dist.get_world_size(pair)) == (int(rank > 0), 2)
    assert x.tolist() == ([2, 2] if rank in (0, ranks - 1) else [1, 1]) and own.size() == 1
    mesh = dist.init_device_mesh("cpu", (2, ranks // 2), mesh_dim_names=("dp", "tp"))
    total = functional.all_reduce(torch.ones(3) * rank, "sum", mesh["tp"]) + 1  # by the group's name, which ranks share
    row = rank // (ranks // 2) * (ranks // 2)
    assert total.tolist() == [1 + sum(range(row, row + ranks // 2))] * 3


def _uneven(rank: int, ranks: int):
    """torch caches by mesh how to redistribute: here the meshes of all ranks are equal, and their parts are not."""
    mesh, whole = dist.init_device_mesh("cpu", (2, ranks // 2)), torch.arange(15.0).reshape(5, 3)
    parts = distribute_tensor(whole, mesh, [Shard(0), Shard(0)])
    assert torch.equal(parts.full_tensor(), whole)
    assert torch.equal(parts.redistribute(mesh, [Shard(1), Shard(0)]).full_tensor(), whole)


def _any_source(rank: int, ranks: int):
    into = torch.empty(1)
    if rank:
        dist.send(torch.full((1,), float(rank)), 0)
    else:
        sources = {dist.recv(into) for _ in range(ranks - 1)}
        assert sources == set(range(1, ranks))


def _start_and_end(rank: int, ranks: int):
    assert dist.is_initialized() and dist.get_backend() == "metered"
    init_process_group("nccl", init_method="tcp://10.0.0.1:1234", rank=0, world_size=999)
    assert (dist.get_rank(), dist.get_world_size()) == (rank, ranks)
    dist.destroy_process_group()
    assert not dist.is_initialized()
    init_process_group()
    dist.barrier()


PROGRAMS = [_objects, _lists, _coalesced, _groups, _any_source, _start_and_end, _uneven, _uneven]


@each_of("program", PROGRAMS, ids=lambda program: program.__name__)
def test_more_of_torch(program):
    """What `comm` has no name for works too, beside operations of `comm` on the same group."""

    def both(comm):
        comm.barrier()
        program(comm.rank, comm.size)
        return comm.all_reduce(torch.ones(1))

    simulate(both, RANKS)


def _too_early(comm):
    x = torch.ones(3)
    work = dist.all_reduce(x, async_op=True)
    doubled = x * 2
    work.wait()
    return doubled


def _one_backward(comm):
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
    out = model(torch.ones(2)).sum()
    if comm.rank == 0:
        out.backward()


@each_of(
    "program, error, words",
    (lambda comm: dist.recv(torch.empty(2), 1 - comm.rank), Deadlock, "cycle: 0 → 1 → 0"),
    (lambda comm: dist.all_reduce(torch.ones(2 + comm.rank)), Mismatch, "shape differs in collective number 1"),
    (lambda comm: comm.rank or dist.barrier(), Deadlock, "rank 0 waits for rank 1"),
    (_too_early, InFlight, "read a tensor in flight"),
    (_one_backward, Deadlock, "out.backward()"),
    (lambda comm: dist.all_reduce(torch.ones(2), dist.ReduceOp.BAND), RankError, "bitwise operations"),
    (lambda comm: c10d._get_default_store().get("nothing"), RankError, "Wait timeout"),
)
def test_it_reports_as_the_communicator_does(program, error, words):
    """Deadlocks, mismatches and early uses, with the line of the program, also from inside a backward pass."""
    with pytest.raises(error, match=words) as caught:
        simulate(program, 2)
    assert error is RankError or "test_cluster_torch.py, line" in str(caught.value)


def test_under_adversaries():
    """A batch has no order among its messages; what is read before it has arrived differs."""
    assert interleavings(lambda comm: _ring(dist, comm, dist.P2POp), 3) is None
    assert interleavings(_too_early, 3) is not None


def test_nothing_is_left():
    """After a run, torch.distributed is as it was; a thread that is no rank finds the process's own groups."""
    before = c10d._world, c10d.batch_isend_irecv.__code__

    def program(comm):
        seen = []
        thread = threading.Thread(target=lambda: seen.append(dist.is_initialized()))
        thread.start()
        thread.join()
        dist.barrier()
        return seen

    assert simulate(program, 2).results == [[False], [False]] and not dist.is_initialized()
    assert (c10d._world, c10d.batch_isend_irecv.__code__) == before
    with pytest.raises(RuntimeError, match=r"simulate\(fn, ranks=4\)"):
        dist.init_process_group("metered", store=dist.HashStore(), rank=0, world_size=1)
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        dist.barrier()
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # torch's own function
    dist.destroy_process_group()
