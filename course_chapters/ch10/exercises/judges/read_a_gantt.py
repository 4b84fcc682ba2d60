from course_chapters.ch10.exercises.read_a_gantt import NAMES
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, hidden, oracle, shown
from course_grader.judging.cases import Maker
from course_lib.parallel.schedules import breadth_first, gpipe, interleaved, naive, one_f_one_b, zb_h1, zb_h2
from course_lib.parallel.timeline import Durations, play

GENERATORS = dict(zip(NAMES, (naive, gpipe, one_f_one_b, breadth_first, interleaved, zb_h1, zb_h2), strict=True))
CHUNKED = ("breadth-first", "interleaved 1F1B")

_LOOK = {
    "naive": "How many micro-batches does rank 0 hold at once?",
    **dict.fromkeys(("GPipe", "1F1B"), "On the last rank, what comes after the first forward?"),
    **dict.fromkeys(CHUNKED, "How many forwards of one micro-batch does a rank do before its first backward?"),
    **dict.fromkeys(("ZB-H1", "ZB-H2"), "Compare rank 0's forwards before its first input gradient with the ranks."),
}


def _spans(
    scale: float, schedule: str, p: int, m: int, chunks: int, rng: Random
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


def _cases(params: Params, rng: Random) -> list[Case]:
    def chart(make: Maker, name: str, share: str, schedule: str, p: int, m: int, chunks: int) -> Case:
        scale = 10 ** (rng.uniform(-3, 2) if make is shown else rng.choice((-9, 4)))
        return make(name, share, _spans(scale, schedule, p, m, chunks, rng), secret=(schedule, p, m, chunks))

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
            return f"other-{name}", f"{word}: {number:g} is not what the chart shows. Count them in the chart."
    if said.strip().lower() == schedule.lower():
        return None
    return f"not-{said.strip().replace(' ', '-').lower()}", f"it is not {said!r}. {_LOOK[schedule]}"


JUDGING = Judging(
    shares="values:seven 0.6, generality:charts 0.4",
    cases=_cases,
    verdicts=oracle(_fault, named=True),
    why="""Ranks, micro-batches and chunks can be counted. The order shows the rest: how many forwards come before the
first backward on the first rank and on the last, and whether weight gradients are separate.""",
    pytorch="`torch.profiler` traces, one process per rank; the stages' names in `record_function` are such labels.",
)

ANSWERS = r'''# %% right: worked
def read(spans):
    """(name, ranks, microbatches, chunks) of the schedule behind some spans."""
    ranks, microbatches = 1 + max(span[0] for span in spans), 1 + max(span[4] for span in spans)
    row = [span[3] for span in sorted(spans, key=lambda span: span[1]) if span[0] == 0]
    chunks = row.count("forward") // microbatches
    first = next(place for place, kind in enumerate(row) if kind != "forward")
    if "weight gradient" in row:
        name = "ZB-H2" if first > ranks else "ZB-H1"
    elif first == microbatches * chunks:
        name = "GPipe" if chunks == 1 else "breadth-first"
    elif chunks > 1:
        name = "interleaved 1F1B"
    else:
        name = "naive" if first == 1 else "1F1B"
    return name, ranks, microbatches, chunks
# %% right: counted, a list in capitals
# ~ 1 + max(span[0] for span in spans), 1 + max(span[4] for span in spans)
# ~~ ==> len({span[0] for span in spans}), len({span[4] for span in spans})
# ~ return name, ranks, microbatches, chunks ==> return [name.upper(), ranks, microbatches, chunks]
# %% wrong: everything is 1F1B => values not-1f1b
# ~ return name, ==> return "1F1B",
# %% wrong: does not sort => values not-1f1b
# ~ sorted(spans, key=lambda span: span[1]) ==> spans
# %% wrong: starts to a millionth => generality not-1f1b
# ~ key=lambda span: span[1]) ==> key=lambda span: round(span[1], 6))
# %% wrong: micro-batches counted by forwards => values other-microbatches
# ~ return name, ranks, microbatches, ==> return name, ranks, row.count("forward"),
# %% wrong: the largest numbers, not how many => values other-ranks
# ~ 1 + max(span[0] for span in spans), 1 + max(span[4] ==> max(span[0] for span in spans), max(span[4]
# %% wrong: one chunk, always => values other-chunks
# ~ return name, ranks, microbatches, chunks ==> return name, ranks, microbatches, 1
# %% wrong: ZB-H1 and ZB-H2 are one => values not-zb-h1
# ~ "ZB-H2" if first > ranks else "ZB-H1" ==> "ZB-H1"
# %% wrong: ZB-H2 by its longest warm-up => generality not-zb-h1
# ~ first > ranks ==> (first > ranks if ranks < 5 else first == 2 * ranks - 1)
# %% wrong: the last rank decides => values not-naive
# ~ if span[0] == 0] ==> if span[0] == ranks - 1]
# %% wrong: the four numbers in another order => values no-such-word
# ~ return name, ranks, microbatches, chunks ==> return ranks, microbatches, chunks, name
# %% wrong: in words of its own => values no-such-word
# ~ return name, ==> return "one forward, one backward",
# %% wrong: only the name => values wrong-shape
# ~ return name, ranks, microbatches, chunks ==> return name
# %% half: right where there are as many ranks as in the example => 3.6
# ~ first > ranks ==> first > params("read-a-gantt").ranks
'''
