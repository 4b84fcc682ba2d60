"""What a judge finds wrong, and the verdict that says so."""

from course_lib.records import Case, Verdict, VerdictKind

Fault = tuple[str, str]  # a mistake's name, or "", and what to say


def verdict(kind: VerdictKind, part: str, case: Case, fault: Fault | None) -> Verdict:
    """A verdict that holds without a fault, and fails with the fault's name and message."""
    mistake, message = fault or ("", "")
    return Verdict(kind=kind, part=part, ok=fault is None, mistake=mistake, message=message, case=case.name)
