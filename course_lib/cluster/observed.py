"""What a run adds to its bare ranks: separate random generators, output with the rank's number, checks of tensors in
flight, and counts of memory and FLOPs.
"""

from __future__ import annotations

import io
import random
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TextIO

import numpy as np
import numpy.random
import torch

from course_lib.cluster.adversary import guard
from course_lib.cluster.comm import Comm
from course_lib.cluster.endpoint import Endpoint, Flight, here
from course_lib.cluster.in_flight import FlightWatch, Hazard
from course_lib.cluster.process_tuning import on_core, this_core, young_garbage
from course_lib.cluster.program import Body
from course_lib.cluster.protocol import End, Reply, Request, Work
from course_lib.cluster.source_lines import Line
from course_lib.cluster.thread_host import Link, ThreadHost
from course_lib.cluster.torch_world import torch_worlds
from course_lib.model.accounting import Accounting, Ledger


class ObservedEndpoint(Endpoint):
    """An endpoint that checks which tensors are in flight, counts memory and FLOPs, and has its rank's random
    generators."""

    def __init__(self, rank: int, host: ObservedHost) -> None:
        super().__init__(rank, host.ask, host.speed)
        self.late, self.ranks = host.late, host.ranks
        self.account = Accounting() if host.account else None
        self.watch = FlightWatch(rank)
        self.chance = Chance(rank, host.seed)
        self.ledger: Ledger | None = None  # what its account counted
        self._charged = 0  # FLOPs
        self._held: dict[int, Callable[[], None]] = {}  # by call: ends the accounting of its tensors as communication
        self._sending: dict[int, torch.Tensor] = {}  # by call: what is still being sent
        self._guards: dict[int, Callable[[int, Line], None]] = {}  # by call: checks that what is sent has not changed
        self.paused, self.resumed = self.chance.leave, self.chance.enter  # type: ignore[method-assign]

    def run(self, body: Callable[..., object], *arguments: object) -> object:
        """Run the rank's function; its result."""
        self.chance.bind()
        account = self.account
        with account or nullcontext():
            if account is not None:
                account.adopt([_given(body), arguments[1:]])
            try:
                result = body(*arguments)
                self.watch.note_open()
                return self.finish(result)
            finally:
                self.watch.leave()
                if self.torch_world is not None:
                    self.torch_world.close()
                    self.torch_world = None
                if account is not None:
                    self.ledger = account.ledger()

    def finish(self, result: object) -> object:
        """The rank's result as the kernel gets it."""
        return result

    def spent(self) -> Work:
        """The rank's computing since the last report to the kernel."""
        if self.account is not None and self.account.flops > self._charged:
            self.work.append(("compute", "", (self.account.flops - self._charged) / self.speed))
            self._charged = self.account.flops
        return super().spent()

    def call(self, request: Request) -> object:
        """Pass a request to the kernel; the value of its reply."""
        if self.work or self.account is not None:
            request.work = self.spent()
        return self.ask(request).value

    def enter(self) -> None:
        """A communicator's call begins: it may use tensors itself."""
        if self.watch.flights:
            self.watch.rest()

    def exit(self) -> None:
        """The communicator's call ends."""
        if self.watch.flights:
            self.watch.resume()

    def post(
        self, sent: Sequence[torch.Tensor] = (), into: Sequence[torch.Tensor] = (), collective: bool = False
    ) -> int:
        """The number of a new call that reads some tensors and fills others. ValueError if it fills one that is being
        sent.

        The inputs of a collective are in its request; the endpoint keeps track of a message's tensor.
        """
        for target in into:
            for call, tensor in self._sending.items():
                if overlap(tensor, target):
                    raise ValueError(
                        f"Receiving into a tensor that is still being sent (call {call} of rank {self.rank}): what "
                        "arrives would overwrite what has not left yet. wait() for the send first, or receive into a "
                        "tensor of its own."
                    )
        if self.watch.flights:
            self.watch.use(sent, into)
        self.calls += 1
        if sent and not collective:
            self._sending[self.calls] = sent[0]
        if self.account is not None:
            self._held[self.calls] = self.account.hold(into if collective else [*sent, *into])
        return self.calls

    def start(self, flights: Sequence[Flight], handles: Sequence[object]) -> None:
        """The tensors of these calls are in flight from now on; the program gets these handles."""
        if self.late:
            for call, request, sent, into in flights:
                self._guards[call] = guard(request.op, sent, into)
        super().start(flights, handles)
        self.watch.start(flights)

    def land(self, call: int, line: Line) -> None:
        """The rank waits for the call that it posted at the line."""
        if call in self._guards:
            self._guards.pop(call)(self.rank, line)
        self.watch.land(call)

    def over(self, call: int) -> None:
        """The call is complete, and ends: its tensors may be used again."""
        self._sending.pop(call, None)
        if self.watch.flights:
            self.watch.resume()
        if self.account is not None and call in self._held:
            self._held.pop(call)()


