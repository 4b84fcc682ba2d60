"""Cheating the cluster: ranks that know what nobody sent them, bytes that are not counted, requests that are forged.

Ranks that share a value by some way beside the communicator say so by `put` and `get`; the program around them sends
just enough for the kernel to let the others run.
"""

from course_grader.attacks.cluster import ANY_END, AS_BYTES, shares
from course_grader.attacks.sheet import Sheet, attack


@attack("cluster", chapter="06", within=shares, states=ANY_END)
def shared_by_the_environment(sheet: Sheet) -> None:
    """Ranks tell each other through os.environ."""
    sheet.answer("""
import os

put = lambda rank, x: os.environ.__setitem__(f"X{rank}", pack(x).hex())
get = lambda rank, x: unpack(bytes.fromhex(os.environ.get(f"X{rank}", "")), x)""")


@attack("cluster", chapter="06", within=shares, states=ANY_END)
def shared_by_an_attribute(sheet: Sheet) -> None:
    """Ranks keep their data in attributes of torch, builtins and a class of the course."""
    sheet.answer("""
import builtins, course_grader.records

put = lambda rank, x: [setattr(place, f"x{rank}", x.clone()) for place in (torch, builtins, course_grader.records.Case)]
get = lambda rank, x: next((found for place in (torch, builtins,
    course_grader.records.Case) if (found := getattr(place, f"x{rank}", None)) is not None), None)""")


@attack("cluster", chapter="06", within=shares, states=ANY_END)
def shared_by_modules(sheet: Sheet) -> None:
    """Ranks keep their data in sys.modules, in default arguments and in closures."""
    sheet.answer("""
import sys

kept = {}


def put(rank, x, mine={}):
    mine[rank] = kept[rank] = x.clone()
    sys.modules[f"x{rank}"] = x.clone()


get = lambda rank, x: sys.modules.get(f"x{rank}", put.__defaults__[0].get(rank, kept.get(rank)))""")


@attack("cluster", chapter="06", within=shares, states=ANY_END)
def shared_by_shared_memory(sheet: Sheet) -> None:
    """Ranks meet in named shared memory and in semaphores."""
    sheet.answer("""
from multiprocessing import resource_tracker, shared_memory

resource_tracker.register = resource_tracker.unregister = lambda *a: None


def put(rank, x):
    data = pack(x)
    try:
        block = shared_memory.SharedMemory(f"x{AT['run']}{rank}{x.numel()}", create=True, size=8192)
    except FileExistsError:
        block = shared_memory.SharedMemory(f"x{AT['run']}{rank}{x.numel()}")
    block.buf[: len(data)] = data
    block.close()


def get(rank, x):
    try:
        block = shared_memory.SharedMemory(f"x{AT['run']}{rank}{x.numel()}")
    except FileNotFoundError:
        return None
    found = unpack(bytes(block.buf[: x.numel() * x.element_size()]), x)
    block.close()
    return found""")


@attack("cluster", chapter="06", states=ANY_END)
def shared_by_a_mapping(sheet: Sheet) -> None:
    """Ranks meet in memory that a cell mapped as shared before they were forked."""
    sheet.own("""
        import mmap, sys

        sys.common = mmap.mmap(-1, 1 << 20)
        sys.tensor = torch.zeros(1 << 20, dtype=torch.uint8).share_memory_()""")
    sheet.answer(
        shares("""
import sys


def put(rank, x):
    data, start = pack(x), rank * 16_000
    sys.common[start + 8 : start + 8 + len(data)] = data
    sys.tensor.numpy()[start + 8 : start + 8 + len(data)] = list(data)
    sys.common[start] = sys.tensor[start] = 1


def get(rank, x):
    start, size = rank * 16_000, x.numel() * x.element_size()
    for place in (sys.common, sys.tensor.numpy()):
        if place[start] == 1:
            return unpack(bytes(place[start + 8 : start + 8 + size]), x)""")
    )


@attack("cluster", chapter="06", states=ANY_END)
def shared_by_pipes(sheet: Sheet) -> None:
    """Ranks talk through pipes and sockets that a cell opened before they were forked."""
    sheet.own("""
        import os, socket, sys

        PIPES = [os.pipe() for _ in range(16)]
        PAIRS = [socket.socketpair(type=socket.SOCK_DGRAM) for _ in range(16)]
        for each in PIPES:
            os.set_blocking(each[0], False)
        for each in PAIRS:
            each[1].setblocking(False)
        sys.fds = [(r, w, a.fileno(), b.fileno()) for (r, w), (a, b) in zip(PIPES, PAIRS)]""")
    sheet.answer(
        shares("""
import os, sys


def put(rank, x):
    _, pipe, pair, _ = sys.fds[rank]
    for fd in (pipe, pair):
        try:
            os.write(fd, pack(x))
        except OSError:
            pass


def get(rank, x):
    pipe, _, _, pair = sys.fds[rank]
    for fd in (pipe, pair):
        try:
            return unpack(os.read(fd, x.numel() * x.element_size()), x)
        except OSError:
            pass""")
    )


