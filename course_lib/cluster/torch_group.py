"""The metered cluster as a process group of torch: what torch.distributed, DDP, FSDP2 and DTensor call, done by `Comm`.

A rank may use `comm` and torch.distributed side by side. Both have the same meter, clock, adversaries, checks of
tensors in flight and reports of deadlocks. The names of methods are those that torch looks for in a process group.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, cast

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d
from torch.futures import Future

from course_lib.cluster.advice import RANKS_HAVE_ONE
from course_lib.cluster.comm import Comm
from course_lib.cluster.endpoint import Endpoint, endpoint, here
from course_lib.cluster.kernel import Kernel
from course_lib.cluster.point_to_point import Work
from course_lib.cluster.protocol import Reply, Request
from course_lib.cluster.source_lines import caller_line

native: Any = torch._C._distributed_c10d  # has no stubs for its registry
BACKEND = "metered"
_REPLACED = {BACKEND, "gloo", "nccl", "mpi", "ucc", "xccl", "undefined"}
Tensor = torch.Tensor


class _Name(str):
    """A name that equals "threaded" as well: torch tells equal meshes of two ranks apart where the backend is that."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) or other == "threaded"


class GroupNumbers:
    """In the kernel: the number of a group of torch, by its name and ranks. As in torch, no rank waits for others."""

    def __init__(self, kernel: Kernel) -> None:
        self._groups = kernel.state.groups
        self._numbers: dict[object, int] = {}

    def __call__(self, time: float, request: Request) -> Reply:
        """The number; the first rank that asks creates the group."""
        number = self._numbers.get(request.more)
        if number is None:
            number = self._numbers[request.more] = len(self._groups)
            self._groups.append(request.more[1])
        return Reply(number)


class RankWorld(c10d._World):
    """One rank's groups, in the form in which torch keeps those of a process."""

    pg_map: dict[dist.ProcessGroup, tuple[str, dist.Store]] = {}
    pg_names: dict[dist.ProcessGroup, c10d.GroupName] = {}
    pg_group_ranks: dict[dist.ProcessGroup, dict[int, int]] = {}
    pg_backend_config: dict[dist.ProcessGroup, str] = {}
    group_count: int = 0
    tags_to_pg: dict[str, list[dist.ProcessGroup]] = {}
    pg_to_tag: dict[dist.ProcessGroup, str] = {}

    def __init__(self, end: Endpoint) -> None:
        super().__init__()
        self._ranks = range(end.ranks)
        self.pg_map, self.pg_names, self.pg_group_ranks, self.pg_backend_config = {}, {}, {}, {}
        self.group_count, self.tags_to_pg, self.pg_to_tag = 0, {}, {}

    def init_process_group(self, backend: str | None = None, *_: object, **__: object) -> None:
        """The group of all ranks, which is there from the start, whatever rank, store and backend are named."""
        own = {name.split(":")[-1] for name in str(backend or BACKEND).lower().split(",")} - _REPLACED
        if own:
            raise ValueError(
                f"init_process_group: the backend {', '.join(own)} is not torch's own. Ranks of a run talk through the "
                "metered cluster alone, which takes the place of gloo, nccl and mpi."
            )
        if self.default_pg is not None:
            return
        native._set_thread_isolation_mode(True)  # each thread has its own names of groups
        group = MeteredGroup(Comm(self._ranks), "0")
        store = dist.HashStore()
        store.set_timeout(timedelta(seconds=1))  # a rank that waited in it would keep the other ranks from running
        name = cast("c10d.GroupName", group.group_name)
        c10d._register_process_group(name, group)
        self.pg_map[group], self.pg_names[group], self.pg_backend_config[group] = (
            (BACKEND, store),
            name,
            f"cpu:{BACKEND}",
        )
        self.pg_group_ranks[group], self.pg_to_tag[group] = {rank: rank for rank in self._ranks}, f"ptd:{name}"
        self.tags_to_pg.update({"": [group], f"ptd:{name}": [group]})
        self.default_pg, self.group_count = group, 1

    def batch_isend_irecv(self, p2p_op_list: Sequence[dist.P2POp]) -> list[dist.Work]:
        """Start several sends and receives at once, without an order among them."""
        c10d._check_p2p_op_list(p2p_op_list)
        group = p2p_op_list[0].group or self.default_pg
        assert isinstance(group, MeteredGroup)
        parts = [(op.op.__name__, op.tensor, op.group_peer, op.tag) for op in p2p_op_list]
        works = group.comm._start([group.comm._half(*part) for part in parts], batch=True)
        return [MeteredWork([work], [part[1]]) for work, part in zip(works, parts, strict=True)]

    def close(self) -> None:
        """The rank has ended."""
        native._unregister_all_process_groups()