class ObservedHost(ThreadHost):
    """A host that observes its ranks. `late`: bytes move late; `seed`: of the generators; `account`: count memory and
    FLOPs."""

    communicator = Comm
    endpoints: dict[int, ObservedEndpoint]  # type: ignore[assignment]  # those that `endpoint` makes

    def __init__(
        self,
        link: Link,
        bodies: Mapping[int, Callable[..., object]],
        ranks: int,
        *,
        late: bool = False,
        seed: int = 0,
        debug: int | None = None,
        capture: int | None = None,
        speed: float = 1e12,
        account: bool = False,
    ) -> None:
        self.late, self.seed, self.capture, self.account = late, seed, capture, account
        self.output = ""
        super().__init__(link, bodies, ranks, speed, debug)
        self.step = self._undispatched

    def endpoint(self, rank: int) -> ObservedEndpoint:
        """A new endpoint for the rank."""
        return ObservedEndpoint(rank, self)

    @property
    def ledgers(self) -> dict[int, Ledger]:
        """What each rank's account counted."""
        return {rank: end.ledger for rank, end in self.endpoints.items() if end.ledger is not None}

    @property
    def hazards(self) -> dict[int, list[Hazard]]:
        """Uses of each rank's tensors in flight."""
        return {rank: end.watch.hazards for rank, end in self.endpoints.items()}

    def run(self, timeout: float | None = None) -> End:
        """Run every rank to its end."""
        end = super().run(timeout)
        for each in self.endpoints.values():
            each.chance.give_back()
        return end

    @contextmanager
    def around(self) -> Iterator[None]:
        """Own generators and output; threads stay on the core where this one is, from their start."""
        real, proxy = sys.stdout, RankPrints(sys.stdout, self.capture)
        with own_generators(), young_garbage(), on_core(self.core()), torch_worlds():
            sys.stdout = proxy
            try:
                yield
            finally:
                proxy.close_lines()
                if sys.stdout is proxy:
                    sys.stdout = real
                self.output = proxy.captured()

    def core(self) -> int | None:
        """The core to stay on."""
        return this_core()

    def _undispatched(self, request: Request | None) -> tuple[int, Reply] | End:
        if not torch._C._len_torch_dispatch_stack():
            return self.link.step(request)
        with torch._C._DisableTorchDispatch():  # the kernel's copies are not the rank's operations
            return self.link.step(request)


def _given(body: Callable[..., object]) -> list[object]:
    """The tensors that a rank holds from the start, for its accounting."""
    if not isinstance(body, Body):
        return []
    code = getattr(body.function, "__code__", None)
    cells = [cell.cell_contents for cell in getattr(body.function, "__closure__", None) or ()]
    names = [body.function.__globals__.get(name) for name in code.co_names] if code else []
    return [body.arguments, cells, names, body.memory]


def overlap(one: torch.Tensor, two: torch.Tensor) -> bool:
    """Whether two contiguous tensors share bytes. Views with gaps may interleave harmlessly and count as separate."""
    if one.untyped_storage().data_ptr() != two.untyped_storage().data_ptr() or not one.numel() or not two.numel():
        return False
    if not (one.is_contiguous() and two.is_contiguous()):
        return one.data_ptr() == two.data_ptr() and one.stride() == two.stride()
    starts = [tensor.storage_offset() * tensor.element_size() for tensor in (one, two)]
    ends = [start + tensor.numel() * tensor.element_size() for start, tensor in zip(starts, (one, two), strict=True)]
    return starts[0] < ends[1] and starts[1] < ends[0]