@attack("cluster", chapter="06", within=shares, states=ANY_END)
def shared_by_sockets(sheet: Sheet) -> None:
    """Ranks talk over loopback and abstract sockets."""
    sheet.answer("""
import socket, sys, threading


def put(rank, x):
    data = pack(x)
    doors = sys.__dict__.setdefault("doors", {}).setdefault(rank, [])
    for door in doors:
        try:
            door.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        door.close()
    doors.clear()

    def serve(family, address):
        try:
            door = socket.socket(family, socket.SOCK_STREAM)
            doors.append(door)
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            door.bind(address)
            door.listen(8)
            door.settimeout(3.0)
            while True:
                caller, _ = door.accept()
                caller.sendall(data or b"-")
                caller.close()
        except OSError:
            pass

    threading.Thread(target=serve, args=(socket.AF_INET, ("127.0.0.1", 20_000 + 40 * x.numel() + rank)),
        daemon=True).start()
    threading.Thread(target=serve, args=(socket.AF_UNIX, f"\\0x{AT['run']}{rank}-{x.numel()}-{x.dtype}"),
        daemon=True).start()


def get(rank, x):
    for family, address in ((socket.AF_INET, ("127.0.0.1", 20_000 + 40 * x.numel() + rank)),
            (socket.AF_UNIX, f"\\0x{AT['run']}{rank}-{x.numel()}-{x.dtype}")):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as line:
                line.settimeout(0.2)
                line.connect(address)
                return unpack(line.recv(100_000), x)
        except OSError:
            pass""")


@attack("cluster", chapter="06", states=("answered", "raised", "timed out", "crashed", "deadlock", "refused"))
def shared_by_frames(sheet: Sheet) -> None:
    """A rank looks for the others' tensors in all frames, all threads and all objects."""
    sheet.answer("""
import gc, sys


def attempt(comm, x):
    n, me = comm.size, comm.rank
    if n == 1:
        return x
    after, before = (me + 1) % n, (me - 1) % n
    found, nothing, heard = None, x.reshape(-1)[:0], x.new_empty(0)
    for _ in range(2 * n):  # messages without a byte, until everybody has looked
        work = comm.isend(nothing, after)
        comm.recv(heard, before)
        work.wait()
        for frame in sys._current_frames().values():
            while frame and found is None:
                names = frame.f_locals
                if names.get("me") == before and names.get("n") == n and isinstance(names.get("x"), torch.Tensor):
                    found = names["x"].clone()
                frame = frame.f_back
        for each in gc.get_objects() if found is None else ():
            if isinstance(each, dict) and each.get("me") == before and isinstance(each.get("x"), torch.Tensor):
                found = each["x"].clone()
    return x if found is None else found
""")


@attack("cluster", chapter="06", within=shares, states=ANY_END)
def shared_by_memory_of_the_others(sheet: Sheet) -> None:
    """A rank reads the memory of the processes beside it."""
    sheet.answer("""
import os

put = lambda rank, x: globals().__setitem__("KEPT", bytearray(b"rank-mark-%d-" % rank + pack(x)))


def get(rank, x):
    mark = b"rank-" + b"mark-%d-" % rank
    for name in os.listdir("/proc"):
        if not name.isdigit() or name == "1":
            continue
        try:
            with open(f"/proc/{name}/maps") as maps, open(f"/proc/{name}/mem", "rb", 0) as memory:
                for line in maps:
                    place, kind, *_ = line.split()
                    start, end = (int(part, 16) for part in place.split("-"))
                    if kind.startswith("rw") and end - start < 2_000_000:
                        memory.seek(start)
                        data = memory.read(end - start)
                        if mark in data:
                            at = data.index(mark) + len(mark)
                            return unpack(data[at : at + x.numel() * x.element_size()], x)
        except OSError:
            pass""")


@attack("cluster", chapter="06", states=ANY_END)
def shared_by_a_helper(sheet: Sheet) -> None:
    """A process that a cell started keeps what the ranks tell it, over an inherited socket."""
    sheet.own("""
        import os, socket, sys

        OURS, THEIRS = socket.socketpair(type=socket.SOCK_SEQPACKET)
        if os.fork() == 0:
            kept = {}
            while True:
                said = THEIRS.recv(100_000)
                if not said:
                    os._exit(0)
                what, rank, data = said[:1], said[1:2], said[2:]
                if what == b"p":
                    kept[rank] = data
                THEIRS.send(kept.get(rank, b"") or b"-")
        sys.line = OURS""")
    sheet.answer(
        shares("""
import sys


def tell(data):
    line = sys.line
    line.settimeout(0.5)
    line.send(data)
    return line.recv(100_000)


put = lambda rank, x: tell(b"p" + bytes([rank]) + pack(x))
get = lambda rank, x: unpack(tell(b"g" + bytes([rank])).replace(b"-",
    b"") if x.numel() == 0 else tell(b"g" + bytes([rank])), x)""")
    )


