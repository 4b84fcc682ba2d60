"""Cores and threads of a machine that several ranks share. Standard library only: torch reads the number when it is
loaded."""

import os

from course_runs import machine


def cores() -> int:
    """Whole cores that this process may use, at least one."""
    return max(int(machine.cores()), 1)


def threads(ranks: int) -> int:
    """Threads of one of `ranks` on this machine: OMP_NUM_THREADS where it is a number, else the cores shared out.

    Without a number, or with an empty one, every rank would start as many threads as there are cores, and they would
    spin.
    """
    said = os.environ.get("OMP_NUM_THREADS", "")
    return int(said) if said.isdecimal() and int(said) > 0 else max(cores() // ranks, 1)