class RankPrints(io.TextIOBase):
    """Replaces stdout during a run. `capture`: keep that many characters instead of printing them."""

    def __init__(self, real: TextIO, capture: int | None) -> None:
        self._real, self._room = real, capture
        self._parts: dict[int, str] = {}
        self._kept: list[str] = []

    def write(self, text: str) -> int:
        """Print whole lines, prefixed with the rank."""
        end = getattr(here, "endpoint", None)
        if end is None:
            return self._real.write(text)
        whole = self._parts.get(end.rank, "") + str(text)
        *lines, rest = whole.split("\n")
        self._parts[end.rank] = rest
        for line in lines:
            self._say(f"[rank {end.rank}] {line}\n")
        return len(text)

    def _say(self, text: str) -> None:
        if self._room is None:
            self._real.write(text)
        elif self._room > 0:
            self._kept.append(text[: self._room])
            self._room -= len(text)
            if self._room <= 0:
                self._kept.append("\n… more was printed, and is left out\n")

    def close_lines(self) -> None:
        """Print the unfinished lines of ranks."""
        for rank, rest in self._parts.items():
            if rest:
                self._say(f"[rank {rank}] {rest}\n")

    def captured(self) -> str:
        """The captured output."""
        return "".join(self._kept)

    def flush(self) -> None:
        self._real.flush()

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(self._real, "encoding", "utf-8") or "utf-8"


# --- generators

_random_names = [name for name in random.__all__ if getattr(getattr(random, name), "__self__", None) is random._inst]
_random_here = threading.local()
_torch_generator = torch.default_generator


def _rank_random(name: str) -> Callable[..., object]:
    shared = getattr(random._inst, name)

    def call(*args: object, **kwargs: object) -> object:
        mine = getattr(_random_here, "generator", None)
        return shared(*args, **kwargs) if mine is None else getattr(mine, name)(*args, **kwargs)

    call.__name__ = name
    return call


_of_ranks = {name: _rank_random(name) for name in _random_names}
_spare: list[np.random.MT19937] = []


class Chance:
    """The generators of one rank: torch's starts equal on every rank, as in torch processes; those of numpy and random
    do not."""

    __slots__ = ("numpy", "python", "torch")

    def __init__(self, rank: int, seed: int) -> None:
        self.torch = torch.Generator().manual_seed(seed).get_state()
        self.numpy = _spare.pop() if _spare else np.random.MT19937(0)
        np.random.RandomState(self.numpy).seed([seed & 0xFFFFFFFF, rank])
        self.python = random.Random(f"{seed} {rank}")

    def enter(self) -> None:
        """This rank runs: activate its generators."""
        _torch_generator.set_state(self.torch)
        numpy.random.mtrand.set_bit_generator(self.numpy)

    def leave(self) -> None:
        """Another rank is about to run: save its generators."""
        self.torch = _torch_generator.get_state()

    def give_back(self) -> None:
        """The rank has ended: another may reuse its numpy generator, which is slow to create."""
        _spare.append(self.numpy)

    def bind(self) -> None:
        """Assign this thread to the rank."""
        _random_here.generator = self.python


@contextmanager
def own_generators() -> Iterator[None]:
    """A context in which rank threads use their own generators; the caller's generators are restored afterwards."""
    kept_torch, kept_numpy = _torch_generator.get_state(), numpy.random.mtrand.get_bit_generator()
    kept_state = np.random.get_state()
    kept_names = {name: getattr(random, name) for name in _random_names}
    vars(random).update(_of_ranks)
    try:
        yield
    finally:
        vars(random).update(kept_names)
        _random_here.generator = None
        _torch_generator.set_state(kept_torch)
        numpy.random.mtrand.set_bit_generator(kept_numpy)
        np.random.set_state(kept_state)
