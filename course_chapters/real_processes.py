"""Programs of a chapter on real processes, where this machine allows them."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from course_runs.real_ranks import launch

Result = TypeVar("Result")


def launched(
    program: Callable[..., Result], ranks: int, args: Sequence[object] = (), timeout: float = 60.0
) -> list[Result]:
    """What each rank returns; no entries, and a line with the reason, where no processes can run."""
    try:
        return launch(program, ranks, args, timeout=timeout).results
    except (OSError, RuntimeError) as error:
        print(f"No processes could run here: {error}")
        return []