class MeteredWork(dist.Work):
    """The works of the cluster that one call started; `after` runs once they are complete."""

    def __init__(
        self,
        works: Sequence[Work | MeteredWork],
        tensors: Sequence[Tensor],
        after: Callable[[], object] | None = None,
        group: Comm | None = None,
    ) -> None:
        """`group` is that of a receive, whose source torch may ask for."""
        super().__init__()
        self._works, self._tensors, self._after, self._group = list(works), list(tensors), after, group
        self._future: Future[list[Tensor]] | None = None

    def wait(self, timeout: object = None) -> bool:
        """Wait for all of them; return True when their tensors may be used."""
        for work in self._works:
            work.wait()
        return self._finish()

    def _finish(self) -> bool:
        after, self._after = self._after, None
        if after is not None:
            after()
        if self._future is not None and not self._future.done():
            self._future.set_result(self._tensors)
        return True

    def is_completed(self) -> bool:
        """Whether all of them are complete; each call costs a little virtual time."""
        return all(work.is_completed() for work in self._works) and self._finish()

    def get_future(self) -> Future[list[Tensor]]:
        """The tensors, later. DDP's reducer asks in C++, as nodes of a backward pass end: it waits at the end of that
        pass, so that buckets overlap with computing. Everyone else may wait for the future itself, and waits here."""
        if self._future is None:
            self._future = Future()
            asks = sys._getframe(1).f_code.co_name
            if asks == "_engine_run_backward" and torch._C._current_autograd_node() is not None:
                engine: Any = torch.autograd.Variable._execution_engine
                engine.queue_callback(self.wait)
            else:
                self.wait()
        return self._future

    def result(self) -> list[Tensor]:
        """The tensors of the call."""
        return self._tensors

    def synchronize(self) -> None:
        """Wait, as on a device's stream."""
        self.wait()

    def is_success(self) -> bool:
        """True: an error ends the rank."""
        return True

    def _source_rank(self) -> int:
        (work,) = self._works
        assert isinstance(work, Work) and self._group is not None  # the work of a receive
        return self._group._ranks.index(work.source)


_Group: Any = dist.ProcessGroup  # its stubs overload each method; a group in Python gets the first form alone


