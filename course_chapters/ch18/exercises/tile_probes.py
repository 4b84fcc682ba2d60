"""How chapter 18 calls kernels that load and store tiles, with a metered fast memory, and products under which
communication runs: results as plain data."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

from course_grader.exercises.result_schema import DictOf, Number, PerRank, Tensor

if TYPE_CHECKING:
    import torch

    from course_grader.records import Answer, Case
    from course_lib.cluster import Comm

METERED = {"traffic": Number("bytes"), "peak": Number("bytes"), "tiles": Number("tiles")}
FORWARD = DictOf({"out": Tensor(), "log_sum": Tensor(), **METERED})
BACKWARD = DictOf({"dq": Tensor(), "dk": Tensor(), "dv": Tensor(), **METERED})
GATHERED = PerRank(DictOf({"out": Tensor(), "rows": Number("rows")}))


def _run(answer: Answer, case: Case, given: str, results: str, notes: str = "") -> dict[str, object]:
    """A kernel's results, which had NaN before it, with the bytes that it moved and held; `case.args` are the sizes of
    its tiles and then what is given. It gets the calls of a kernel, not the slow memory."""
    from course_chapters.ch18.fast_memory import FastMemory

    slow = {name: each.clone() for name, each in zip(given.split(), case.args[2:], strict=True)}
    q = slow["q"]
    for name in (*results.split(), *notes.split()):
        slow[name] = q.new_full((len(q), 1) if name in ("log_sum", "delta") else q.shape, float("nan"))
    memory = FastMemory(None, **slow)
    calls = SimpleNamespace(tiles=memory.tiles, load=memory.load, store=memory.store, shape=memory.shape)
    with memory:
        answer(calls, *case.args[:2])
    metered = {"traffic": memory.traffic, "peak": memory.peak_bytes, "tiles": len(memory.log)}
    return {**dict(zip(results.split(), memory.slow(*results.split()), strict=True)), **metered}


def attention_forward(answer: Answer, case: Case, comm: object = None) -> object:
    """Output and log-sums; `case.args = (rows, columns, q, k, v)`."""
    return _run(answer, case, "q k v", "out log_sum")


def attention_backward(answer: Answer, case: Case, comm: object = None) -> object:
    """The three gradients; `case.args = (rows, columns, q, k, v, out, log_sum, grad)`."""
    return _run(answer, case, "q k v out log_sum grad", "dq dk dv", "delta")


def gathered(answer: Answer, case: Case, comm: Comm) -> object:
    """A rank's product with all rows, and how many rows it multiplied;
    `case.args = (seconds for the rows of one rank, x, weight)`."""
    from course_grader.exercises.point_to_point import PointToPoint

    seconds, x, weight = case.args
    rows = 0

    def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        nonlocal rows
        rows += len(a)
        comm.compute(seconds * len(a) / len(x), label="product")
        return a @ b

    return {"out": answer(PointToPoint(comm), matmul, x, weight), "rows": rows}
