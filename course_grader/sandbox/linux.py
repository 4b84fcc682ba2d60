"""Linux calls that Python does not offer, through ctypes: namespaces, mounts, capabilities, and system call numbers."""

import ctypes
import errno
import fcntl
import os
import platform
import socket
import struct
from pathlib import Path

NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
NOSUID, NODEV, NOEXEC = 2, 4, 8  # MS_*, and MOUNT_ATTR_* alike
_BIND, _REC, _PRIVATE, _DETACH = 0x1000, 0x4000, 0x40000, 2
_READ_ONLY, _RECURSIVE, _HERE = 1, 0x8000, -100  # MOUNT_ATTR_RDONLY, AT_RECURSIVE, AT_FDCWD
_LAST_CAPABILITY = 63
_LARGE = 2**21  # bytes of a large page
_NEWER = {  # numbers that are the same on all machines
    "pidfd_send_signal": 424,
    "pidfd_open": 434,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "clone3": 435,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "landlock_create_ruleset": 444,
    "landlock_add_rule": 445,
    "landlock_restrict_self": 446,
    "memfd_secret": 447,
    "cachestat": 451,
    "fchmodat2": 452,
    "setxattrat": 463,
    "removexattrat": 466,
}
_OLDER = {  # name: (x86-64, 64-bit Arm)
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "fcntl": (72, 25),
    "flock": (73, 32),
    "inotify_add_watch": (254, 27),
    "inotify_init1": (294, 26),
    "prlimit64": (302, 261),
    "setpriority": (141, 140),
    "fadvise64": (221, 223),
    "io_setup": (206, 0),
    "pipe2": (293, 59),
    "socketpair": (53, 199),
    "fstatfs": (138, 44),
    "mincore": (27, 232),
    "preadv2": (327, 286),
    "readahead": (187, 213),
    "statfs": (137, 43),
    "sysinfo": (99, 179),
    "ioprio_set": (251, 30),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "mq_unlink": (241, 181),
    "msgctl": (71, 187),
    "msgrcv": (70, 188),
    "semctl": (66, 191),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "shmctl": (31, 195),
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "capset": (126, 91),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "init_module": (175, 105),
    "ioctl": (16, 29),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "kill": (62, 129),
    "lookup_dcookie": (212, 18),
    "mbind": (237, 235),
    "memfd_create": (319, 279),
    "migrate_pages": (256, 238),
    "mmap": (9, 222),
    "mount": (165, 40),
    "move_pages": (279, 239),
    "mq_open": (240, 180),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pivot_root": (155, 41),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "set_mempolicy": (238, 237),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "shmat": (30, 196),
    "shmget": (29, 194),
    "socket": (41, 198),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "tgkill": (234, 131),
    "tkill": (200, 130),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
    "vmsplice": (278, 75),
}
_ONLY_X86 = {
    "chmod": 90,
    "pipe": 22,
    "chown": 92,
    "lchown": 94,
    "utime": 132,
    "utimes": 235,
    "futimesat": 261,
}  # other machines use the calls above
MACHINES = ("x86_64", "aarch64")


def number(name: str) -> int:
    """A system call's number on this machine; NotImplementedError if the machine is not in the table."""
    if platform.machine() not in MACHINES:
        raise NotImplementedError(f"the sandbox knows {' and '.join(MACHINES)}, not {platform.machine()}")
    if name in _ONLY_X86 and platform.machine() == "x86_64":
        return _ONLY_X86[name]
    return _NEWER[name] if name in _NEWER else _OLDER[name][MACHINES.index(platform.machine())]


def has(name: str) -> bool:
    """Whether this machine has the system call."""
    return name not in _ONLY_X86 or platform.machine() == "x86_64"


def call(name: str, *given: object) -> int:
    """Make a system call by name; OSError if it fails."""
    values = [ctypes.c_long(each) if isinstance(each, int) else each for each in given]
    result = _libc().syscall(ctypes.c_long(number(name)), *values)
    if result == -1:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")
    return int(result)


