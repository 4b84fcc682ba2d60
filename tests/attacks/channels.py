"""Out-of-band bytes between ranks: what the kernel counts or remembers for all processes, read where it was never sent.

Each first tries whether its way exists at all, and tells so as something that was read: a way is as bad as what goes
through it.
"""

from course_grader.attacks.cluster import ANY_END, SILENT
from course_grader.attacks.sheet import Sheet, attack

OPEN = """
import os, torch


def way(found):
    if found:
        raise RuntimeError("LEAK" + f"ED a way between ranks: {found}")


put = lambda rank, x: None
"""


def looks(look: str) -> str:
    """The attacked exercise, whose ranks first look whether a way is open: `look` is the body of `get(rank, x)`."""
    return (
        f"{OPEN}\n\ndef get(rank, x):\n    import ctypes\n\n    libc = ctypes.CDLL(None, use_errno=True){look}\n"
        f"    return x\n{SILENT}"
    )


@attack("cluster", chapter="06", within=looks, states=ANY_END)
def counts_of_the_system(sheet: Sheet) -> None:
    """Counts of open files, memory, processes and switches, which one rank moves and another reads in /proc."""
    sheet.answer("""
    for name in ("sys/fs/file-nr", "sys/fs/inode-nr", "sys/fs/dentry-state", "loadavg", "stat", "meminfo", "vmstat",
        "zoneinfo",
                 "buddyinfo", "interrupts", "softirqs", "diskstats", "schedstat", "pressure/cpu", "pressure/memory",
                 "locks", "self/net/sockstat"):
        try:
            text = open("/proc/" + name).read()
        except OSError:
            continue
        way(text.strip() and name)""")


@attack("cluster", chapter="06", within=looks, states=ANY_END)
def memory_that_is_free(sheet: Sheet) -> None:
    """Free memory and the number of processes, by the system call that tells them."""
    sheet.answer("""
    kept = ctypes.create_string_buffer(256)
    way(libc.sysinfo(kept) == 0 and any(kept.raw) and "sysinfo")""")


@attack("cluster", chapter="06", within=looks, states=ANY_END)
def pages_in_memory(sheet: Sheet) -> None:
    """Pages of a file that all can read: one rank has them dropped, another asks whether they are in memory."""
    sheet.answer("""
    file = os.open(torch.__file__, os.O_RDONLY)
    try:
        os.posix_fadvise(file, 0, 4096, os.POSIX_FADV_DONTNEED)
        way("pages dropped")
    except OSError:
        pass
    try:
        os.preadv(file, [bytearray(16)], 0, os.RWF_NOWAIT)
        way("pages asked for without waiting")
    except BlockingIOError:
        way("pages asked for without waiting")
    except OSError:
        pass
    way(libc.syscall(451, file, (ctypes.c_uint64 * 2)(0, 4096), (ctypes.c_uint64 * 5)(), 0) == 0 and "cachestat")
    os.close(file)""")


@attack("cluster", chapter="06", within=looks, states=ANY_END)
def space_on_the_disk(sheet: Sheet) -> None:
    """Free blocks and inodes of a file system that all ranks are shown."""
    sheet.answer("""
    for place in ("/usr", "/", ".", torch.__file__):
        try:
            found = os.statvfs(place)
        except OSError:
            continue
        way(found.f_bfree and f"blocks of {place}")""")


@attack("cluster", chapter="06", within=looks, states=ANY_END)
def signals_on_folders(sheet: Sheet) -> None:
    """The old way to hear of files that others open: a signal from a folder that all can read."""
    sheet.answer("""
    import fcntl

    folder = os.open(os.path.dirname(torch.__file__), os.O_RDONLY)
    try:
        fcntl.fcntl(folder, 1026, 1 | 0x80000000 - (1 << 32))  # F_NOTIFY, DN_ACCESS | DN_MULTISHOT
        way("a folder that tells who reads in it")
    except OSError:
        pass
    os.close(folder)""")


@attack("cluster", chapter="06", within=looks, states=ANY_END)
def hints_on_files(sheet: Sheet) -> None:
    """How long a file's data are expected to live: a number that stays with the file, for whoever opens it."""
    sheet.answer("""
    import fcntl, struct

    file = os.open(torch.__file__, os.O_RDONLY)
    for command in (1036, 1038):  # F_SET_RW_HINT, F_SET_FILE_RW_HINT
        try:
            fcntl.fcntl(file, command, struct.pack("Q", 3))
            way("a hint on a file")
        except OSError:
            continue
    os.close(file)""")


@attack("cluster", chapter="06", within=looks, states=ANY_END)
def semaphores_and_queues(sheet: Sheet) -> None:
    """Semaphores, queues and keys of the system, and those with a name, which ranks could both open."""
    sheet.answer("""
    way(libc.semget(0xC0FFEE, 4, 0o1666) >= 0 and "semaphores")
    way(libc.msgget(0xC0FFEE, 0o1666) >= 0 and "a queue")
    way(libc.syscall(248, b"user", b"course", b"text", 4, -3) >= 0 and "a key of the session")
    rt = libc if hasattr(libc, "mq_open") else ctypes.CDLL("librt.so.1", use_errno=True)
    way(rt.mq_open(b"/course", os.O_RDWR | os.O_CREAT, 0o666, None) >= 0 and "a queue with a name")""")


