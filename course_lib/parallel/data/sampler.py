"""Which rank reads which samples: one shared order, and an end that all ranks reach together."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np

from course_lib.cluster import Comm
from course_lib.estimate.units import require_whole
from course_lib.parallel.data.token_weighting import totals

Batch = TypeVar("Batch")


def indices_of(samples: int, rank: int, ranks: int, epoch: int = 0, seed: int = 0, rest: str = "pad") -> list[int]:
    """The samples that `rank` reads in an epoch, in order: every `ranks`-th of one order that all ranks share.

    So a step reads the same samples on any number of ranks, if the global batch is the same. `rest` decides what
    happens if the ranks do not divide the samples: "pad" repeats the first ones, "drop" leaves out the last, "keep" is
    uneven.
    """
    require_whole("samples", samples, "samples")
    if not 0 <= rank < ranks or rest not in ("pad", "drop", "keep"):
        raise ValueError(
            f"rank={rank} of ranks={ranks}, rest={rest!r}: rank is 0 to {ranks - 1}; rest is 'pad', 'drop' or 'keep'."
        )
    order = np.random.default_rng((seed, epoch)).permutation(samples)
    length = {"pad": -(-samples // ranks) * ranks, "drop": samples // ranks * ranks, "keep": samples}[rest]
    return np.resize(order, length)[rank::ranks].tolist()


def join(comm: Comm, batches: Iterable[Batch]) -> Iterator[Batch | None]:
    """This rank's batches, then None while another rank still has some, so that all ranks stop together."""
    rest = iter(batches)
    while totals(comm, (batch := next(rest, None)) is not None)[0]:
        yield batch
