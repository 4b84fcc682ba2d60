"""Replicas that come and go: fault tolerance in each step, as in torchft, on processes over gloo.

Before a step, a coordinator forms a quorum of the replicas that are alive, and names those that must first copy the
weights and the momentum of another. The replicas average their gradients in one all-reduce, in which a copying replica
sends zeros and counts as none. They vote, and take the step only if all of them have the average; if one is lost, the
others discard the step and meet again in a new quorum.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from multiprocessing.process import BaseProcess
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.estimate.units import require_whole
from course_lib.messages import Trouble, count_text
from course_lib.model import text, training, transformer

PATIENCE = 60.0  # s that starting may take on a busy machine
COLLECTIVE = 20.0  # s that meeting and a collective may take: less, so that a replica votes before it is given up
RATE, MOMENTUM, BATCH = 0.05, 0.9, 2
_POLL = 0.005  # s


@dataclass(frozen=True, slots=True)
class Life:
    """A replica starts before the step `joins` and is killed in the step `dies`, after the quorum was formed."""

    joins: int = 0
    dies: int | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """One quorum: who was in it, who copied the state, who was lost, and whether the step was taken."""

    step: int
    members: tuple[int, ...]
    copying: tuple[int, ...]
    lost: tuple[int, ...] = ()
    taken: bool = False

    @property
    def divisor(self) -> int:
        """Replicas whose gradients are in the average."""
        return len(self.members) - len(self.copying)


class Replica:
    """Weights and momentum as one vector each, and the steps that they have taken."""

    def __init__(self) -> None:
        self.model = transformer.build(training.SMALL).double()
        self.weights = nn.utils.parameters_to_vector(self.model.parameters()).detach()
        self.momentum, self.step = torch.zeros_like(self.weights), 0

    def gradient(self, number: int) -> Tensor:
        """The gradient of the next step's batch of replica `number`."""
        nn.utils.vector_to_parameters(self.weights, self.model.parameters())
        tokens, targets = text.batch(self.step, BATCH, training.SMALL.seq_len, seed=number)
        grads = torch.autograd.grad(transformer.loss(self.model(tokens), targets), list(self.model.parameters()))
        return nn.utils.parameters_to_vector(grads)

    def take(self, mean: Tensor) -> None:
        """SGD with momentum."""
        self.momentum = MOMENTUM * self.momentum + mean
        self.weights = self.weights - RATE * self.momentum
        self.step += 1

    def mark(self) -> str:
        """The steps taken, and a hash of the state to the bit."""
        state = torch.stack([self.weights, self.momentum])
        return f"{self.step} {hashlib.sha256(state.numpy().tobytes()).hexdigest()}"


def _live(number: int, port: int, dies: int | None) -> None:
    """A replica's process: asks for a quorum, averages, votes, until it is told to stop."""
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port, timeout=timedelta(seconds=2 * PATIENCE))
    own, asked = Replica(), 0
    while True:
        store.set(f"ask/{number}/{asked}", own.mark())
        answer = json.loads(store.get(f"answer/{number}/{asked}"))
        if answer["stop"]:
            store.set(f"end/{number}", own.weights.numpy().tobytes().hex())
            return
        asked += 1
        meeting, source = Round(answer["step"], tuple(answer["members"]), tuple(answer["copying"])), answer["source"]
        ok, both = True, torch.zeros(len(own.weights) + 1, dtype=own.weights.dtype)
        if number not in meeting.copying:
            both = torch.cat([own.gradient(number), torch.ones(1, dtype=own.weights.dtype)])
        try:
            group: Any = dist.ProcessGroupGloo(  # its stubs lack the collectives
                dist.PrefixStore(f"round/{answer['round']}", store),
                meeting.members.index(number),
                len(meeting.members),
                timedelta(seconds=COLLECTIVE),
            )
            if dies is not None and own.step >= dies and number not in meeting.copying:
                os.kill(os.getpid(), signal.SIGKILL)
            if meeting.copying:
                state = torch.stack([own.weights, own.momentum])
                group.broadcast(state, meeting.members.index(source)).wait()
                own.weights, own.momentum = state
            group.allreduce([both]).wait()
        except RuntimeError:
            ok = False  # a peer is gone
        store.set(f"vote/{answer['round']}/{number}", str(int(ok)))
        if store.get(f"taken/{answer['round']}") == b"1":
            own.step = meeting.step
            own.take(both[:-1] / both[-1])


