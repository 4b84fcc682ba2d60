"""A sound file of a run told otherwise: what a check of evidence must notice, or cannot."""

from course_runs.evidence import Evidence
from course_runs.evidence_fields import Measured, StepRow


def times(content: Evidence, share: float, everywhere: bool = False) -> Evidence:
    """The file with its step time multiplied by `share`; with `everywhere` every time, and all that follows from it.
    Not sealed."""
    copy = {**content, "raw": dict(content["raw"]), "measured": dict(content["measured"])}
    copy["measured"]["step_seconds"] *= share
    if everywhere:
        copy["raw"]["steps"] = [_step(row, share) for row in copy["raw"]["steps"]]
        copy["measured"] |= {name: copy["measured"][name] / share for name in ("tokens_per_s", "mfu")}
        tenths = [name for name in ("step_seconds_p10", "step_seconds_p90") if name in copy["measured"]]
        copy["measured"] |= {name: copy["measured"][name] * share for name in tenths}
        _explained(copy["measured"], content["measured"]["step_seconds"])
    return copy


def _step(row: StepRow, share: float) -> dict[str, object]:
    parts = {name: seconds * share for name, seconds in row.get("parts", {}).items()}
    return {**row, "seconds": row["seconds"] * share, "parts": parts}


def _explained(measured: Measured, before: float) -> None:
    """The gap's largest term in seconds takes the difference, so that the terms still add up."""
    gap = measured["gap"] = [term.copy() for term in measured.get("gap", ())]
    terms = [term for term in gap if term["of"] == "seconds"]
    if terms:
        max(terms, key=lambda term: abs(term["seconds"]))["seconds"] += measured["step_seconds"] - before
