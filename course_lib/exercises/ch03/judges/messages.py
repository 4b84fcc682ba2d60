"""Judge of α and β: a line through times that are off by a share of themselves, and where two ways meet."""

import math
import random
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from course_lib.exercises.ch03.cards.wires import points
from course_lib.judging import Judging, Mistake, Params, describe, is_number, near
from course_lib.judging.draws import log_uniform, unseen
from course_lib.judging.named_columns import together
from course_lib.judging.old_columns import CLOSE, Column, columns, table
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import GB, US, bytes_text, duration_text, number_text


def switch(small: Sequence[float], large: Sequence[float]) -> float:
    """The least size from which on the second way is at least as quick."""
    gain = 1 / small[1] - 1 / large[1]
    if gain <= 0:
        return math.inf
    return max(0.0, (large[0] - small[0]) / gain)


def _line_columns(truths: Mapping[float, tuple[float, float]]) -> tuple[Column, Column]:
    def truth(sizes: Sequence[float], seconds: Sequence[float]) -> tuple[float, float]:
        return truths[seconds[-1]]

    def raw(sizes: Sequence[float], seconds: Sequence[float]) -> tuple[float, float]:
        """Least squares on raw seconds, where the largest messages decide alone."""
        mean_x, mean_y = statistics.fmean(sizes), statistics.fmean(seconds)
        slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(sizes, seconds, strict=True)) / sum(
            (x - mean_x) ** 2 for x in sizes
        )
        return mean_y - slope * mean_x, 1 / slope

    def apart(place: int, way: Any) -> Any:
        def value(*row: Any) -> float | None:
            wrong = way(*row)
            return None if near(wrong, truth(*row)[place], 0.1) else wrong

        return value

    def words(sizes: Sequence[float], seconds: Sequence[float]) -> str:
        return f"{len(sizes)} messages"

    return (
        Column(
            part="line",
            unit="s",
            want=lambda *row: truth(*row)[0],
            words=words,
            rel=0.08,
            hint="What does the smallest message cost?",
            slips=(
                Mistake(
                    "raw-seconds",
                    apart(0, lambda *row: raw(*row)[0]),
                    "α: least squares on raw seconds sees only the largest messages, and α drowns in their noise.",
                ),
                Mistake("microseconds", lambda *row: truth(*row)[0] / US, "α is in microseconds; give seconds."),
                Mistake("turned-round", lambda *row: truth(*row)[1], "α comes first, then β."),
            ),
        ),
        Column(
            part="line",
            unit="bytes/s",
            want=lambda *row: truth(*row)[1],
            words=words,
            rel=0.08,
            hint="What does the largest message get?",
            slips=(
                Mistake(
                    "mean-rate",
                    apart(1, lambda n, t: statistics.fmean([a / b for a, b in zip(n, t, strict=True)])),
                    "β: this is the mean of bytes over seconds, in which α is counted as slowness.",
                ),
                Mistake("seconds-per-byte", lambda *row: 1 / truth(*row)[1], "β: these are seconds per byte."),
                Mistake("gigabytes", lambda *row: truth(*row)[1] / GB, "β is in GB/s; give bytes/s."),
            ),
        ),
    )


def _way(pair: Sequence[float]) -> str:
    return f"({duration_text(pair[0])}, {number_text(pair[1] / GB)} GB/s)"


def _switch_fault(row: tuple[Any, ...], value: Any) -> tuple[str, str] | None:
    small, large = row
    want, words = switch(small, large), f"{_way(small)} against {_way(large)}"
    if value is None:
        return "returned-none", f"{words}: got None; a float is asked for, `math.inf` where it never is."
    if type(value) not in (int, float):
        return "not-a-number", f"{words}: expected one number of bytes, got {describe(value)}."
    if value == want or near(value, want, CLOSE) or (want == 0 and is_number(value) and abs(value) < 1e-6):
        return None
    gain = 1 / small[1] - 1 / large[1]
    known = (
        (
            "below-zero",
            (large[0] - small[0]) / gain,
            "the lines meet at no size a message can have; who is quicker from there on?",
        ),
        ("sign", -want, "a size is positive."),
        ("half-bandwidth", large[0] * large[1], "that is where the second way gets half of its β."),
        ("alpha-forgotten", 0.0, "the second way costs more at the start: small messages should not take it."),
        ("never", math.inf, "the second way does become the quicker one."),
        (
            "difference-of-rates",
            (large[0] - small[0]) * (large[1] - small[1]),
            "seconds per byte are subtracted, not bytes per second.",
        ),
    )
    for name, wrong, message in known:
        if value == wrong or near(value, wrong, CLOSE):
            return name, f"{words}: {message}"
    if not is_number(value):
        return "not-a-number", f"{words}: got {describe(value)}."
    return (
        "",
        f"{words}: got {bytes_text(abs(value)) if 0 < abs(value) < 1e18 else describe(value)}. Where do the two lines meet?",
    )