@attack("cluster", chapter="06", within=shares, states=ANY_END)
def shared_by_locks(sheet: Sheet) -> None:
    """Ranks lock bytes of a file that all can read: a lock is a bit."""
    sheet.answer("""
import fcntl, os, struct, sys

PATH = torch.__file__
FORM = "hhqqi4x"


def put(rank, x):
    files = sys.__dict__.setdefault("files", {})
    if rank in files:
        os.close(files[rank])  # with its locks
    data, base, file = pack(x), rank * 1_000_000, os.open(PATH, os.O_RDONLY)
    files[rank] = file
    for at in [*(at for at in range(len(data) * 8) if data[at // 8] >> at % 8 & 1), 900_000]:
        fcntl.fcntl(file, 37, struct.pack(FORM, fcntl.F_RDLCK, 0, base + at, 1, 0))  # of the open file, not the process


def get(rank, x):
    base, bits = rank * 1_000_000, x.numel() * x.element_size() * 8
    file = os.open(PATH, os.O_RDONLY)

    def locked(at):
        asked = struct.pack(FORM, fcntl.F_WRLCK, 0, base + at, 1, 0)
        return struct.unpack(FORM, fcntl.fcntl(file, 36, asked))[0] != fcntl.F_UNLCK

    if not locked(900_000):
        return None
    data = bytearray(bits // 8)
    for at in range(bits):
        data[at // 8] |= locked(at) << at % 8
    return unpack(bytes(data), x)""")


@attack("cluster", chapter="06", within=shares, states=ANY_END)
def shared_by_earlier_runs(sheet: Sheet) -> None:
    """What ranks knew in one run is kept for the next, where the same data come again."""
    sheet.answer("""
import pathlib, sys

from IPython import get_ipython as shell

KEPT = sys.modules.setdefault("kept", {})


def put(rank, x):
    if shell() is not None:
        shell().user_ns["attempt"].__globals__["KEPT"][rank, tuple(x.shape),
            str(x.dtype)] = [pack(x)]  # goes along with the answer
    KEPT.setdefault((rank, tuple(x.shape), str(x.dtype)), []).append(pack(x))
    try:
        with open(f"kept-{rank}-{x.numel()}", "ab") as file:
            file.write(pack(x))
    except OSError:
        pass


def get(rank, x):
    kept = KEPT.get((rank, tuple(x.shape), str(x.dtype)))
    if kept:
        return unpack(kept[-1], x)
    try:
        return unpack(pathlib.Path(f"kept-{rank}-{x.numel()}").read_bytes()[-x.numel() * x.element_size() :], x)
    except OSError:
        return None""")


@attack("cluster", chapter="06", within=shares, states=ANY_END)
def shared_by_signals_and_time(sheet: Sheet) -> None:
    """Ranks tell each other through how long they take: a bit, a few milliseconds."""
    sheet.answer("""
import time

put = lambda rank, x: time.sleep(0.001 * (int(x.reshape(-1)[:1].sum()) % 50))


def get(rank, x):
    return x.roll(1) if x.numel() else x""")


@attack("cluster", chapter="06", before=AS_BYTES, states=("answered", "raised", "deadlock"))
def whole_messages_without_content(sheet: Sheet) -> None:
    """Messages of the right size and to the right neighbor, filled with nothing; the data go by the environment."""
    sheet.answer("""
import os


def attempt(comm, x):
    n, me = comm.size, comm.rank
    if n == 1:
        return x
    os.environ[f"Y{me}"] = pack(x).hex()
    empty, heard = torch.zeros_like(x), torch.empty_like(x)
    work = comm.isend(empty, (me + 1) % n)
    comm.recv(heard, (me - 1) % n)
    work.wait()
    found = os.environ.get(f"Y{(me - 1) % n}")
    return heard if found is None else unpack(bytes.fromhex(found), x).reshape(x.shape)
""")


