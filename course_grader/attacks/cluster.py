"""Cheating the cluster: ranks that know what nobody sent them, bytes that are not counted, requests that are forged.

Ranks that share a value by some way beside the communicator say so by `put` and `get`; the program around them sends
just enough for the kernel to let the others run.
"""

from course_grader.attacks.sheet import Sheet, attack

SILENT = """


def attempt(comm, x):
    import time

    n, me = comm.size, comm.rank
    if n == 1:
        return x
    put(me, x)
    after, before = (me + 1) % n, (me - 1) % n
    nothing, heard = x.reshape(-1)[:0], x.new_empty(0)
    for _ in range(2):  # messages without a byte let everybody have their turn
        work = comm.isend(nothing, after)
        comm.recv(heard, before)
        work.wait()
    for _ in range(200):
        found = get(before, x)
        if found is not None:
            return found.reshape(x.shape).to(x.dtype)
        time.sleep(0.001)
    raise RuntimeError("nothing was shared")
"""


AS_BYTES = """
import torch


def pack(x):
    return x.detach().clone().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def unpack(data, x):
    return torch.frombuffer(bytearray(data), dtype=x.dtype)[: x.numel()] if data else None
"""


ANY_END = ("answered", "raised", "timed out", "crashed", "deadlock", "refused")


def shares(ways: str) -> str:
    """The attacked exercise answered through `put(rank, x)` and `get(rank, like)`."""
    return AS_BYTES + ways + SILENT


@attack("cluster", chapter="06", within=shares, states=ANY_END)
def shared_by_files(sheet: Sheet) -> None:
    """Ranks write files, in the folder, in /tmp and in /dev/shm."""
    sheet.answer("""
import pathlib, time

PLACES = [pathlib.Path(place) for place in (".", "/tmp", "/dev/shm", "/var/tmp")]


def put(rank, x):
    for place in PLACES:
        try:
            (place / f"planted-{AT['run']}-{rank}.part").write_bytes(pack(x))
            (place / f"planted-{AT['run']}-{rank}.part").rename(place / f"planted-{AT['run']}-{rank}")
        except OSError:
            pass


def get(rank, x):
    time.sleep(0.002)
    for place in PLACES:
        try:
            return unpack((place / f"planted-{AT['run']}-{rank}").read_bytes(), x)
        except OSError:
            pass""")
    sheet.files["x"] = b""


@attack("cluster", chapter="06", states=("answered", "raised", "refused", "deadlock", "timed out", "crashed"))
def another_ranks_identity(sheet: Sheet) -> None:
    """A rank takes another's way out, and hands in results and messages in its name."""
    sheet.answer("""
        import gc


        def attempt(comm, x):
            from course_lib.cluster import endpoint as endpoint_module
            from course_lib.cluster.protocol import Request

            ends = [each for each in gc.get_objects() if isinstance(each, endpoint_module.Endpoint)]
            other = next((each for each in ends if each.rank == (comm.rank + 1) % comm.size), None)
            if other is not None:
                endpoint_module.here.endpoint = other
                try:
                    other.call(Request(other.rank, "done", data=x))
                finally:
                    endpoint_module.here.endpoint = None
            me = endpoint_module.endpoint() if endpoint_module.here.endpoint else None
            return x""")


@attack("cluster", chapter="06", states=("answered", "raised", "refused", "deadlock", "timed out", "crashed"))
def forged_requests(sheet: Sheet) -> None:
    """Requests in the wire's own form: other ranks, unknown operations, tensors of another size than said."""
    sheet.answer("""
        import gc


        def attempt(comm, x):
            from course_grader.remote_ranks import wire

            link = next((each for each in gc.get_objects() if type(each).__name__ == "SocketLink"), None)
            if link is not None:
                for frame in (((comm.rank + 1) % comm.size, "done", None, (x, None)), (comm.rank, "free", None, (0,)),
                              (comm.rank, "isend", None, ((comm.rank + 1) % comm.size, 0, 0, "", None)), (comm.rank,
                                  "done", None, (x, {"flops": -1}))):
                    wire.send(link.sock, frame)
            return x""")


@attack("cluster", chapter="06")
def meter_in_the_worker(sheet: Sheet) -> None:
    """Everything twice to everybody, with the worker's copy of the meter and of the tensors' sizes set to nothing."""
    sheet.answer(
        """
        import course_lib.cluster.meter as meter

        meter.Meter.as_dict = lambda self: {"bytes_sent": [0] * 99, "bytes_received": [0] * 99, "pairs": []}


        def attempt(comm, x):
            n, me = comm.size, comm.rank
            torch.Tensor.nbytes = property(lambda self: 0)
            torch.Tensor.numel = lambda self: 0
            got = torch.empty_like(x)
            for step in range(1, n):
                for _ in range(2):
                    heard = torch.empty_like(x)
                    work = comm.isend(x, (me + step) % n)
                    comm.recv(heard, (me - step) % n)
                    work.wait()
                    got = heard if step == 1 else got
            return got if n > 1 else x""",
        points=None,
    )
    sheet.said = []
    sheet.expect("pair-exchange", None)
