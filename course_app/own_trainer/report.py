"""What the learner sees: whose part is whose, and each run beside the library's."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from course_app.own_trainer.answers import Part
from course_app.own_trainer.axes import AXES
from course_app.own_trainer.export import owner
from course_app.own_trainer.trials import Trial, objection
from course_lib.estimate.units import bytes_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A run with the learner's parts, and the same run with the course's parts alone; None where all parts are the
    course's."""

    yours: Trial
    course: Trial | None


def part_rows(parts: Mapping[str, Part], files: Iterable[str] | None = None) -> list[dict[str, str]]:
    """A row for each part: its exercise, its chapter and whose it is."""
    chosen = [parts[file] for file in (parts if files is None else dict.fromkeys(files))]
    chosen.sort(key=lambda part: part.card.chapter)
    return [{"part": part.exercise, "chapter": part.card.chapter, "whose": owner(part)} for part in chosen]


def trial_rows(compared: Sequence[Compared]) -> list[dict[str, str]]:
    """A row for each run: its last loss, the library's, and the bytes that both send."""
    rows = []
    for each in compared:
        made, axis = each.yours, AXES[each.yours.axis]
        reason = objection(made, axis)
        course = each.course
        rows.append(
            {
                "axis": made.axis,
                "ranks": str(made.ranks),
                "last loss": f"{made.losses[-1]:.4f}" if made.losses else "—",
                "the library's": f"{made.library[-1]:.4f}",
                "largest difference, nats": reason or (f"{made.difference:.0e}" if made.difference else "0"),
                "bytes per step": bytes_text(round(made.sent)) if made.ranks > 1 else "—",
                "with the course's parts": bytes_text(round(course.sent)) if course and made.ranks > 1 else "—",
            }
        )
    return rows


def summary(parts: Mapping[str, Part], files: Iterable[str] | None = None) -> str:
    """How many of the parts are the learner's, in one sentence."""
    chosen = [parts[file] for file in (parts if files is None else dict.fromkeys(files))]
    own = sum(part.yours for part in chosen)
    if not own:
        return (
            f"None of the {len(chosen)} parts is yours yet: an exercise that you pass and save replaces the "
            f"course's part."
        )
    if own == len(chosen):
        return f"All {own} parts are yours."
    return f"{own} of the {len(chosen)} parts {'is' if own == 1 else 'are'} yours."
