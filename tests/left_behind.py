"""Settings on which numbers depend, and a notebook that has changed all of them."""

import contextlib
from collections.abc import Iterator

import torch

from course_grader.arithmetic import same_everywhere


def settings() -> list[object]:
    """What a notebook may leave changed."""
    return [
        torch.get_num_threads(),
        str(torch.get_default_dtype()),
        torch.is_grad_enabled(),
        torch.get_deterministic_debug_mode(),
        torch.utils.deterministic.fill_uninitialized_memory,
        torch.get_float32_matmul_precision(),
        str(torch.get_default_device()),
    ]


PLAIN = [1, "torch.float32", True, 1, True, "highest", "cpu"]
LEFT = [4, "torch.float64", False, 2, False, "medium", "meta"]


@contextlib.contextmanager
def left_behind() -> Iterator[None]:
    """Every setting is changed, as a notebook may leave them."""
    with same_everywhere():
        torch.set_num_threads(4)
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        torch.set_deterministic_debug_mode(2)
        torch.utils.deterministic.fill_uninitialized_memory = False
        torch.set_float32_matmul_precision("medium")
        torch.set_default_device("meta")
        yield