class MeteredGroup(_Group):
    """A group of ranks of a run, as one rank sees it. Ranks in arguments are those of the group."""

    def __init__(self, comm: Comm, name: str) -> None:
        super().__init__(comm.rank, comm.size)
        self.comm, self._name = comm, name
        self._together: list[MeteredWork] | None = None  # what was started since `_start_coalescing`

    def rank(self) -> int:
        """This rank's number in the group."""
        return self.comm.rank

    def size(self) -> int:
        """The number of ranks."""
        return self.comm.size

    def getBackendName(self) -> str:
        """ "metered"."""
        return BACKEND

    def getGroupName(self) -> str:
        """The name under which torch finds it."""
        return self._name

    name = getBackendName
    group_name, group_desc = property(getGroupName), property(getBackendName)

    def new_group(self, ranks: Sequence[int], *, group_name: str, **_: object) -> MeteredGroup | None:
        """A group of these ranks of the world; None on a rank that is not a member."""
        return _new_group(ranks, group_name)

    def shutdown(self) -> None:
        """Nothing to end: the run ends its ranks."""

    abort = shutdown

    # --- several calls as one

    def _start_coalescing(self, device: object) -> None:
        self._together = []

    def _end_coalescing(self, device: object) -> MeteredWork:
        works, self._together = self._together or [], None
        return MeteredWork(works, [tensor for work in works for tensor in work.result()])

    def _do(
        self,
        opts: object,
        tensors: Sequence[Tensor],
        *calls: Callable[..., Work | None],
        after: Callable[[], object] | None = None,
    ) -> MeteredWork:
        """Make the calls; at once unless the caller waits, as callers in C++ do."""
        later = getattr(opts, "asyncOp", True) or self._together is not None
        works = [call(async_op=later) for call in calls]
        work = MeteredWork([work for work in works if work is not None], tensors, after)
        if not later:
            work.wait()
        return self._keep(work)

    def _keep(self, work: MeteredWork) -> MeteredWork:
        if self._together is not None:
            self._together.append(work)
        return work

    # --- messages

    def send(self, tensors: Sequence[Tensor], dst: int, tag: int = 0) -> MeteredWork:
        """Start a send; torch waits at once for that of `send`."""
        return self._keep(MeteredWork([self.comm.isend(tensors[0], dst, tag)], tensors))

    def recv(self, tensors: Sequence[Tensor], src: int | None, tag: int = 0) -> MeteredWork:
        """Start a receive."""
        return self._keep(MeteredWork([self.comm.irecv(tensors[0], src, tag)], tensors, group=self.comm))

    def recv_anysource(self, tensors: Sequence[Tensor], tag: int = 0) -> MeteredWork:
        """Start a receive from any rank."""
        return self.recv(tensors, None, tag)

    # --- collectives

    def barrier(self, opts: object = None) -> MeteredWork:
        """Wait for all ranks."""
        return self._do(opts, (), self.comm.barrier)

    def broadcast(self, tensors: Sequence[Tensor], opts: c10d.BroadcastOptions) -> MeteredWork:
        """Copy the tensors of the root."""
        return self._do(opts, tensors, *(partial(self.comm.broadcast, data, opts.rootRank) for data in tensors))

    def reduce(self, tensors: Sequence[Tensor], opts: c10d.ReduceOptions) -> MeteredWork:
        """Combine the tensors at the root."""
        calls = (partial(self.comm.reduce, data, opts.rootRank, _op(opts)) for data in tensors)
        return self._do(opts, tensors, *calls)

    def allreduce(self, tensors: Sequence[Tensor], opts: object) -> MeteredWork:
        """Combine the tensors on every rank, each in a collective of its own."""
        return self._do(opts, tensors, *(partial(self.comm.all_reduce, data, _op(opts)) for data in tensors))

    allreduce_coalesced = allreduce

    def gather(
        self, outputs: Sequence[Sequence[Tensor]], inputs: Sequence[Tensor], opts: c10d.GatherOptions
    ) -> MeteredWork:
        """Collect the tensors at the root."""
        into = outputs[0] if outputs else None
        return self._do(opts, into or (), partial(self.comm.gather, inputs[0], into, opts.rootRank))

    def scatter(
        self, outputs: Sequence[Tensor], inputs: Sequence[Sequence[Tensor]], opts: c10d.ScatterOptions
    ) -> MeteredWork:
        """Give each rank its tensor of the root's list."""
        parts = inputs[0] if inputs else None
        return self._do(opts, outputs, partial(self.comm.scatter, outputs[0], parts, opts.rootRank))

    def allgather(
        self, outputs: Sequence[Sequence[Tensor]], inputs: Sequence[Tensor], opts: object = None
    ) -> MeteredWork:
        """Collect the tensors of all ranks on every rank."""
        calls = (partial(self.comm.all_gather, into, data) for into, data in zip(outputs, inputs, strict=True))
        return self._do(opts, outputs[0], *calls)

    def allgather_coalesced(
        self, outputs: Sequence[Sequence[Tensor]], inputs: Sequence[Tensor], opts: object = None
    ) -> MeteredWork:
        """`outputs[rank]` are the inputs of the rank."""
        return self.allgather(list(zip(*outputs, strict=True)), inputs, opts)

    def all_gather_single_coalesced(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: object = None
    ) -> MeteredWork:
        """Fill each output with the inputs of all ranks, in the order of ranks."""
        pairs = zip(outputs, inputs, strict=True)
        return self._do(opts, outputs, *(partial(self.comm.all_gather_into_tensor, *pair) for pair in pairs))

    def all_gather_single(self, output: Tensor, input: Tensor, opts: object = None) -> MeteredWork:  # noqa: A002
        """Fill the output with the inputs of all ranks, in the order of ranks."""
        return self.all_gather_single_coalesced([output], [input], opts)

    def reduce_scatter_single_coalesced(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: object
    ) -> MeteredWork:
        """Combine each input of all ranks; rank r gets part r."""
        pairs = zip(outputs, inputs, strict=True)
        calls = (partial(self.comm.reduce_scatter_tensor, *pair, _op(opts)) for pair in pairs)
        return self._do(opts, outputs, *calls)

    def reduce_scatter_single(self, output: Tensor, input: Tensor, opts: object) -> MeteredWork:  # noqa: A002
        """Combine the inputs of all ranks; rank r gets part r."""
        return self.reduce_scatter_single_coalesced([output], [input], opts)

    def reduce_scatter(
        self, outputs: Sequence[Tensor], inputs: Sequence[Sequence[Tensor]], opts: object
    ) -> MeteredWork:
        """Combine the lists of all ranks; rank r gets entry r."""
        whole = [torch.cat([part.reshape(-1) for part in parts]) for parts in inputs]
        return self.reduce_scatter_single_coalesced(outputs, whole, opts)

    def all_to_all_single(
        self,
        output: Tensor,
        input: Tensor,  # noqa: A002
        output_split_sizes: Sequence[int],
        input_split_sizes: Sequence[int],
        opts: object = None,
    ) -> MeteredWork:
        """Send part j of the input to rank j, and receive part i of the output from rank i; parts are rows."""
        call = partial(self.comm.all_to_all_single, output, input, output_split_sizes, input_split_sizes)
        return self._do(opts, [output], call)

    def alltoall(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: object = None) -> MeteredWork:
        """Send tensor j to rank j, and receive output i from rank i."""
        sizes = [[data.numel() for data in tensors] for tensors in (outputs, inputs)]
        sent = torch.cat([data.reshape(-1) for data in inputs])
        into = sent.new_empty(sum(sizes[0]))

        def unpack() -> None:
            with torch.no_grad():
                for output, part in zip(outputs, into.split(sizes[0]), strict=True):
                    output.copy_(part.view(output.shape))

        call = partial(self.comm.all_to_all_single, into, sent, sizes[0], sizes[1])
        return self._do(opts, outputs, call, after=unpack)

    # names before torch 2.13
    _allgather_base, _reduce_scatter_base, alltoall_base = all_gather_single, reduce_scatter_single, all_to_all_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced


def _op(opts: object) -> str:
    op = getattr(opts, "reduceOp", opts)
    return str(getattr(op, "op", op)).rsplit(".", 1)[-1]


def _new_group(ranks: Sequence[int], name: str) -> MeteredGroup | None:
    end = endpoint()
    number = end.call(Request(end.rank, "group", line=caller_line(), more=(name, tuple(ranks))))
    return MeteredGroup(Comm(ranks, number), name) if end.rank in ranks else None


def _create(options: c10d._DistributedBackendOptions, _: object) -> MeteredGroup | None:
    """For torch before 2.13, whose groups do not create others."""
    if not getattr(getattr(here, "endpoint", None), "ranks", 0):
        raise RuntimeError(f'The backend "metered" exists only on the ranks of a run. {RANKS_HAVE_ONE}')
    return _new_group(options.global_ranks_in_group, options.group_id)


dist.Backend.register_backend(BACKEND, _create, extended_api=True, devices=["cpu"])
setattr(dist.Backend, BACKEND.upper(), _Name(BACKEND))  # what get_backend returns
