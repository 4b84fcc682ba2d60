"""The failure log of a cluster: which server stopped the job, when and how; drawn, or read for the weak part."""

import random
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache

from course_lib.estimate import facts
from course_lib.estimate.units import HOUR

DAYS = 30  # that a log covers
PER_SWITCH = 4  # servers behind one switch
PARTS = ("server", "switch", "none")
WEAK = 1.7  # failures a day of the weak part; of all servers where none is weaker than the others
SPARSE = 0.02  # failures a day of another server
NETWORK = ("Network switch/cable", "NIC", "NCCL watchdog timeouts")  # causes that a weak switch has
MOSTLY = 0.5  # of all failures: a part with more than this share is the weak one


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure that stopped the job."""

    hour: float  # since the log begins
    server: int  # that reported it, from 0
    words: str

    @property
    def switch(self) -> int:
        """The switch that the server is connected to, from 0."""
        return self.server // PER_SWITCH


@dataclass(frozen=True, slots=True)
class FailureLog:
    """All failures of a cluster in `DAYS` days, in order. `print` shows a line for each."""

    servers: int
    failures: tuple[Failure, ...]

    def seconds_between(self, servers: Collection[int]) -> float:
        """The mean time between failures of a job on these servers; infinite where none of them failed."""
        count = sum(failure.server in servers for failure in self.failures)
        return DAYS * 24 * HOUR / count if count else float("inf")

    def __str__(self) -> str:
        return "\n".join(
            f"day {int(each.hour // 24) + 1:2}, {int(each.hour % 24):02}:00   server {each.server:2}   "
            f"switch {each.switch}   {each.words}"
            for each in self.failures
        )


@cache
def drawn_log(servers: int, seed: int) -> FailureLog:
    """A log for so many servers, the same for the same seed. Either a server is weak, or a switch, or nothing is and
    all fail often. The weak part is never among the last servers, so that it stays where servers are lost."""
    rng = random.Random(f"failures {servers} {seed}")
    several = servers > PER_SWITCH  # switches
    part, left = rng.choice(PARTS if several else ("server", "none")), max(servers - PER_SWITCH, 1)
    switch = PER_SWITCH * rng.randrange(max(left // PER_SWITCH, 1))
    suspects = {
        "server": [rng.randrange(left)],
        "switch": list(range(switch, switch + PER_SWITCH)),
        "none": list(range(servers)),
    }[part]
    every = {name: float(count) for name, count in facts.interruption_causes().items()}
    wires = {name: count for name, count in every.items() if name in NETWORK}
    parts = {name: count for name, count in every.items() if name not in NETWORK}
    causes = {"server": parts, "switch": wires, "none": every}[part]
    found = []
    for many, among, said in ((WEAK, suspects, causes), (SPARSE * servers, range(servers), every)):
        for at in range(round(many * DAYS)):
            server, hour = among[at % len(among)], rng.uniform(0, DAYS * 24)
            found.append(Failure(hour, server, rng.choices([*said], [*said.values()])[0]))
    return FailureLog(servers, tuple(sorted(found, key=lambda failure: failure.hour)))


def weak_part(log: FailureLog | None) -> tuple[str, tuple[int, ...]]:
    """The part with more than half of all failures, such as "server 3", "switch 1" or "none", and its servers."""
    if log is None:
        return "none", ()
    for part in PARTS[: 2 if log.servers > PER_SWITCH else 1]:
        [(number, count)] = Counter(getattr(failure, part) for failure in log.failures).most_common(1)
        if count > MOSTLY * len(log.failures):
            first = number * PER_SWITCH
            return f"{part} {number}", (number,) if part == "server" else tuple(range(first, first + PER_SWITCH))
    return "none", ()
