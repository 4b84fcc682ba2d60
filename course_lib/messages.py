"""What goes wrong while setting up, in words, each with the way out."""

import re

from course_lib.installation import called_here


def count_text(count: float, noun: str, many: str = "") -> str:
    """A number with its noun: "1 GPU", "1,024 GPUs", "0.5 hours"; `many` is a plural that does not end in -s alone."""
    shown = f"{int(count):,}" if float(count).is_integer() else f"{count:,g}"
    return f"{shown} {noun if count == 1 else many or f'{noun}s'}"


class Trouble(Exception):
    """Something a person can mend: what is wrong, and the way out."""

    def __init__(self, problem: str, way_out: str) -> None:
        self.problem, self.way_out = called_here(problem), called_here(way_out)
        super().__init__(self.problem)

    def __str__(self) -> str:
        return f"{self.problem}\n  Way out: {self.way_out}"


NO_WRITING = (
    "copy the course to a folder of your own, or name others: "
    "COURSE_VENV=~/course-venv COURSE_WORK=~/course-work ./course learn"
)
FULL = "the disk is full"
_CAUSES = (
    (
        r"No space left|\[Errno 28\]|not enough space|Disk quota exceeded|\[Errno 122\]",
        FULL,
        "free 2.5 GB (12 GB with a CUDA build), then the same command; it goes on where it stopped",
    ),
    (
        r"Read-only file system|Permission denied|\[Errno 13\]|\[Errno 30\]|Access is denied",
        "this folder cannot be written to",
        NO_WRITING,
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|SSLError",
        "the package index's certificate is not trusted here (often a company's proxy)",
        "point pip at the proxy's certificate: PIP_CERT=/path/to/ca.pem ./course learn",
    ),
    (
        r"NewConnectionError|ConnectTimeout|Name or service not known|name resolution|Max "
        r"retries|getaddrinfo|ReadTimeout"
        r"|ProxyError|Connection refused|Network is unreachable|No matching distribution|Could not find a version",
        "the package index cannot be reached, or does not have this package",
        "check the network (a proxy is set with HTTPS_PROXY, a mirror with PIP_INDEX_URL), then the same command",
    ),
)


def in_words(log: str) -> tuple[str, str] | None:
    """What a pip log says went wrong, and the way out; None where it is none of the known causes."""
    return next(((problem, way) for pattern, problem, way in _CAUSES if re.search(pattern, log)), None)
