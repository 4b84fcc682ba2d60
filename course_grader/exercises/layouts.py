"""What a case may ask of its probe, in its last argument: another layout of the tensors in memory, or a measurement."""

from course_grader.exercises.values import is_tensor

COLUMNS, SECOND = "columns first", "every second"  # layouts of tensors
MEASURED, WEIGHED = "measured", "weighed"  # what a probe is to bring back besides the result


def laid_out(value: object, layout: str) -> object:
    """The same numbers in another layout in memory, which does not survive the way from the judge to a worker."""
    if not is_tensor(value) or layout == MEASURED:
        return value
    if layout == COLUMNS:
        return value.T.contiguous().T if value.ndim > 1 else value
    return value.repeat_interleave(2)[::2] if value.ndim == 1 else value
