"""One question asked of evidence, and how far two numbers of one file may be apart."""

from dataclasses import dataclass

ERROR = 1.05  # a clock's error, and a data sheet's rounding
# How many times apart two numbers may be that have one cause: a step and its rates or trace, kinds of collectives on
# one link.
APART = 20.0
MEASURED = "the model's own matmul on this machine, measured: no data sheet for it"  # where such a peak is from


@dataclass(frozen=True)
class Gate:
    """One question asked of evidence."""

    name: str
    ok: bool
    found: str
    noise: bool = False  # an honest run fails it too, as on a busy machine: its numbers are not to be built on
