"""Programs of a chapter on real processes, where this machine allows them."""

from collections.abc import Callable, Sequence
from typing import Any

from course_runs.real_ranks import launch


def launched(
    program: Callable[..., object], ranks: int, args: Sequence[object] = (), timeout: float = 60.0
) -> list[Any]:
    """What each rank returns; no entries, and a line with the reason, where no processes can run."""
    try:
        return launch(program, ranks, args, timeout=timeout).results
    except (OSError, RuntimeError) as error:
        print(f"No processes could run here: {error}")
        return []
