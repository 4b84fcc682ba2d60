"""launch: the same functions on real processes, which come from one idle server and never outlive the call."""

import os
import pickle
import signal
import threading
import time
from types import SimpleNamespace

import pytest
import torch
from cluster_programs import ring_all_reduce

from course_lib.cluster import AVG, MAX, P2POp, RankError, Unfinished, simulate
from course_runs.real_ranks import gloo, launch, launcher
from tests.tables import each_alone, each_of

LIMIT = 60.0


def everything(comm, x):
    """Every operation once; the same on the metered cluster and on processes."""
    r, n = comm.rank, comm.size
    out = {}
    comm.all_reduce(x)
    out["all_reduce"] = x.clone()
    strided = torch.full((2, 4), float(r))[:, ::2]
    comm.all_reduce(strided, op=MAX)
    out["strided"] = strided.clone()
    mean = torch.full((2,), float(r))
    comm.all_reduce(mean, op=AVG)
    out["mean"] = mean
    shared = torch.full((2,), float(r))
    comm.broadcast(shared, n - 1)
    out["broadcast"] = shared
    total = torch.full((2,), float(r))
    comm.reduce(total, 0)
    out["reduce"] = total
    whole = torch.zeros(2 * n)
    work = comm.all_gather_into_tensor(whole, torch.full((2,), float(r)), async_op=True)
    work.wait()
    out["all_gather_into_tensor"] = whole
    parts = [torch.zeros(2) for _ in range(n)]
    comm.all_gather(parts, torch.full((2,), float(r)))
    out["all_gather"] = torch.stack(parts)
    part = torch.zeros(2)
    comm.reduce_scatter_tensor(part, whole)
    out["reduce_scatter_tensor"] = part
    found = [torch.zeros(1) for _ in range(n)] if r == 0 else None
    comm.gather(torch.tensor([float(r)]), found, dst=0)
    mine = torch.zeros(1)
    comm.scatter(mine, [t * 2 for t in found] if found else None, src=0)
    out["scatter"] = mine
    takes, gives = [src + 1 for src in range(n)], [r + 1] * n
    rows = torch.zeros(sum(takes), 2)
    comm.all_to_all_single(rows, torch.full((sum(gives), 2), float(r)), takes, gives)
    out["all_to_all_single"] = rows
    y = torch.zeros(2)
    works = comm.batch_isend_irecv([P2POp(comm.isend, shared + r, (r + 1) % n), P2POp(comm.irecv, y, (r - 1) % n)])
    for work in works:
        work.wait()
    out["batch"] = y
    sub = comm.new_group([n - 1, 0])
    if sub.rank >= 0:
        z = torch.tensor([float(sub.rank + 1)])
        sub.all_reduce(z)
        both = torch.zeros(sub.size)
        sub.all_gather_into_tensor(both, torch.tensor([float(r)]))
        out["sub-group"] = torch.cat([z, both])
    comm.barrier()
    return out


def test_every_operation_gives_the_same_as_on_the_metered_cluster():
    given = [torch.arange(5.0) + rank for rank in range(3)]
    real = launch(everything, 3, per_rank=given, timeout=LIMIT).results
    metered = simulate(everything, 3, per_rank=given).results
    for one, two in zip(real, metered, strict=True):
        assert list(one) == list(two)
        assert all(torch.equal(one[name], two[name]) for name in one), [
            n for n in one if not torch.equal(one[n], two[n])
        ]


class OnGpu(torch.Tensor):
    """A tensor of the device that is not there; it lies on the CPU."""


def device_only(comm, x):
    """`everything` with a backend that, like NCCL, takes nothing but tensors of the rank's device."""
    import torch.distributed as dist

    gpu, moved = torch.device("cpu", 1), torch.Tensor.to

    def to(tensor, *where, **how):
        return moved(tensor, *where, **how).as_subclass(OnGpu if where == (gpu,) else type(tensor))

    def inside(value):
        if isinstance(value, (list, tuple)):
            return type(value)(map(inside, value))
        if isinstance(value, torch.Tensor):
            assert isinstance(value, OnGpu), "a tensor that is not on this rank's device"
            return value.as_subclass(torch.Tensor)
        return value

    def taking(operation):
        return lambda *given, **named: operation(*map(inside, given), **named)

    reductions, exchanges = ("reduce", "all_reduce"), ("gather", "scatter", "all_gather", "all_to_all_single")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(torch.Tensor, "to", to)
        for name in ("isend", "irecv", "broadcast", *reductions, *exchanges):
            patched.setattr(dist, name, taking(getattr(dist, name)))
        for name in ("_all_gather", "_reduce_scatter"):
            patched.setattr(gloo, name, taking(getattr(gloo, name)))
        direct = SimpleNamespace(send=taking(dist.group.WORLD.send), recv=taking(dist.group.WORLD.recv))
        patched.setattr(gloo.RealComm, "_direct", lambda self: direct)
        return everything(gloo.RealComm(range(comm.size), device=gpu), x)


