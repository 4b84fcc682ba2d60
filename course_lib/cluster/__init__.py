"""The metered cluster: an ordinary function of a communicator, run on any number of ranks in one process.

    def token(comm):
        ...comm.rank, comm.size, comm.send, comm.recv, comm.isend, comm.irecv...

    run = simulate(token, ranks=8)
    run.results[3], run.meter.bytes_sent[3], run.seconds, run.show()

The function may use `torch.distributed` as well: its group is there from the start (`torch_world`).

Every run checks tensors in flight. Between `isend`, `irecv` or an asynchronous collective and its `wait()`, a tensor
that is sent must not be written, and a tensor that is filled must be neither read nor written. Every such call must be
waited for. If a run breaks this rule, `simulate` raises `InFlight` at its end, with the call, the tensor and both
lines. `attempt`, and thus a graded run, continues and records the violations in `run.hazards`; the adversaries decide
what an answer loses, and the hazard explains it. `in_flight` describes which accesses are not detected.

Names are loaded when they are first used, so that the codec works without torch.
"""

from course_lib.lazy import on_first_use

__getattr__, __dir__, __all__ = on_first_use(__name__, older={"launch": "launcher"})
