"""Whether tensor parallelism was done at all: numbers are right too if every rank computes everything.

A model whose plan was misspelt, or that was restored whole from a checkpoint, trains as well as any. What it holds,
sends, computes and hides is the evidence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from course_lib.estimate.units import bytes_text, number_text, percent_text

if TYPE_CHECKING:
    from course_lib.cluster import Run
    from course_lib.parallel.tensor.model import TensorParallel

SLACK = 1.1  # what rounding of chunks, norms and flags may add


def misplaced(model: TensorParallel) -> list[str]:
    """Deviations from the plan, a sentence each: missing or unknown names, whole matrices, parts that keep a whole
    alive."""
    found, parameters = [], dict(model.named_parameters())
    for name in sorted(set(model.pieces) ^ set(parameters)):
        found.append(f"{name} is {'not in the plan' if name in parameters else 'in the plan, and not in the model'}.")
    for name in set(model.pieces) & set(parameters):
        held, parameter = model.pieces[name], parameters[name]
        want = (sum(piece.local_shape[0] for piece in held), *held[0].local_shape[1:])
        if tuple(parameter.shape) != want:
            found.append(f"{name} is of shape {tuple(parameter.shape)}; rank {model.comm.rank}'s part is {want}.")
        elif parameter.untyped_storage().nbytes() > parameter.nbytes:
            found.append(
                f"{name} is a view of {bytes_text(parameter.untyped_storage().nbytes())}, of which it is "
                f"{bytes_text(parameter.nbytes)}: copy the part, so that the whole can be freed."
            )
    return found


def objections(
    run: Run, *, nbytes: float, parameters: float, flops: float, hidden: float = 0.0, slack: float = SLACK
) -> list[str]:
    """Why a run over ranks is not tensor parallelism, or not a good one; empty if it is.

    The run is made with `account=True`. A rank must send `nbytes` bytes, no less than their (1/slack)th and no more
    than slack times them; may hold `parameters` bytes of parameters and do `flops` operations; and must hide the share
    `hidden` of its communication behind computing.
    """
    found, meter = [], run.meter
    for rank in range(run.ranks):
        held, sent, done = (meter.peak_roles[rank].get("parameters", 0), meter.bytes_sent[rank], meter.flops[rank])
        if sent * slack < nbytes:
            found.append(
                f"Rank {rank} sent {bytes_text(sent)}; the parts of a product reach each other in "
                f"{bytes_text(nbytes)}, not in less. Does every rank do everything, or is an operator missing on the "
                "way in or out?"
            )
        if sent > nbytes * slack:
            found.append(
                f"Rank {rank} sent {bytes_text(sent)} where {bytes_text(nbytes)} do: one collective on the way out of "
                "each pair of matrices, one on the way back in, nothing between the two."
            )
        if held > parameters * slack:
            found.append(
                f"Rank {rank} held {bytes_text(held)} of parameters, and its parts are {bytes_text(parameters)}."
            )
        if done > flops * slack:
            found.append(f"Rank {rank} did {number_text(done)} operations, and its share is {number_text(flops)}.")
    return found + _exposed(run, hidden)


def _exposed(run: Run, hidden: float) -> list[str]:
    shares = [
        under / (out + under) if out + under else 1.0 for out, under in zip(run.exposed(), run.hidden(), strict=True)
    ]
    worst = min(shares)
    if worst >= hidden:
        return []
    return [
        f"Rank {shares.index(worst)} hid {percent_text(worst)} of its communication, and must hide "
        f"{percent_text(hidden)}: the weight's gradient needs no other rank, so compute it while the input's "
        "gradient is summed."
    ]
