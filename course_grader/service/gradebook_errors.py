"""Translate database errors: the gradebook is locked by another program, or the disk is full."""

from collections.abc import Iterator
from contextlib import contextmanager

from nbgrader.api import InvalidEntry
from sqlalchemy.exc import OperationalError, SQLAlchemyError


class Locked(Exception):
    """Another program holds the gradebook."""


class Full(Exception):
    """The disk is full."""


@contextmanager
def in_words() -> Iterator[None]:
    """Translate database errors: locked by another program, or disk full."""
    try:
        yield
    except (SQLAlchemyError, InvalidEntry) as error:
        said = str(error).lower()
        if "locked" in said or "busy" in said or "could not obtain lock" in said:
            raise Locked(str(error).splitlines()[0]) from error
        if "disk is full" in said or "no space left" in said:
            raise Full(str(error).splitlines()[0]) from error
        if isinstance(error, OperationalError) and "disk i/o error" in said:
            raise Full(str(error).splitlines()[0]) from error
        raise
