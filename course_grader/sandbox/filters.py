"""The seccomp filter: a BPF program that makes system calls fail for this process and its descendants."""

import ctypes
import errno
import platform
import struct
from collections.abc import Sequence

from course_grader.sandbox.linux import has, number, prctl

_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_NUMBER, _MACHINE, _ARGUMENT = 0, 4, 16  # offsets in what the kernel shows a filter
_NEW_NAMESPACES = 0x7E020080  # CLONE_NEW*
_SHARED_AND_NAMELESS = 0x21  # MAP_SHARED | MAP_ANONYMOUS: memory that no limit counts
_FAMILIES = (1, 2, 10, 16)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK: those that a network namespace confines
_TERMINAL = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: they type into another terminal

DENIED = (
    "acct",
    "add_key",
    "adjtimex",
    "bpf",
    "chroot",
    "clock_adjtime",
    "clock_settime",
    "delete_module",
    "fanotify_init",
    "finit_module",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "init_module",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "kcmp",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "lookup_dcookie",
    "mbind",
    "memfd_create",
    "memfd_secret",
    "migrate_pages",
    "mount",
    "mount_setattr",
    "move_mount",
    "move_pages",
    "mq_open",
    "mq_unlink",
    "msgctl",
    "msgget",
    "msgrcv",
    "msgsnd",
    "name_to_handle_at",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "personality",
    "pidfd_getfd",
    "pivot_root",
    "process_madvise",
    "process_vm_readv",
    "process_vm_writev",
    "ptrace",
    "quotactl",
    "quotactl_fd",
    "reboot",
    "request_key",
    "semctl",
    "semget",
    "semop",
    "semtimedop",
    "set_mempolicy",
    "setdomainname",
    "sethostname",
    "setns",
    "settimeofday",
    "shmat",
    "shmctl",
    "shmget",
    "swapoff",
    "swapon",
    "syslog",
    "umount2",
    "unshare",
    "userfaultfd",
    "vhangup",
    "vmsplice",
)
# of files that all can read, of what of them is in memory, of the system's own counts and of numbers given out in order
WATCHES = (
    "cachestat",
    "fadvise64",
    "flock",
    "fstatfs",
    "inotify_add_watch",
    "inotify_init1",
    "io_setup",
    "mincore",
    "pidfd_open",
    "pipe",
    "pipe2",
    "readahead",
    "socket",
    "socketpair",
    "statfs",
    "sysinfo",
)
_LOCKS = (
    5,
    6,
    7,
    36,
    37,
    38,
    1024,
    1025,
    1026,
    *range(1035, 1039),
)  # F_GETLK, F_SETLK, F_SETLKW, of an open file too, leases, F_NOTIFY, hints
_OTHERS = (
    "sched_setaffinity",
    "sched_setattr",
    "sched_setparam",
    "sched_setscheduler",
)  # their first argument: a process
_SENT = (8, 10, 15)  # F_SETOWN, F_SETSIG, F_SETOWN_EX: a descriptor that signals another process
_SENDS = (0x8901, 0x8902)  # FIOSETOWN, SIOCSPGRP: the same
SIGNALS = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal")

MARKS = (  # what Landlock leaves to everybody who owns a file: its rights, owner, times and attributes
    "chmod",
    "fchmod",
    "fchmodat",
    "fchmodat2",
    "chown",
    "fchown",
    "fchownat",
    "lchown",
    "utime",
    "utimes",
    "futimesat",
    "utimensat",
    "setxattr",
    "lsetxattr",
    "fsetxattr",
    "setxattrat",
    "removexattr",
    "lremovexattr",
    "fremovexattr",
    "removexattrat",
)

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, constant


def program(denied: Sequence[str], *, sockets: bool, ignored: Sequence[str] = ()) -> list[Instruction]:
    """The filter. Without `sockets`, only connected socket pairs can be created. Calls in `ignored` do nothing and
    report success.
    """
    fail = (_RETURN, 0, 0, _FAIL | errno.EPERM)
    made: list[Instruction] = [
        (_LOAD, 0, 0, _MACHINE),
        (_EQUAL, 1, 0, _ARCHITECTURE[platform.machine()]),
        fail,
        (_LOAD, 0, 0, _NUMBER),
    ]
    if platform.machine() == "x86_64":
        made += [(_AT_LEAST, 0, 1, 0x40000000), fail]  # the second table of x86-64
    for name in denied:
        made += [(_EQUAL, 0, 1, number(name)), fail]
    for name in filter(has, ignored):
        made += [(_EQUAL, 0, 1, number(name)), (_RETURN, 0, 0, _FAIL)]
    made += [(_EQUAL, 0, 1, number("clone3")), (_RETURN, 0, 0, _FAIL | errno.ENOSYS)]  # a filter cannot see its flags
    made += _only("clone", 0, [(_ANY_BIT, 0, 1, _NEW_NAMESPACES), fail])
    made += _only("mmap", 3, [(_AND, 0, 0, _SHARED_AND_NAMELESS), (_EQUAL, 0, 1, _SHARED_AND_NAMELESS), fail])
    fail_unless_zero = [(_EQUAL, 1, 0, 0), fail]
    made += _only("prlimit64", 0, fail_unless_zero) + _only("setpriority", 1, fail_unless_zero)  # of other processes
    made += _only(
        "ioctl",
        1,
        [part for code in (*_TERMINAL, *(() if sockets else _SENDS)) for part in ((_EQUAL, 0, 1, code), fail)],
    )
    if not sockets:  # only this separates processes of the same user
        made += [part for name in _OTHERS for part in _only(name, 0, fail_unless_zero)] + _only(
            "ioprio_set", 1, fail_unless_zero
        )
        made += _only("fcntl", 1, [part for command in _SENT for part in ((_EQUAL, 0, 1, command), fail)])
    refuse = (_RETURN, 0, 0, _FAIL | (errno.EAFNOSUPPORT if sockets else errno.EPERM))
    allowed = _FAMILIES if sockets else ()
    made += _only(
        "socket", 0, [*((_EQUAL, len(allowed) - place, 0, family) for place, family in enumerate(allowed)), refuse]
    )
    return [*made, (_RETURN, 0, 0, _ALLOW)]


def without_locks() -> list[Instruction]:
    """A further filter for ranks: file locks and system-wide counters could carry data between ranks without a
    message."""
    fail = (_RETURN, 0, 0, _FAIL | errno.EPERM)
    made: list[Instruction] = [
        (_LOAD, 0, 0, _NUMBER),
        *(part for name in filter(has, WATCHES) for part in ((_EQUAL, 0, 1, number(name)), fail)),
    ]
    made += _only("fcntl", 1, [part for command in _LOCKS for part in ((_EQUAL, 0, 1, command), fail)])
    made += _only("preadv2", 5, [(_EQUAL, 1, 0, 0), fail])  # RWF_NOWAIT tells what is in memory
    return [*made, (_RETURN, 0, 0, _ALLOW)]


def _only(name: str, argument: int, body: list[Instruction]) -> list[Instruction]:
    """`body`, applied to the low half of one argument of one call; other calls skip it."""
    look = [(_LOAD, 0, 0, _ARGUMENT + 8 * argument), *body, (_LOAD, 0, 0, _NUMBER)]
    return [(_EQUAL, 0, len(look), number(name)), *look]


def install(made: Sequence[Instruction]) -> None:
    """Put a filter in force. Needs no_new_privs, and cannot be undone."""
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in made))
    whole = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(made), ctypes.addressof(code)))
    prctl(22, 2, ctypes.addressof(whole))  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