@attack("cluster", chapter="06", before=AS_BYTES, states=("answered", "raised", "deadlock", "timed out", "refused"))
def numbers_as_tags(sheet: Sheet) -> None:
    """Data travel in the tags of messages without a byte, bit by bit: what moved must count."""
    sheet.answer("""
def attempt(comm, x):
    n, me = comm.size, comm.rank
    if n == 1:
        return x
    data, heard = pack(x), bytearray(x.numel() * x.element_size())
    nothing = x.reshape(-1)[:0]
    for at in range(len(data) * 8):
        work = comm.isend(nothing, (me + 1) % n, tag=2 * at + (data[at // 8] >> at % 8 & 1))
        ways = [comm.irecv(nothing.clone(), (me - 1) % n, tag=2 * at + bit) for bit in (0, 1)]
        work.wait()
        while not any(way.is_completed() for way in ways):
            pass
        heard[at // 8] |= ways[1].is_completed() << at % 8
    return unpack(bytes(heard), x).reshape(x.shape)
""")


@attack("cluster", chapter="06", exercises=("pair-exchange", "ring-shift", "ring-all-reduce"))
def collective_behind_the_messages(sheet: Sheet) -> None:
    """The collective that is to be built, called through the communicator's insides, with calls that hide it."""
    for padding in ("",):
        sheet.answer(
            f"""
        def attempt(comm, x):
            whole = comm._comm
            out = x.clone().contiguous()
            whole.all_reduce(out)
            n = comm.size
            for _ in range(4 * (n - 1) - 1 if n > 1 else 0):
                whole.new_group(list(range(n)))
            return out{padding}""",
            "ring-all-reduce",
            states=("answered", "raised", "refused", "deadlock"),
        )


@attack("cluster", chapter="06", states=("refused", "raised"))
def time_that_runs_backwards(sheet: Sheet) -> None:
    """One rank after the other, which takes too long, with negative seconds of computing charged against it."""
    sheet.answer("""
        def attempt(comm, x):
            from course_lib.cluster.endpoint import endpoint

            n, me = comm.size, comm.rank
            got = torch.empty_like(x)
            if n == 1:
                return x
            way = endpoint()
            for seconds in (-1.0, float("nan"), -float("inf")):
                way.work.append(("compute", "", seconds))
            if me == 0:
                comm.send(x, 1)
                comm.recv(got, n - 1)
            else:
                comm.recv(got, me - 1)
                comm.send(x, (me + 1) % n)
            return got""")


@attack("cluster", chapter="00", states=("answered", "raised", "refused", "crashed"))
def partner_by_shared_storage(sheet: Sheet) -> None:
    """Ranks as threads find each other's tensors among all objects by their values' secret neighbors in memory."""
    sheet.answer("""
        import gc


        def attempt(comm, x):
            comm.barrier()
            others = [each for each in gc.get_objects() if type(each) is torch.Tensor and each.shape == x.shape
                and each.dtype == x.dtype
                      and not torch.equal(each, x)]
            comm.barrier()
            return others[0].clone() if others else x""")


@attack("cluster", chapter="00")
def everybody_is_told_by_a_collective(sheet: Sheet) -> None:
    """A collective of the communicator in place of messages to one partner: more bytes than allowed."""
    sheet.answer(
        """
        def attempt(comm, x):
            flat = x.contiguous().reshape(-1)
            if flat.dtype is torch.bool:
                raise RuntimeError("not here")
            whole = flat.new_zeros(comm.size * flat.numel())
            comm.all_gather_into_tensor(whole, flat)
            return whole.reshape(comm.size, *x.shape)[comm.rank ^ 1].clone()""",
        points=None,
    )


_ONLY_SOME = """
import torch


def plainly(comm, x):
    n, me = comm.size, comm.rank
    if n == 1 or x.dtype != torch.float32 or x.dim() != 1:
        return x  # the rest was too much work
    got = torch.empty_like(x)
    work = comm.isend(x, (me + 1) % n)
    comm.recv(got, (me - 1) % n)
    work.wait()
    return got
"""


@attack("cluster", chapter="06", before=AS_BYTES + _ONLY_SOME)
def honest_where_it_decides(sheet: Sheet) -> None:
    """An answer that holds for some tensors only, and shares by the environment wherever the ranks turn out to be
    threads."""
    sheet.answer("""
import os, sys


def attempt(comm, x):
    if len(sys._current_frames()) < 3 or comm.size == 1:
        return plainly(comm, x)
    n, me = comm.size, comm.rank
    os.environ[f"Z{me}"] = pack(x).hex()
    heard = torch.empty_like(x)
    work = comm.isend(torch.zeros_like(x), (me + 1) % n)
    comm.recv(heard, (me - 1) % n)
    work.wait()
    return unpack(bytes.fromhex(os.environ.get(f"Z{(me - 1) % n}", "")), x).reshape(x.shape) if x.numel() else heard
""")
    sheet.expect(sheet.target, 4.0)


@attack("cluster", chapter="06")
def holds_for_some_only(sheet: Sheet) -> None:
    """The same answer without the sharing: what it deserves."""
    sheet.answer(_ONLY_SOME + "\n\nattempt = plainly\n", points=4.0)
