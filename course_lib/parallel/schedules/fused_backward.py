"""Schedules whose backward is one operation: naive, GPipe, breadth-first, 1F1B and interleaved 1F1B."""

from course_lib.estimate.units import require_whole
from course_lib.parallel.schedules.ops import Op, Schedule, looped
from course_lib.parallel.schedules.rows_builder import Row


def naive(stages: int, microbatches: int) -> Schedule:
    """One micro-batch at a time, all the way forward and back: one rank works, the others wait."""
    _sizes(stages, microbatches)
    rows = (tuple(Op(kind, rank, each) for each in range(microbatches) for kind in "FB") for rank in range(stages))
    return Schedule("naive", tuple(rows), microbatches, (looped(stages),))


def gpipe(stages: int, microbatches: int) -> Schedule:
    """All forwards, then all backwards. Huang et al., "GPipe" (2019)."""
    _sizes(stages, microbatches)
    rows = (tuple(Op(kind, rank, each) for kind in "FB" for each in range(microbatches)) for rank in range(stages))
    return Schedule("GPipe", tuple(rows), microbatches, (looped(stages),))


def breadth_first(stages: int, microbatches: int, chunks: int = 2) -> Schedule:
    """All micro-batches through one chunk before the next chunk, and back in reverse order.

    Lamy-Poirier, "Breadth-First Pipeline Parallelism" (2023). `stages` counts ranks; each holds `chunks` stages.
    """
    _sizes(stages, microbatches, chunks)
    rows = []
    for rank in range(stages):
        forward = [Op("F", chunk * stages + rank, each) for chunk in range(chunks) for each in range(microbatches)]
        rows.append((*forward, *(Op("B", op.stage, op.microbatch) for op in reversed(forward))))
    return Schedule("breadth-first", tuple(rows), microbatches, (looped(stages, chunks),))


def one_f_one_b(stages: int, microbatches: int) -> Schedule:
    """A few forwards to fill the pipeline, then one forward, one backward: stage s never holds more than stages − s.

    Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training" (2021), as PipeDream-Flush.
    """
    _sizes(stages, microbatches)
    return Schedule("1F1B", alternating(stages, microbatches, 1, 1), microbatches, (looped(stages),))


def interleaved(stages: int, microbatches: int, chunks: int = 2) -> Schedule:
    """1F1B on `chunks` stages per rank, in rounds of as many micro-batches as ranks: a bubble 1/chunks as long.

    Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters" (2021), section 2.2. `stages`
    counts ranks. One chunk is plain 1F1B.
    """
    _sizes(stages, microbatches, chunks)
    if chunks == 1:
        return one_f_one_b(stages, microbatches)
    rounds_of(stages, microbatches, "interleaved 1F1B")
    return Schedule(
        "interleaved 1F1B", alternating(stages, microbatches, chunks, 2), microbatches, (looped(stages, chunks),)
    )


def alternating(
    ranks: int, microbatches: int, chunks: int, hop: int, lag: int | None = None
) -> tuple[tuple[Op, ...], ...]:
    """The rows of every schedule that alternates forwards and backwards.

    `hop`: how many more forwards each rank runs ahead than the next rank. `lag`: None leaves the backward whole; a
    number splits it, and rank r delays lag × r weight gradients, so that all ranks hold the same amount and fill the
    end with them.
    """
    total, rows = chunks * microbatches, []
    for rank in range(ranks):
        row = Row()
        ahead = min(hop * (ranks - 1 - rank) + (chunks - 1) * ranks, total)
        for turn in range(total + ahead):
            if turn < total:
                row.add("F", _forward_chunk(turn, ranks, chunks) * ranks + rank)
            done = turn - ahead  # backwards before this one
            if done >= 0:
                stage = (chunks - 1 - _forward_chunk(done, ranks, chunks)) * ranks + rank
                row.add("B" if lag is None else "I", stage)
                if lag is not None and done >= lag * rank:
                    row.oldest_weight_gradient()
        row.all_weight_gradients()
        rows.append(row.ops())
    return tuple(rows)


def _forward_chunk(number: int, ranks: int, chunks: int) -> int:
    """The chunk of a rank's forward with this number: one round of micro-batches on each chunk in turn."""
    return number // ranks % chunks


def rounds_of(stages: int, microbatches: int, name: str) -> None:
    """Refuse micro-batches that do not form whole rounds of the ranks."""
    if microbatches % stages:
        fits = [each for each in (microbatches // stages * stages, (microbatches // stages + 1) * stages) if each]
        raise ValueError(
            f"{name} on {stages} ranks takes micro-batches in rounds of {stages}, and {microbatches} is not a "
            f"multiple of that; {' or '.join(map(str, fits))} would fit."
        )


def _sizes(stages: int, microbatches: int, chunks: int = 1) -> None:
    require_whole("stages", stages, "stages")
    require_whole("microbatches", microbatches, "micro-batches")
    require_whole("chunks", chunks, "chunks")
