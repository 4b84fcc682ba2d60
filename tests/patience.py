"""How long a test waits for a process or a server before it calls it stuck: on a busy machine as many times longer as
it is slower."""

import os


def patience(seconds: float) -> float:
    """These seconds of an idle machine, times the tasks that now share a core of this one."""
    try:
        busy = os.getloadavg()[0] / (os.cpu_count() or 1)
    except OSError:  # not known here
        busy = 1.0
    return seconds * max(1.0, busy)
