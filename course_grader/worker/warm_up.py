"""Work that every worker will do, done a few times by the fork server: no learner code, nothing that judges.

Python specializes code during its first runs, torch and IPython look up more on a first call, and a fork must copy each
page that is written to. In CPU time, a fork's first cell took 3.4 ms before and 1.2 ms after, its first message with a
tensor 1.5 and 0.6 ms, and its first case 0.6 and 0.4 ms.
"""

import os
import pickle
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING

from course_grader import exercises
from course_grader.records import Case
from course_grader.remote_ranks import trusted_pickle
from course_grader.remote_ranks.codec import encode
from course_grader.worker.process_state import seed_everything
from course_grader.worker.runners import run_probe

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell
    from torch import Tensor

    from course_lib.cluster import Comm

_TIMES = 12  # enough for Python 3.11 to have specialized the code
_CELL = "import math\n\ndef warmed_up(x):\n    return math.sqrt(x)\n\nwarmed_up(2.0)"


def warm_up(shell: "InteractiveShell", torch: bool) -> None:
    """Run a cell, a case, a message, and with torch a few communicating ranks. Leaves no name behind."""
    before = set(shell.user_ns)
    for _ in range(_TIMES):
        seed_everything()
        shell.run_cell(_CELL, store_history=False, silent=True)
        _case(_like_data(torch))
    if torch:
        _ranks()
        _until_alone()
    for name in set(shell.user_ns) - before:
        del shell.user_ns[name]
    seed_everything()


def _like_data(torch: bool) -> list[object]:
    if not torch:
        return [1, 2.0, "three", None]
    import torch as module

    x = module.linspace(0, 1, 12).reshape(3, 4)
    return [1, 2.0, "three", None, (x @ x.T).sum(-1), x.exp().long()]


def _case(data: object) -> None:
    request = trusted_pickle.unpack(trusted_pickle.pack({"do": "probe", "args": (data,), "kwargs": {}}))
    outcome = run_probe(exercises.call, Case(name="", args=request["args"]), lambda given: given)
    encode({"state": outcome.state, "value": outcome.value})


def _talk(comm: "Comm", x: "Tensor") -> "Tensor":
    """What the ranks do: send, receive, reduce."""
    near, far = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    got = x.clone()
    for work in (comm.isend(x, near), comm.irecv(got, far)):
        work.wait()
    comm.all_reduce(x)
    return x + got


def _ranks() -> None:
    """Runs of two ranks in this process, for a judge in another of its threads."""
    import torch

    from course_grader import remote_ranks
    from course_grader.remote_ranks.remote_judge import judge_ranks
    from course_grader.remote_ranks.remote_worker import serve_ranks
    from course_lib.cluster.adversary import Adversary
    from course_lib.cluster.isolate import pack

    for late in (False, True, False, True):
        judges, ours = socket.socketpair()
        with judges, ours:
            more = {"per_rank": [torch.ones(4), torch.zeros(4)], "adversary": Adversary(late=late)}
            judge = threading.Thread(target=judge_ranks, args=(judges, 2), kwargs=more)
            judge.start()
            serve_ranks(ours, pickle.loads(pack(_talk)))
            judge.join()
    del (
        sys.modules["course_grader.remote_ranks.remote_judge"],
        remote_ranks.remote_judge,
    )  # no worker has the judge's side


def _until_alone() -> None:
    """Return once no other thread is left; a joined thread may still be ending."""
    until = time.monotonic() + 5.0
    while len(os.listdir("/proc/self/task")) > 1 and time.monotonic() < until:
        time.sleep(0.001)
