"""The timeline against published bubble rates: the tables of Qi et al., "Zero Bubble Pipeline Parallelism" (2023).

Twice. From the times that the authors profiled and printed: nothing is fitted (but for one model at a second size,
where they printed no times; there the proportions of the first are taken, and the message's time is fitted as below).
And as one would who has seen 1F1B runs only: one number, the time of a message, is fitted on a model's 1F1B and 1F1B-I
rows, forward and both gradients are taken to be equally long, and the other schedules are predicted.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

from course_chapters.ch10.published_pipelines import BubbleRate, StageProfile, bubble_rates, stage_profiles
from course_lib.parallel.schedules import Schedule, interleaved, one_f_one_b, zb_h1, zb_h2, zb_v
from course_lib.parallel.timeline import Durations, play

_MAKE = {"1F1B": one_f_one_b, "ZB-H1": zb_h1, "ZB-1p": zb_h1, "ZB-H2": zb_h2, "ZB-V": zb_v}
EQUAL = Durations(forward=1.0, backward=2.0)
SEEN = ("1F1B", "1F1B-I")  # what the fit may look at


@dataclass(frozen=True)
class Row:
    """One published bubble rate, and what the timeline says."""

    model: str
    ranks: int
    microbatches: int
    schedule: str
    printed: float
    profiled: float | None  # from the printed times of this model; None without an order to play
    fitted: float | None  # from durations fitted on the model's 1F1B and 1F1B-I rows
    seen: bool  # whether the fit looked at this row


def schedule_of(row: BubbleRate) -> Schedule | None:
    """The order behind a published rate; None where it is not a rule."""
    if row.schedule == "1F1B-I":
        return interleaved(row.ranks, row.microbatches, row.chunks)
    return _MAKE[row.schedule](row.ranks, row.microbatches) if row.schedule in _MAKE else None


def rate(schedule: Schedule, durations: Durations) -> float:
    """The bubble rate as the paper defines it: (cost − m(F + B + W)) / cost, cost being the longest rank's own span."""
    return play(schedule, durations).bubble_in_span


def durations_of(profile: StageProfile) -> Durations:
    """The printed times of one stage."""
    return Durations(
        forward=float(profile.forward),
        backward=profile.input_gradient + profile.weight_gradient,
        input_gradient=float(profile.input_gradient),
        communication=float(profile.communication),
    )


def fitted(rows: Iterable[BubbleRate], like: Durations = EQUAL, most: float = 0.5) -> Durations:
    """Durations in the proportions of `like`, with the message time, in forwards, that fits these rows best (squared
    error).

    Looks at 1F1B and 1F1B-I rows only.
    """
    pairs = [(schedule, float(row.rate)) for row in rows if row.schedule in SEEN and (schedule := schedule_of(row))]
    assert isinstance(like.forward, float | int)  # times of a whole rank, not of its stages
    forward = like.forward

    def timed(message: float) -> Durations:
        return replace(like, communication=message * forward)

    @cache
    def error(message: float) -> float:
        return sum((rate(schedule, timed(message)) - want) ** 2 for schedule, want in pairs)

    low, high = 0.0, most
    while high - low > 1e-3:  # the error has one valley: a rate grows with every message's time
        third = (high - low) / 3
        if error(low + third) < error(high - third):
            high -= third
        else:
            low += third
    return timed((low + high) / 2)


def table(models: Iterable[str] | None = None) -> list[Row]:
    """Every published row of these models (all of them by default), in the order of the paper."""
    wanted = [row for row in bubble_rates() if models is None or row.model in models]
    groups: dict[tuple[str, int], list[BubbleRate]] = {}
    for row in wanted:
        groups.setdefault((row.model, row.ranks), []).append(row)
    printed = {(each.model, each.ranks, each.microbatches): durations_of(each) for each in stage_profiles()}
    found = []
    for (model, ranks), rows in groups.items():
        guess = fitted(rows)
        if not any(key[:2] == (model, ranks) for key in printed):
            other = next(durations for key, durations in printed.items() if key[0] == model)
            printed |= dict.fromkeys(((model, ranks, row.microbatches) for row in rows), fitted(rows, other))
        for row in rows:
            schedule, times = schedule_of(row), printed[model, ranks, row.microbatches]
            ours, guessed = (rate(schedule, times), rate(schedule, guess)) if schedule else (None, None)
            seen = row.schedule in SEEN
            found.append(Row(model, ranks, row.microbatches, row.schedule, float(row.rate), ours, guessed, seen))
    return found