def prctl(option: int, *given: int) -> None:
    """Linux's prctl; OSError if it fails."""
    if _libc().prctl(option, *(ctypes.c_ulong(each) for each in (*given, 0, 0, 0, 0)[:4])) == -1:
        raise OSError(ctypes.get_errno(), f"prctl {option}: {os.strerror(ctypes.get_errno())}")


def unshare(flags: int) -> None:
    """Enter new namespaces. A new PID namespace applies to children."""
    call("unshare", flags)


def join(namespace: int, kind: int) -> None:
    """Enter the namespace of a descriptor of /proc/PID/ns."""
    call("setns", namespace, kind)


def mount(kind: str, target: Path | str, options: str = "", flags: int = 0) -> None:
    """Mount a new file system of this kind."""
    call("mount", kind.encode(), str(target).encode(), kind.encode(), flags, options.encode())


def bind(source: Path | str, target: Path | str) -> None:
    """Show `source`, with everything mounted below it, at `target` too."""
    call("mount", str(source).encode(), str(target).encode(), None, _BIND | _REC, None)


def private_mounts() -> None:
    """Stop mounts from propagating into or out of this namespace."""
    call("mount", b"none", b"/", None, _REC | _PRIVATE, None)


def lock(target: Path | str, flags: int = NOSUID | NODEV, *, deep: bool = True) -> None:
    """Make a mount and those below it read-only, and set further attributes. Linux 5.12."""
    attributes = struct.pack("QQQQ", _READ_ONLY | flags, 0, 0, 0)
    call("mount_setattr", _HERE, str(target).encode(), _RECURSIVE if deep else 0, attributes, len(attributes))


def become_root(root: Path | str) -> None:
    """Make a mount the root of this process, and detach the old one."""
    os.chdir(root)
    call("pivot_root", b".", b".")
    call("umount2", b".", _DETACH)
    os.chdir("/")


def raise_loopback() -> None:
    """Enable the loopback device of a new network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sh22x", b"lo", 1 | 64)  # IFF_UP | IFF_RUNNING
        fcntl.ioctl(sock, 0x8914, request)  # SIOCSIFFLAGS


def own_user() -> None:
    """Enter a user namespace in which this user is nobody but has all rights over namespaces created in it."""
    user, group = os.getuid(), os.getgid()
    unshare(NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"65534 {user} 1")
    Path("/proc/self/gid_map").write_text(f"65534 {group} 1")


def has_rights_over_namespaces() -> bool:
    """Whether this process has CAP_SYS_ADMIN."""
    return bool(_effective() >> 21 & 1)


def _effective() -> int:
    text = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    return int(next(line for line in text.splitlines() if line.startswith("CapEff")).split()[1], 16)


def empty_bounding_set() -> None:
    """Ensure that no program started from now on has a capability. If this is not allowed, there was none to lose."""
    for capability in range(_LAST_CAPABILITY + 1):
        try:
            prctl(24, capability)  # PR_CAPBSET_DROP
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.EPERM):  # past the last one, or no right to drop it
                return
            raise


def drop_capabilities() -> None:
    """Give up all capabilities, and gain none by starting a program."""
    prctl(38, 1)  # PR_SET_NO_NEW_PRIVS
    header = ctypes.create_string_buffer(struct.pack("Ii", 0x20080522, 0))
    call("capset", header, ctypes.create_string_buffer(24))


def gather_memory() -> None:
    """Put this process's memory into huge pages if Linux (6.1) can; a fork then costs a third. Elsewhere nothing
    changes.
    """
    for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines():
        where, rights, _, _, inode = line.split()[:5]
        low, high = (int(edge, 16) for edge in where.split("-"))
        low, high = -(-low // _LARGE) * _LARGE, high // _LARGE * _LARGE
        if rights == "rw-p" and inode == "0" and high > low:
            _libc().madvise(
                ctypes.c_void_p(low), ctypes.c_size_t(high - low), 25
            )  # MADV_COLLAPSE; a refusal costs nothing


def _libc() -> ctypes.CDLL:
    if _LIBC is None:
        raise NotImplementedError("Linux only")
    return _LIBC


_LIBC = ctypes.CDLL(None, use_errno=True) if os.name == "posix" else None
