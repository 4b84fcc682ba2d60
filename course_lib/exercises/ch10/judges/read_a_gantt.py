"""Judge of read-a-gantt: which schedule was that?"""

import random
from typing import Any

from course_lib.exercises.ch10.read_a_gantt import NAMES
from course_lib.judging import Fault, Judging, Params, oracle
from course_lib.judging.cases import hidden, shown
from course_lib.records import Case, Outcome
from course_lib.schedules import breadth_first, gpipe, interleaved, naive, one_f_one_b, zb_h1, zb_h2
from course_lib.timeline import Durations, play

GENERATORS = dict(zip(NAMES, (naive, gpipe, one_f_one_b, breadth_first, interleaved, zb_h1, zb_h2), strict=True))
CHUNKED = ("breadth-first", "interleaved 1F1B")

_LOOK = {
    "naive": "How many micro-batches does rank 0 hold at once?",
    **dict.fromkeys(("GPipe", "1F1B"), "On the last rank, what comes after the first forward?"),
    **dict.fromkeys(CHUNKED, "How many forwards of one micro-batch does a rank do before its first backward?"),
    **dict.fromkeys(("ZB-H1", "ZB-H2"), "Compare rank 0's forwards before its first input gradient with the ranks."),
}


def _spans(
    scale: float, schedule: str, p: int, m: int, chunks: int, rng: random.Random
) -> list[tuple[int, float, float, str, int]]:
    """The spans of a schedule in random order; stages differ a little in their times."""
    rows = GENERATORS[schedule](p, m, *[chunks] * (schedule in CHUNKED))
    stages = [rng.uniform(0.8, 1.25) for _ in range(rows.stages)]
    forward = [scale * stage * rows.share for stage in stages]
    message = scale * rng.choice((0.0, 0.05, 0.1))
    played = play(rows, Durations(forward=forward, backward=[2.1 * x for x in forward], communication=message))
    spans = [(span.rank, span.start, span.end, span.kind, int(span.label)) for span in played.spans()]
    rng.shuffle(spans)
    return spans