def test_with_a_backend_that_knows_only_a_device_tensors_go_there_and_come_back():
    given = [torch.arange(5.0) + rank for rank in range(3)]
    real = launch(device_only, 3, per_rank=given, timeout=LIMIT).results
    for one, two in zip(real, simulate(everything, 3, per_rank=given).results, strict=True):
        assert {name: type(value) for name, value in one.items()} == dict.fromkeys(two, torch.Tensor)
        assert [name for name in two if not torch.equal(one[name], two[name])] == []


@each_of("ranks", [1, 2, 4])
def test_a_learners_ring_runs_on_real_processes(ranks):
    given = [torch.arange(9.0) * (rank + 1) for rank in range(ranks)]
    results = launch(ring_all_reduce, ranks, per_rank=given, timeout=LIMIT).results
    assert all(torch.equal(result, sum(given)) for result in results)
    assert given[0].tolist() == list(range(9))


def test_prints_carry_the_rank(capsys):
    launch(lambda comm: print("hello\nfrom", comm.rank, end=""), 2, timeout=LIMIT)
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "[rank 0] from 0",
        "[rank 0] hello",
        "[rank 1] from 1",
        "[rank 1] hello",
    ]


def pids(comm):
    return os.getpid(), os.getppid()


def test_the_server_is_used_again_and_no_rank_outlives_the_call():
    one, two = launch(pids, 2, timeout=LIMIT).results, launch(pids, 2, timeout=LIMIT).results
    assert len({parent for _, parent in one + two}) == 1 and len({child for child, _ in one + two}) == 4
    for child, _ in one + two:
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)


def test_a_rank_that_raises_brings_the_rest_down_with_its_line_first():
    def fails(comm):
        if comm.rank == 1:
            raise KeyError("lost")
        comm.recv(torch.zeros(1), 1)

    with pytest.raises(RankError, match="rank 1 raised KeyError: 'lost'") as told:
        launch(fails, 3, timeout=LIMIT)
    assert str(told.value).startswith("test_cluster_launch.py, line") and "launcher.py" not in told.value.trace


def test_a_rank_that_dies_is_named():
    with pytest.raises(RankError, match="exit code 7"):
        launch(lambda comm: os._exit(7) if comm.rank == 1 else comm.barrier(), 2, timeout=LIMIT)


@each_alone(
    "told, failed, blamed",
    ([(0, "RuntimeError", "gloo: Connection reset by peer")], {0: 1, 1: 7}, "rank 1 raised ProcessEnded"),
    ([(0, "RuntimeError", "gloo: Connection reset by peer")], {0: 1}, "rank 0 raised RuntimeError"),
    ([(1, "KeyError", "lost"), (0, "RuntimeError", "gloo: Connection reset")], {0: 1, 1: 1}, "rank 1 raised KeyError"),
    ([(1, "KeyError", "lost")], {1: 1, 2: -9}, "rank 1 raised KeyError"),
    ([], {2: -9}, "signal SIGKILL"),
    ids=["a rank lost another that died", "it alone has failed", "the first error", "an error of its own", "killed"],
)
def test_the_blame_falls_on_the_rank_that_failed_for_a_reason_of_its_own(tmp_path, told, failed, blamed):
    for rank, kind, text in told:
        (tmp_path / f"error.{rank}").write_bytes(pickle.dumps((rank, kind, text, "", "")))
        time.sleep(0.01)
    assert blamed in str(launcher._Launch(tmp_path, 3, 1.0)._error(failed))


def test_ranks_that_hang_are_ended_in_time(tmp_path):
    def hangs(comm, folder):
        (folder / str(comm.rank)).write_text(str(os.getpid()))
        if comm.rank == 0:
            comm.recv(torch.zeros(1), 1)
        time.sleep(600)

    with pytest.raises(Unfinished, match=r"Ranks \[0, 1\] did not finish"):
        launch(hangs, 2, args=(tmp_path,), timeout=3.0)
    for path in tmp_path.iterdir():
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.read_text()), 0)


def test_ctrl_c_ends_every_rank(tmp_path):
    def sleeps(comm, folder):
        (folder / str(comm.rank)).write_text(str(os.getpid()))
        time.sleep(600)

    def interrupt():
        while len([path for path in tmp_path.iterdir() if path.read_text()]) < 2:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    launch(pids, 1, timeout=LIMIT)  # the server is there
    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        launch(sleeps, 2, args=(tmp_path,), timeout=LIMIT)
    thread.join()
    for path in tmp_path.iterdir():
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.read_text()), 0)
    assert launch(lambda comm: comm.rank, 2, timeout=LIMIT).results == [0, 1]


def test_ranks_start_with_generators_of_their_own():
    import random

    import numpy as np

    def draw(comm):
        return torch.rand(1).item(), float(np.random.rand()), random.random()

    one, two = (launch(draw, 2, timeout=LIMIT, seed=3).results for _ in range(2))
    assert one == two and one[0][0] == one[1][0] and one[0][1] != one[1][1] and one[0][2] != one[1][2]


@pytest.mark.slower
def test_where_a_process_cannot_fork_each_rank_is_started_afresh(monkeypatch):
    monkeypatch.setattr(launcher.fork_server, "FORKS", False)
    assert launch(lambda comm: comm.rank, 2, timeout=LIMIT).results == [0, 1]


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="gloo"):
        launch(pids, 2, backend="mpi")
    with pytest.raises(ValueError, match="1 or more"):
        launch(pids, 0)