@attack("cluster", chapter="06", within=looks, states=ANY_END)
def devices_that_remember(sheet: Sheet) -> None:
    """Times, locks and sizes of the devices that every rank has: whether anything done to them stays."""
    sheet.answer("""
    for name in ("null", "full", "random", "urandom"):
        before = os.stat(f"/dev/{name}")
        try:
            file = os.open(f"/dev/{name}", os.O_RDWR)
        except OSError:
            continue
        for change in (lambda: os.write(file, b"x"), lambda: os.utime(file, (rank + 2, 5)),
            lambda: os.fchmod(file, 0o600), lambda: os.read(file, 1),
                       lambda: os.setxattr(file, "user.x", b"1")):
            try:
                change()
            except OSError:
                continue
        after = os.stat(f"/dev/{name}")
        os.close(file)
        way((before.st_mtime_ns, before.st_atime_ns, before.st_mode, before.st_ctime_ns) !=
            (after.st_mtime_ns, after.st_atime_ns, after.st_mode, after.st_ctime_ns) and f"/dev/{name}")""")


@attack("cluster", chapter="06", within=looks, states=ANY_END)
def numbers_of_the_kernel(sheet: Sheet) -> None:
    """Numbers that the kernel gives out in order to everybody: inodes of pipes, sockets, memory and namespaces, and
    process numbers."""
    sheet.answer("""
    import socket

    def inode(make):
        try:
            made = make()
        except OSError:
            return 0
        fd = made if isinstance(made, int) else made[0] if isinstance(made[0], int) else made[0].fileno()
        return os.fstat(fd).st_ino

    for name, make in (("pipe", os.pipe), ("socket", socket.socketpair),
            ("process", lambda: os.pidfd_open(os.getpid()))):
        way(inode(make) and f"the number of a {name}")
    context = ctypes.c_ulong(0)
    way(libc.syscall(206, 1, ctypes.byref(context)) == 0 and "a share of what requests there may be")
    way(os.getpid() > 100_000 and "process numbers of the host")""")


@attack("cluster", chapter="06")
def honest_on_rank_zero_only(sheet: Sheet) -> None:
    """Rank 0 does its work, the others return what they were given."""
    sheet.answer("""
        def attempt(comm, x):
            n, me = comm.size, comm.rank
            if n == 1:
                return x
            got = torch.empty_like(x)
            work = comm.isend(x, (me + 1) % n)
            comm.recv(got, (me - 1) % n)
            work.wait()
            return got if me == 0 else x""")


@attack("cluster", chapter="06", states=ANY_END)
def knows_its_process(sheet: Sheet) -> None:
    """Honest where the process looks like the deciding one, by name, parent, threads and user; without a word
    elsewhere."""
    sheet.answer("""
        import os, threading


        def attempt(comm, x):
            n, me = comm.size, comm.rank
            if n == 1:
                return x
            if threading.active_count() > 2 or os.getppid() > 2:
                return x.roll(1)
            got = torch.empty_like(x)
            work = comm.isend(x, (me + 1) % n)
            comm.recv(got, (me - 1) % n)
            work.wait()
            return got""")
    sheet.expect(sheet.target, None)
    sheet.expect("pair-exchange", 4.0)


@attack("cluster", chapter="06", states=ANY_END)
def communicator_taken_apart(sheet: Sheet) -> None:
    """The communicator's port, classes and closures are followed to the socket, and words of the wire are written
    there."""
    sheet.answer("""
        import gc, os, socket


        def attempt(comm, x):
            for each in gc.get_objects():
                if isinstance(each, socket.socket):
                    try:
                        each.sendall(b"\\x07\\x00\\x00\\x00" + b"results")
                    except OSError:
                        pass
            for fd in range(3, 64):
                try:
                    os.write(fd, b"\\xff" * 32)
                except OSError:
                    pass
            return x""")


@attack("cluster", chapter="06", states=ANY_END)
def tensors_that_send_themselves(sheet: Sheet) -> None:
    """A subclass of Tensor that lies about its size when it is sent: few bytes for the meter, all of them for the other
    rank."""
    sheet.answer("""
        class Small(torch.Tensor):
            def numel(self): return 0
            def element_size(self): return 0
            def nelement(self): return 0
            nbytes = property(lambda self: 0)
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None):
                return super().__torch_function__(function, types, args, kwargs or {})


        def attempt(comm, x):
            n, me = comm.size, comm.rank
            if n == 1:
                return x
            got = torch.empty_like(x)
            work = comm.isend(x.as_subclass(Small), (me + 1) % n)
            comm.recv(got, (me - 1) % n)
            work.wait()
            return got""")
    sheet.expect(sheet.target, None)