def _quick(nbytes: float, small: Sequence[float], large: Sequence[float]) -> float:
    return nbytes / min(pair[0] + nbytes / pair[1] for pair in (small, large))


_BEST = Column(
    part="best",
    unit="bytes/s",
    want=_quick,
    words=lambda n, s, g: f"{bytes_text(n)} by {_way(s)} or {_way(g)}",
    slips=(
        Mistake(
            "no-alpha", lambda n, s, g: max(s[1], g[1]), "this is β; a message of this size does not get all of it."
        ),
        Mistake(
            "first-only", lambda n, s, g: n / (s[0] + n / s[1]), "this is the first way; the second is quicker here."
        ),
        Mistake(
            "second-only", lambda n, s, g: n / (g[0] + n / g[1]), "this is the second way; the first is quicker here."
        ),
        Mistake("seconds", lambda n, s, g: n / _quick(n, s, g), "these are seconds; bytes a second are asked for."),
        Mistake(
            "both-ways-added",
            lambda n, s, g: n / (s[0] + n / s[1] + g[0] + n / g[1]),
            "the message goes one way, not both.",
        ),
    ),
)


def _ways(rng: random.Random) -> tuple[list[float], list[float]]:
    slow = [log_uniform(rng, 1e-6, 1e-5), log_uniform(rng, 2e9, 2e10)]
    return slow, [log_uniform(rng, 1.2e-5, 1e-4), log_uniform(rng, 2.5e10, 4e11)]


def _alpha_cases(params: Params, rng: random.Random) -> list[Case]:
    small, large = params["small"], params["large"]
    drawn = [(log_uniform(rng, 1e-6, 5e-5), log_uniform(rng, 5e9, 4e11)) for _ in range(8)]
    logs = [points(rng, *pair) for pair in drawn]
    truths = {log[1][-1]: pair for log, pair in zip(logs, drawn, strict=True)}
    pairs_of = [_ways(rng) for _ in range(10)]
    always = [([large[0], small[1]], [small[0], large[1]]), ([1e-5, 1e10], [1e-5, 2e10])]
    never = [(large, small), ([1e-6, 4e10], [1e-5, 1e10])]
    meet = switch(small, large)
    sizes = [(float(f"{meet * factor:.4g}"), small, large) for factor in (0.01, 0.5, 2, 100)]
    more = [(log_uniform(rng, 8, 1e9), *_ways(rng)) for _ in range(20)]
    return [
        Case(
            name="the measured messages",
            args=(0, [(params["sizes"], params["seconds"])]),
            part="line",
            secret={params["seconds"][-1]: tuple(small)},
        ),
        Case(name="the two ways", args=(1, [(small, large)]), part="switch"),
        Case(name="four sizes", args=(2, sizes), part="best"),
        Case(name="other logs", args=(0, logs), kind="generality", part="line", visible=False, secret=truths),
        unseen(rng, "switch", 1, "other ways", [*pairs_of, *always, *never]),
        unseen(rng, "best", 2, "other messages", more),
    ]


def _alpha_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    if case.args[0] == 2:
        return columns(_BEST, _BEST, _BEST)(params, case, outcome)
    if case.args[0] == 0:
        both = together(_line_columns(case.secret), "a pair (α in seconds, β in bytes/s)")(case, outcome)
        return [next((verdict for verdict in both if not verdict.ok), both[0])]
    got = table(outcome.value, case, "switch", case.kind)
    if isinstance(got, Verdict):
        return [got]
    faults = (_switch_fault(row, value) for row, value in zip(case.args[1], got, strict=True))
    mistake, message = next((fault for fault in faults if fault), ("", ""))
    return [Verdict(kind=case.kind, part="switch", ok=not message, mistake=mistake, message=message, case=case.name)]


ALPHA_BETA = Judging(
    shares={
        "values:line": 0.15,
        "values:switch": 0.1,
        "values:best": 0.15,
        "generality:line": 0.2,
        "generality:switch": 0.2,
        "generality:best": 0.2,
    },
    cases=_alpha_cases,
    verdicts=_alpha_verdicts,
    why="Sizes span eight decades and every time is off by a share of itself, so each equation must be divided by its own time: "
    "otherwise one large message's noise is more than all of α. A second way with more ceremony and more bandwidth pays from the "
    "size where both lines meet; a library that measures its links sets its switch there. Below α·β nobody sees the bandwidth that "
    "was bought.",
    pytorch="`torch.distributed` leaves the choice to NCCL, which keeps such tables; `NCCL_PROTO` and `NCCL_ALGO` override it.",
)