def _cases(params: Params, rng: random.Random) -> list[Case]:
    def chart(make: Any, name: str, share: str, *truth: Any) -> Case:
        scale = 10 ** (rng.uniform(-3, 2) if make is shown else rng.choice((-9, 4)))
        return make(name, share, _spans(scale, *truth, rng), secret=truth)

    p, m = params["ranks"], params["microbatches"]
    cases = []
    for letter, schedule in zip("ABCDEFG", rng.sample([*NAMES], len(NAMES)), strict=True):
        rounds = p * (m // p + 1) if "interleaved" in schedule else m
        cases.append(chart(shown, f"chart {letter}", "values:seven", schedule, p, rounds, 1 + (schedule in CHUNKED)))
    for number, schedule in enumerate((*rng.sample([*NAMES], len(NAMES)), *rng.sample([*NAMES], len(NAMES))), 1):
        few = number <= len(NAMES)  # as few micro-batches as may be, and then many
        p, chunks = 5 if few else (2, 7)[number % 2], (3 if few else 5) if schedule in CHUNKED else 1
        m = p * (2 if few else 3) if "interleaved" in schedule else p + (1 if few else rng.randrange(14, 18))
        cases.append(chart(hidden, f"unseen chart {number}", "generality:charts", schedule, p, m, chunks))
    return cases


def _fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    (said, *numbers), (schedule, *right) = outcome.value, case.secret
    words = ("ranks", "micro-batches", "chunks per rank")
    for name, word, number, want in zip(("ranks", "microbatches", "chunks"), words, numbers, right, strict=True):
        if number != want:
            return f"other-{name}", f"{number:g} {word} is not what the chart shows. What can be counted directly?"
    if said.strip().lower() == schedule.lower():
        return None
    return f"not-{said.strip().replace(' ', '-').lower()}", f"it is not {said!r}. {_LOOK[schedule]}"


JUDGING = Judging(
    shares="values:seven 0.6, generality:charts 0.4",
    cases=_cases,
    verdicts=oracle(_fault, named=True),
    why="""Ranks, micro-batches and chunks can be counted. The order shows the rest: how many forwards come before the first backward on the
first rank and on the last, and whether weight gradients are separate.""",
    pytorch="`torch.profiler` traces, one process per rank; the stages' names in `record_function` are such labels.",
)

ANSWERS = r'''def counted(spans):
    """Ranks, micro-batches, chunks."""
    ranks = 1 + max(span[0] for span in spans)
    microbatches = 1 + max(span[4] for span in spans)
    chunks = sum(span[3] == "forward" and span[0] == 0 and span[4] == 0 for span in spans)
    return ranks, microbatches, chunks


def row_of(spans, rank):
    """The kinds of a rank's operations in order."""
    return [span[3] for span in sorted(spans, key=lambda span: span[1]) if span[0] == rank]


def ahead(spans, rank):
    """Forwards before the first that is none."""
    row = row_of(spans, rank)
    return next(place for place, kind in enumerate(row) if kind != "forward")


# %% right: by the first rank, and the last
def read(spans):
    ranks = len({rank for rank, *_ in spans})
    microbatches = len({span[4] for span in spans})
    row = [span[3] for span in sorted(spans, key=lambda span: span[1]) if span[0] == 0]
    chunks = row.count("forward") // microbatches
    ahead = next(place for place, kind in enumerate(row) if kind != "forward")
    if "weight gradient" in row:
        name = "ZB-H2" if ahead > ranks else "ZB-H1"
    elif ahead == microbatches * chunks:
        name = "GPipe" if chunks == 1 else "breadth-first"
    elif chunks > 1:
        name = "interleaved 1F1B"
    else:
        name = "naive" if ahead == 1 else "1F1B"
    return name, ranks, microbatches, chunks


# %% right: by what every rank holds at most
def read(spans):
    ranks = len({span[0] for span in spans})
    microbatches = len({span[4] for span in spans})
    chunks = sum(span[3] == "forward" for span in spans) // (ranks * microbatches)
    held = []
    for rank in range(ranks):
        now = most = 0
        for kind in row_of(spans, rank):
            now += {"forward": 1, "backward": -1, "weight gradient": -1}.get(kind, 0)
            most = max(most, now)
        held.append(most)
    halves = any(span[3] == "input gradient" for span in spans)
    if halves:
        name = "ZB-H1" if max(held) <= ranks else "ZB-H2"
    elif chunks > 1:
        name = "breadth-first" if set(held) == {microbatches * chunks} else "interleaved 1F1B"
    else:
        name = {True: "naive", False: "1F1B"}[max(held) == 1] if held[-1] == 1 else "GPipe"
    return [name, ranks, microbatches, chunks]


# %% wrong: everything is 1F1B => values not-1f1b
def read(spans):
    return "1F1B", *counted(spans)


# %% wrong: does not sort => values -  from: by the first rank, and the last
# ~ sorted(spans, key=lambda span: span[1]) ==> spans


# %% wrong: micro-batches counted by forwards => values other-microbatches
def read(spans):
    ranks = 1 + max(span[0] for span in spans)
    return "GPipe", ranks, sum(span[3] == "forward" and span[0] == 0 for span in spans), 1


# %% wrong: the largest numbers, not how many => values other-ranks
def read(spans):
    return "GPipe", max(span[0] for span in spans), max(span[4] for span in spans), 1


# %% wrong: one chunk, always => values other-chunks
def read(spans):
    ranks, microbatches, _ = counted(spans)
    return "1F1B", ranks, microbatches, 1


# %% wrong: ZB-H1 and ZB-H2 are one => values not-zb-h1  from: by the first rank, and the last
# ~ "ZB-H2" if ahead > ranks else "ZB-H1" ==> "ZB-H1"


# %% wrong: the four numbers in another order => values no-such-word
def read(spans):
    ranks, microbatches, chunks = counted(spans)
    return ranks, microbatches, chunks, "1F1B"


# %% wrong: in words of its own => values no-such-word
def read(spans):
    return "one forward, one backward", *counted(spans)


# %% wrong: only the name => values wrong-shape
def read(spans):
    return "1F1B"


# %% wrong: the last rank decides => values -
def read(spans):
    ranks, microbatches, chunks = counted(spans)
    first = ahead(spans, ranks - 1)
    return ("1F1B" if first == 1 else "GPipe"), ranks, microbatches, chunks


# %% wrong: starts to a millionth => generality -  from: by the first rank, and the last
# ~ key=lambda span: span[1]) ==> key=lambda span: round(span[1], 6))

# %% wrong: ZB-H2 by its longest warm-up => generality not-zb-h1  from: by the first rank, and the last
# ~ ahead > ranks ==> ahead == 2 * ranks - 1

# %% half: right where there are as many ranks as in the example => 3.6  from: by the first rank, and the last
# - def read(spans):
# + from course_lib import notebook
# + SHOWN = notebook.params("read-a-gantt")
# + def read(spans):
# -         name = "ZB-H2" if ahead > ranks else "ZB-H1"
# +         name = "ZB-H2" if ahead > SHOWN.ranks else "ZB-H1"
'''
