"""What does not divide: heads, layers and tokens over the ranks of a layout."""

import numpy as np

from course_lib.estimate.memory.layout import CHECKPOINTING, Layout
from course_lib.estimate.memory.shapes import Shape, undivided
from course_lib.estimate.units import Numeric, require_whole


def check_fits(shape: Shape, layout: Layout, batch: Numeric, seq: Numeric, checkpointing: str) -> None:
    """Raise a ValueError if heads, layers or tokens cannot be divided as the layout requires."""
    require_whole("batch", batch, "sequences")
    known_checkpointing(checkpointing)
    require_whole("seq", seq, "tokens")
    for name, ways, what, count in (
        ("tp", layout.tp, "attention heads", shape.heads),
        ("cp", layout.cp, "tokens of a sequence", seq),
    ):
        _splits(name, ways, what, count)
    chunks = layout.pp * layout.virtual
    if np.any(np.greater(chunks, shape.layers) & np.not_equal(chunks, shape.layers + 2)):
        raise ValueError(
            f"pp={layout.pp} stages of {layout.virtual} chunks need at least {np.max(chunks):g} layers; "
            f"the model has {np.min(shape.layers):g}."
        )


def _splits(name: str, ways: Numeric, what: str, count: Numeric) -> None:
    if found := undivided(ways, count):
        ways, count, fits = found
        raise ValueError(f"{name}={ways} cannot split {count} {what}; choose {name} from {fits}.")


def known_checkpointing(word: str) -> None:
    """Raise a ValueError with the known policies unless this is one of them."""
    if word not in CHECKPOINTING:
        raise ValueError(f"checkpointing is {word!r}; choose from {', '.join(CHECKPOINTING)}.")
