"""One to four axes on the metered cluster against the whole model: differences and bytes by axis, as a table."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache

from IPython.display import Markdown

from course_chapters.table import table
from course_lib.estimate.units import bytes_text
from course_lib.parallel.mesh.training import AXES, CONFIG, Job, Trained, alone, bytes_by_axis, train

JOB = Job(config=replace(CONFIG, layers=2), steps=2)


@cache
def whole() -> Trained:
    """The whole model's training."""
    return alone(JOB)


def apart(sizes: Mapping[str, int]) -> tuple[float, float]:
    """The largest differences of losses and of gradients from the whole model's, relative to its own."""
    want, (got, _) = whole(), train(sizes, JOB)
    loss = max(abs(a - b) / b for a, b in zip(got.losses, want.losses, strict=True))
    gradient = max(
        ((got.gradients[name] - one).abs().max() / one.abs().max()).item() for name, one in want.gradients.items()
    )
    return loss, gradient


def ladder(meshes: Iterable[Mapping[str, int]]) -> Markdown:
    """A row for each mesh."""
    rows = []
    for sizes in meshes:
        loss, gradient = apart(sizes)
        sent = bytes_by_axis(sizes, JOB)
        ranks = 1
        for size in sizes.values():
            ranks *= size
        rows.append(
            {
                "mesh": " ".join(f"{axis}{size}" for axis, size in sizes.items()),
                "ranks": ranks,
                "losses apart": f"{loss:.0e}",
                "gradients apart": f"{gradient:.0e}",
                **{f"{axis} bytes": bytes_text(sent[axis]) if sent[axis] else "–" for axis in reversed(AXES)},
            }
        )
    return table(rows)
