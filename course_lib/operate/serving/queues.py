"""Queues in closed form: how long requests wait for a server that is busy a fraction of the time.

λ is the arrival rate (1/s), S the mean service time (s), ρ = λS/c the utilization of c servers. Arrivals are Poisson.
All waits grow as 1/(1 − ρ), so a server that is always busy makes its users wait without bound. Little (1961), Erlang
(1917), Kingman (1961).
"""

import math

from course_lib.estimate.units import require, require_whole


def _load(rate: float, service: float, servers: int = 1) -> float:
    offered = require("rate", rate, "1/s", open_below=False) * require("service", service, "s")
    load = offered / require_whole("servers", servers)
    if load >= 1:
        raise ValueError(
            f"The load is {load:.3g} of what the servers can do; at 1 or more the queue grows without bound."
        )
    return load


def mg1_wait(rate: float, service: float, variation: float = 1.0) -> float:
    """Mean seconds in the queue of one server: Pollaczek–Khinchine. `variation` is the service time's deviation over
    its mean."""
    load = _load(rate, service)
    return load * service * (1 + require("variation", variation, open_below=False) ** 2) / (2 * (1 - load))


def mm1_wait(rate: float, service: float) -> float:
    """Mean seconds in the queue of one server with exponential service times."""
    return mg1_wait(rate, service, 1.0)


def md1_wait(rate: float, service: float) -> float:
    """Mean seconds in the queue of one server with constant service times: half of the exponential one's."""
    return mg1_wait(rate, service, 0.0)


def erlang_c(offered: float, servers: int) -> float:
    """The probability that an arrival finds all `servers` busy; `offered` = λS, less than `servers`."""
    servers = require_whole("servers", servers)
    offered = require("offered", offered, open_below=False)
    if offered >= servers:
        raise ValueError(f"offered is {offered:.3g} and there are {servers} servers; the queue grows without bound.")
    blocked = 1.0  # Erlang B by recursion over the number of servers
    for count in range(1, servers + 1):
        blocked = offered * blocked / (count + offered * blocked)
    return blocked / (1 - offered / servers * (1 - blocked))


def mmc_wait(rate: float, service: float, servers: int) -> float:
    """Mean seconds in one queue before `servers` servers with exponential service times."""
    load = _load(rate, service, servers)
    return erlang_c(rate * service, servers) * service / (servers * (1 - load))


def mmc_wait_quantile(rate: float, service: float, servers: int, share: float) -> float:
    """Seconds that a `share` of requests wait at most, of the same queue."""
    load = _load(rate, service, servers)
    waits = erlang_c(rate * service, servers)
    share = require("share", share, "a fraction of one", most=0.999999, open_below=False)
    return 0.0 if share <= 1 - waits else math.log(waits / (1 - share)) * service / (servers * (1 - load))


def servers_needed(rate: float, service: float, wait: float, share: float | None = None) -> int:
    """The fewest servers whose mean wait, or the wait of a `share` of requests, is at most `wait` seconds."""
    require("wait", wait, "s", open_below=False)
    servers = math.floor(rate * service) + 1
    while (
        mmc_wait(rate, service, servers) if share is None else mmc_wait_quantile(rate, service, servers, share)
    ) > wait:
        servers += 1
        if servers > 100_000:
            raise ValueError(f"No number of servers waits at most {wait:g} s.")
    return servers
