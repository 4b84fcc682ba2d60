"""Texts of the numbers in chapter 18's prose, each computed from published figures and the library's formulas."""

from collections.abc import Callable, Mapping
from functools import cache

from course_chapters.ch18 import attention, launch_film, plots, tile_film
from course_chapters.ch18.fusion import fuse
from course_chapters.ch18.kernels import Kernel, limit, record, timeline
from course_chapters.ch18.published import measured, speedup
from course_chapters.running_example import lab, opening, reading
from course_lib.estimate import facts
from course_lib.estimate.units import bytes_text, duration_text, number_text, percent_text

WIDTH, FEW, MANY = 4096, 256, 8192  # of the layer, and tokens
WORKED = 5e-6, 2e-6, 3  # s for a launch, s of a kernel, kernels: the example of a queue
LONG, HEAD, TILE, BF16 = 32768, 128, 128, 2  # tokens, width of a head, queries of a tile, bytes
SOURCES = (
    "autoparallel-146 tritonbench-1017 titan-h100-2024 gpt-fast tensordict-1788 nvidia-graph-constraints "
    "dao-2022 dao-2023 shah-2024 titan-async-tp"
)


@cache
def _chain() -> tuple[Kernel, ...]:
    """The kernels of a block's pointwise end, one by one."""
    from course_chapters.ch18.compiled import block_end, block_inputs

    inputs = block_inputs(64, 1024)
    return record(lambda: block_end(*inputs))


def _large(kernels: tuple[Kernel, ...]) -> str:
    """Bytes of kernels in tensors of the block's size."""
    return f"{sum(each.nbytes for each in kernels) / (4 * 64 * 1024):.0f}"


def _limited(tokens: int) -> str:
    device, launch = launch_film.h100(), launch_film.eager_launch()
    return str(sum(limit(each, device, launch) == "launch" for each in launch_film.layer(tokens, WIDTH)))


def _seconds(way: str) -> str:
    return duration_text(launch_film.run(way, FEW, WIDTH)[1].seconds)


def _of_peak(name: str) -> str:
    return percent_text(measured(name) / facts.device("H100 SXM").dense_flops, 2)


NUMBERS: Mapping[str, Callable[[], str]] = {
    **opening("18"),
    **lab(1, 900.0),
    # kernels
    "width": lambda: f"{WIDTH:,}",
    "few": lambda: f"{FEW} tokens",
    "many": lambda: f"{MANY:,} tokens",
    "launches": lambda: str(len(launch_film.layer(FEW, WIDTH))),
    "by_launch": lambda: _limited(FEW),
    "by_launch_many": lambda: _limited(MANY),
    "launch": lambda: duration_text(launch_film.eager_launch()),
    "row_bytes": lambda: number_text(2 * WIDTH**2 / 1e6, 2),
    "row_seconds": lambda: duration_text(2 * WIDTH**2 / launch_film.h100().bandwidth),
    # fusion
    "chain": lambda: str(len(_chain())),
    "chain_bytes": lambda: _large(_chain()),
    "chain_fused": lambda: _large(fuse(_chain())),
    "rope_gain": lambda: number_text(speedup("rope eager", "rope compiled"), 2),
    # launches
    "queue_launch": lambda: duration_text(WORKED[0]),
    "queue_kernel": lambda: duration_text(WORKED[1]),
    "queue_seconds": lambda: duration_text(timeline([WORKED[1]] * WORKED[2], WORKED[0]).seconds),
    "queue_graph": lambda: duration_text(timeline([WORKED[1]] * WORKED[2], WORKED[0], graph=True).seconds),
    "eager_256": lambda: _seconds("eager"),
    "fused_256": lambda: _seconds("fused"),
    "graph_256": lambda: _seconds("fused, in a graph"),
    "call": lambda: duration_text(measured("compiled call")),
    "in_call": lambda: duration_text(measured("compiled kernel")),
    "driver": lambda: duration_text(measured("driver launch")),
    # compile
    "titan_gain": lambda: percent_text(speedup("titan eager", "titan compiled") - 1, 2),
    # plan
    "plan_eager": lambda: percent_text(plots.mfu("eager", plots.EAGER_LAUNCH), 3),
    "plan_fused": lambda: percent_text(plots.mfu("fused", plots.FUSED_LAUNCH), 3),
    "reading": lambda: reading(*SOURCES.split()),
    # tiles
    "film_tokens": lambda: str(tile_film.TOKENS),
    "long": lambda: f"{LONG:,}",
    "head": lambda: str(HEAD),
    "tile": lambda: str(TILE),
    "long_tiled": lambda: bytes_text(attention.forward_traffic(LONG, HEAD, TILE, TILE, BF16)),
    "long_unfused": lambda: bytes_text(attention.unfused_traffic(LONG, HEAD, BF16)[0]),
    "long_scores": lambda: bytes_text(LONG * LONG * BF16),
    "flash2": lambda: _of_peak("flash 2 on H100"),
    "flash3": lambda: _of_peak("flash 3 on H100"),
    # communication under a matmul
    "tp": lambda: number_text(measured("titan TP"), 3),
    "async_tp": lambda: number_text(measured("titan async TP"), 3),
    "async_gain": lambda: number_text(speedup("titan TP", "titan async TP"), 3),
    "async_gain_fp8": lambda: number_text(speedup("titan TP fp8", "titan async TP fp8"), 3),
}
