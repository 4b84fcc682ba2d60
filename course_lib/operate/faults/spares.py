"""How many spare nodes: the fraction of time that a job waits for a repair, by Erlang's formula.

Failed nodes go to repair. The job runs while at most `spares` nodes are there, and waits while one more is; only a
running job fails. So the number in repair is Erlang's loss system with spares + 1 servers, and the answer depends on
the mean repair time alone.
"""

from course_lib.estimate.units import require, require_whole


def erlang_b(servers: int, load: float) -> float:
    """Probability that all `servers` are busy under an offered load of so many (arrival rate × mean service time)."""
    require_whole("servers", servers, "servers", least=0)
    require("load", load, "", open_below=False)
    blocked = 1.0
    for count in range(1, servers + 1):
        blocked = load * blocked / (count + load * blocked)
    return blocked


def waiting_fraction(spares: int, mtbf: float, repair: float) -> float:
    """Fraction of time in which the job waits for a node. `mtbf` of the whole job and mean `repair` time in seconds."""
    load = require("repair", repair, "s", open_below=False) / require("mtbf", mtbf, "s")
    return erlang_b(require_whole("spares", spares, "nodes", least=0) + 1, load)


def spares_needed(most_waiting: float, mtbf: float, repair: float) -> int:
    """The fewest spare nodes with which the job waits less than this fraction of the time."""
    require("most_waiting", most_waiting, "", most=1.0)
    spares = 0
    while waiting_fraction(spares, mtbf, repair) >= most_waiting:
        spares += 1
    return spares
