"""Servers of a test's own: found, started, waited for and ended. PostgreSQL among them."""

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.lab import free_port
from tests.conftest import postgres_programs
from tests.patience import patience


def ended(server: subprocess.Popen) -> None:
    """End a server, and what it started."""
    server.send_signal(signal.SIGTERM)
    try:
        server.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait(20)


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """A PostgreSQL on loopback, its files in a folder of its own, run by a user without rights; the address of an empty
    database."""
    programs = postgres_programs()
    assert programs is not None, "no PostgreSQL here"
    user = "nobody" if os.geteuid() == 0 else None  # PostgreSQL refuses to run as root
    with tempfile.TemporaryDirectory(prefix="course-postgres-", ignore_cleanup_errors=True) as scratch:
        folder, password, port = Path(scratch), secrets.token_hex(12), free_port()
        (folder / "password").write_text(password, encoding="utf-8")
        for path in (folder, folder / "password") if user else ():
            shutil.chown(path, "nobody")
        made = [
            programs / "initdb",
            "-D",
            folder / "data",
            "-U",
            "course",
            "--auth=scram-sha-256",
            f"--pwfile={folder / 'password'}",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
        ]
        subprocess.run(
            made,
            check=True,
            capture_output=True,
            timeout=patience(120),
            user=user,
            cwd=folder,
            stdin=subprocess.DEVNULL,
        )
        command = [programs / "postgres", "-D", folder / "data", "-h", "127.0.0.1", "-p", str(port), "-k", folder, "-F"]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, user=user, cwd=folder, start_new_session=True
            )
            try:
                until = time.monotonic() + patience(60)
                while b"ready to accept connections" not in (folder / "log").read_bytes():
                    if server.poll() is not None or time.monotonic() > until:
                        raise RuntimeError(
                            f"PostgreSQL did not start:\n{(folder / 'log').read_text(errors='replace')[-2000:]}"
                        )
                    time.sleep(0.05)
                yield f"postgresql+psycopg://course:{password}@127.0.0.1:{port}/postgres"
            finally:
                ended(server)
