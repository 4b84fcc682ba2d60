"""The class's secret, from which the seeds of variants and hidden cases are derived."""

import os
import re
import secrets
import stat
from pathlib import Path

from course_lib.messages import Trouble

FILE = ".secret"


def write_secret(root: Path) -> None:
    """Create the secret of a new class, readable only by the instructor's account."""
    handle = os.open(root / FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(secrets.token_hex(32) + "\n")


def read_secret(root: Path) -> str:
    """The secret, in hex. Trouble if it is missing, because the hidden cases would then differ."""
    path = root / FILE
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Trouble(
            f"{path} cannot be read.",
            "bring it back from your copy of the class folder: without it the hidden cases differ",
        ) from error
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        raise Trouble(
            f"{path} does not hold the class's secret (64 hex digits).",
            "bring it back from your copy of the class folder",
        )
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        path.chmod(0o600)
    return text
