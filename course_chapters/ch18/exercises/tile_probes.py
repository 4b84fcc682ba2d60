"""How chapter 18 calls kernels that load and store tiles, with a metered fast memory, and products under which
communication runs: results as plain data."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from course_grader.exercises.result_schema import DictOf, Number, PerRank, Tensor

METERED = {"traffic": Number("bytes"), "peak": Number("bytes"), "tiles": Number("tiles")}
FORWARD = DictOf({"out": Tensor(), "log_sum": Tensor(), **METERED})
BACKWARD = DictOf({"dq": Tensor(), "dk": Tensor(), "dv": Tensor(), **METERED})
GATHERED = PerRank(DictOf({"out": Tensor(), "rows": Number("rows")}))
MISSING = float("nan")  # what was never stored


def _run(answer: Any, results: tuple[str, ...], slow: dict[str, Any], tiles: tuple[int, int]) -> dict[str, Any]:
    """A kernel's results with the bytes that it moved and held. It gets the calls of a kernel, not the slow memory."""
    from course_chapters.ch18.fast_memory import FastMemory

    memory = FastMemory(None, **slow)
    calls = SimpleNamespace(tiles=memory.tiles, load=memory.load, store=memory.store, shape=memory.shape)
    with memory:
        answer(calls, *tiles)
    metered = {"traffic": memory.traffic, "peak": memory.peak_bytes, "tiles": len(memory.log)}
    return {**dict(zip(results, memory.slow(*results), strict=True)), **metered}


def attention_forward(answer: Any, case: Any, comm: Any = None) -> Any:
    """Output and log-sums; `case.args = (rows, columns, q, k, v)`."""
    rows, columns = case.args[:2]
    q, k, v = (each.clone() for each in case.args[2:])
    empty = {"out": q.new_full(q.shape, MISSING), "log_sum": q.new_full((len(q), 1), MISSING)}
    return _run(answer, ("out", "log_sum"), {"q": q, "k": k, "v": v, **empty}, (rows, columns))


def attention_backward(answer: Any, case: Any, comm: Any = None) -> Any:
    """The three gradients; `case.args = (rows, columns, q, k, v, out, log_sum, grad)`."""
    rows, columns = case.args[:2]
    given = [each.clone() for each in case.args[2:]]
    slow = dict(zip(("q", "k", "v", "out", "log_sum", "grad"), given, strict=True))
    results = ("dq", "dk", "dv")
    slow |= {name: given[0].new_full(given[0].shape, MISSING) for name in results}
    slow["delta"] = given[0].new_full((len(given[0]), 1), MISSING)
    return _run(answer, results, slow, (rows, columns))


def gathered(answer: Any, case: Any, comm: Any = None) -> Any:
    """A rank's product with all rows, and how many rows it multiplied;
    `case.args = (seconds for the rows of one rank, x, weight)`."""
    from course_grader.exercises.point_to_point import PointToPoint

    seconds, x, weight = case.args
    rows = 0

    def matmul(a: Any, b: Any) -> Any:
        nonlocal rows
        rows += len(a)
        comm.compute(seconds * len(a) / len(x), label="product")
        return a @ b

    return {"out": answer(PointToPoint(comm), matmul, x, weight), "rows": rows}
