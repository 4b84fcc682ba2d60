"""A database's refusals as ours: locked by another program, or no room."""

from collections.abc import Iterator
from contextlib import contextmanager

from nbgrader.api import InvalidEntry
from sqlalchemy.exc import OperationalError, SQLAlchemyError


class Locked(Exception):
    """Another program holds the gradebook just now."""


class Full(Exception):
    """There is no room to write in."""


@contextmanager
def in_words() -> Iterator[None]:
    """A database's refusals as ours: locked by another program, or no room."""
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