class _Coordinator:
    """Starts replicas, forms quorums of those that are alive, and counts their votes."""

    def __init__(self, lives: Sequence[Life]) -> None:
        self.lives, self.asked = lives, [0] * len(lives)
        self.store = dist.TCPStore(
            "127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=PATIENCE)
        )
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload([__name__])
        self.processes: dict[int, BaseProcess] = {}

    def start(self, step: int) -> None:
        for number, life in enumerate(self.lives):
            if number not in self.processes and life.joins <= step:
                process = self.context.Process(target=_live, args=(number, self.store.port, life.dies), daemon=True)
                process.start()
                self.processes[number] = process

    def wait_for(self, keys: Mapping[int, str]) -> list[int]:
        """The replicas that have set their key, after each other one is gone."""
        end = time.monotonic() + PATIENCE
        while True:
            gone = {number for number in keys if not self.processes[number].is_alive()}
            there = [number for number, key in keys.items() if self.store.check([key])]
            if gone.union(there) == set(keys):
                return there
            if time.monotonic() > end:
                raise Trouble(f"A replica said nothing for {PATIENCE:g} s.", "look whether its process hangs")
            time.sleep(_POLL)

    def meet(self, step: int, number: int, least: int) -> Round:
        """The next round."""
        ready = self.wait_for({each: f"ask/{each}/{self.asked[each]}" for each in self.processes if self._lives(each)})
        marks = {each: self.store.get(f"ask/{each}/{self.asked[each]}").decode().split() for each in ready}
        newest = [each for each in ready if int(marks[each][0]) == step]
        if len(ready) < least or not newest:
            raise Trouble(
                f"Step {step}: {count_text(len(ready), 'replica')} of at least {least} are alive.",
                "start more of them, or go on from a checkpoint",
            )
        if len({marks[each][1] for each in newest}) > 1:
            raise Trouble(f"Step {step}: the live replicas differ in weights or momentum.", "go on from a checkpoint")
        meeting = Round(step, tuple(ready), tuple(each for each in ready if each not in newest))
        words = {**asdict(meeting), "round": number, "source": newest[0], "stop": False}
        for each in ready:
            self.store.set(f"answer/{each}/{self.asked[each]}", json.dumps(words))
            self.asked[each] += 1
        votes = {each: f"vote/{number}/{each}" for each in ready}
        agreed = [each for each in self.wait_for(votes) if self.store.get(votes[each]) == b"1"]
        lost = tuple(each for each in ready if not self._lives(each))
        taken = not lost and len(agreed) == len(ready)
        if not taken and not lost:
            raise Trouble(f"Step {step}: the average failed, and no replica was lost.", "check the links between them")
        self.store.set(f"taken/{number}", str(int(taken)))
        return replace(meeting, lost=lost, taken=taken)

    def finish(self) -> dict[int, Tensor]:
        """The weights of each replica that is alive."""
        alive = self.wait_for({each: f"ask/{each}/{self.asked[each]}" for each in self.processes if self._lives(each)})
        for each in alive:
            self.store.set(f"answer/{each}/{self.asked[each]}", json.dumps({"stop": True}))
        return {
            each: torch.frombuffer(bytearray.fromhex(self.store.get(f"end/{each}").decode()), dtype=torch.float64)
            for each in alive
        }

    def _lives(self, number: int) -> bool:
        return self.processes[number].is_alive()

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.join()


def run(lives: Sequence[Life], steps: int, least: int = 1) -> tuple[list[Round], dict[int, Tensor]]:
    """The rounds of so many steps on real processes, and the weights of each replica that is alive at the end.

    Trouble where fewer than `least` replicas are alive, where their states differ after a step, or where an average
    fails although all of them are alive.
    """
    require_whole("steps", steps, "steps")
    require_whole("least", least, "replicas")
    rounds: list[Round] = []
    coordinator, step = _Coordinator(lives), 0
    try:
        while step < steps:
            coordinator.start(step)
            rounds.append(coordinator.meet(step, len(rounds), least))
            step += rounds[-1].taken
        return rounds, coordinator.finish()
    finally:
        coordinator.end()


def replay(rounds: Sequence[Round]) -> Tensor:
    """The weights after these rounds in one process: the mean of the gradients of those that took part."""
    own = Replica()
    for each in rounds:
        if each.taken:
            taking = [number for number in each.members if number not in each.copying]
            own.take(torch.stack([own.gradient(number) for number in taking]).mean(0))
    return own.weights
