"""Numbers in chapter 20's prose about local SGD, DiLoCo, quorums and job files."""

from collections.abc import Callable, Mapping

from course_chapters.ch20 import diloco, job_files
from course_lib.estimate import facts
from course_lib.estimate.units import number_text

SOURCES: tuple[str, ...] = ("diloco-2023", "streaming-diloco-2025", "torchft-233", "nccl-env", "kubernetes-1-36")

NUMBERS: Mapping[str, Callable[[], str]] = {
    "diloco_rounds": lambda: str(diloco.Plan().steps // diloco.Plan().inner),
    "diloco_momentum": lambda: number_text(diloco.WAYS["DiLoCo"].momentum),
    "diloco_less": lambda: number_text(facts.claim("diloco-500").value, 3),
    "kubernetes_release": lambda: job_files.RELEASE,
}
