"""Numbers in chapter 20's prose about local SGD, DiLoCo, quorums and job files."""

from collections.abc import Callable, Mapping

from course_chapters.ch20 import diloco, diloco_film, job_files
from course_lib.estimate import facts
from course_lib.estimate.units import GB, number_text, percent_text

SOURCES: tuple[str, ...] = ("diloco-2023", "streaming-diloco-2025", "torchft-233", "nccl-env", "kubernetes-1-36")
INNER, SIZE = 100, "10 billion"  # of the picture as it opens


def _needed(way: str) -> str:
    rate = diloco_film.needed_rate(way, INNER, SIZE)
    return "" if rate is None else f"{rate / GB:.2g} GB/s"


NUMBERS: Mapping[str, Callable[[], str]] = {
    "diloco_rounds": lambda: str(diloco.Plan().steps // diloco.Plan().inner),
    "diloco_momentum": lambda: number_text(diloco.WAYS["DiLoCo"].momentum),
    "diloco_less": lambda: number_text(facts.claim("diloco-500").value, 3),
    "link_inner": lambda: str(INNER),
    "link_share": lambda: percent_text(diloco_film.ENOUGH),
    "link_size": lambda: SIZE,
    "link_diloco": lambda: _needed("DiLoCo"),
    "link_streaming": lambda: _needed("streaming DiLoCo"),
    "link_synchronous": lambda: _needed("synchronous"),
    "kubernetes_release": lambda: job_files.RELEASE,
}
