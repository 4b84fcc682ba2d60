"""Judge of interleaved-rows: several chunks per rank."""

import random

from course_lib.exercises.ch10.judges.schedules import longer, runnable
from course_lib.judging import Fault, Judging, Params, judged
from course_lib.judging.cases import hidden, shown
from course_lib.records import Case, Outcome, Verdict
from course_lib.schedules import Schedule, looped, peak_activations
from course_lib.timeline import Durations
from course_lib.units import count_text


def _interleaved_cases(params: Params, rng: random.Random) -> list[Case]:
    def name(p: int, m: int, v: int) -> str:
        return f"{count_text(p, 'rank')}, {count_text(m, 'micro-batch', 'micro-batches')}, {count_text(v, 'chunk')}"

    own = params["ranks"], params["microbatches"], params["chunks"]
    sizes = [(2, 2, 2), (2, 2, 3), (3, 9, 3), (1, 1, 2), (1, 25, 2), (2, rng.randrange(8, 14, 2), rng.randrange(5, 7))]
    sizes += [(p, p * rng.randrange(1, 3), 2) for p in (rng.randrange(4, 6), rng.randrange(7, 9))]
    return [
        shown(name(*own), "values:rows", *own),
        *(hidden(name(*size), "generality:sizes", *size) for size in sizes),
        *(hidden(name(*size), "generality:refusal", *size) for size in ((4, 6, 2), (3, 4, 2), (4, 2, 2), (5, 13, 2))),
    ]


def _interleaved_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    p, m, v = case.args
    if case.part == "refusal":
        refused = type(outcome.value) is dict and set(outcome.value) == {"refused"}
        told = f"{m} micro-batches do not form whole rounds of {p}; raise a ValueError that says so."
        return judged(case, None if refused else ("not-refused", told), named=True)
    schedule = runnable(outcome.value, case, p, m, looped(p, v))
    if not isinstance(schedule, Schedule):
        return judged(case, schedule, named=True)
    slow = longer(schedule, Durations(forward=1, backward=2), Durations(forward=1, backward=1))
    if slow:
        told, plain = slow
        worse = f"{told} That is no better than 1F1B with one stage per rank."
        slow = ("bubble-of-1f1b", worse) if plain else ("slower", told)
    return judged(case, None, ("cost", "memory", _chunks_fault(schedule, v)), ("cost", "time", slow), named=True)


def _chunks_fault(schedule: Schedule, v: int) -> Fault | None:
    p, total = schedule.ranks, v * schedule.microbatches
    for rank, held in enumerate(peak_activations(schedule)):
        chunks, most = round(held * v), min(2 * (p - 1 - rank) + (v - 1) * p + 1, total)
        if chunks > most:
            name = "all-forwards-first" if chunks == total else "too-much-memory"
            return name, f"rank {rank} holds activations of {chunks} chunks at once; its limit is {most}."
    return None


JUDGING = Judging(
    shares="values:rows 0.35, cost:memory 0.15, cost:time 0.25, generality:sizes 0.15, generality:refusal 0.1",
    cases=_interleaved_cases,
    verdicts=_interleaved_verdicts,
    why="""Filling and draining take one *stage's* time per rank, and a stage is 1/chunks as long. The price is chunks times as many
messages, and activations of (p − 1)/chunks more micro-batches. In rounds of p, each chunk's first micro-batch comes back just as the
round ends; with a broken round, ranks would wait. Where messages take no time, ranks − 1 − r forwards ahead are enough; doing twice
as many hides the messages.""",
    pytorch="`ScheduleInterleaved1F1B`; Megatron-LM's `--num-layers-per-virtual-pipeline-stage`.",
)

ANSWERS = r'''from course_lib.schedules import Op


def looped(ranks, microbatches, chunks, ahead, check=True):
    """Interleaved rows with so many forwards ahead on a rank."""
    if check and microbatches % ranks:
        raise ValueError(
            f"{microbatches} is no multiple of {ranks}; {microbatches // ranks * ranks + ranks} would fit."
        )
    total, rows = microbatches * chunks, []
    for rank in range(ranks):
        first = max(0, min(ahead(rank), total))

        def op(kind, k, rank=rank):
            chunk = k // ranks % chunks
            stage = (chunk if kind == "F" else chunks - 1 - chunk) * ranks + rank
            return kind, stage, k // (ranks * chunks) * ranks + k % ranks

        row = [op("F", k) for k in range(first)]
        for k in range(total):
            if first + k < total:
                row.append(op("F", first + k))
            row.append(op("B", k))
        rows.append(row)
    return rows


# %% right: by the number of each forward and backward
def interleaved_rows(ranks, microbatches, chunks):
    if microbatches % ranks:
        raise ValueError(f"{microbatches} is no multiple of {ranks}; {(microbatches // ranks + 1) * ranks} would fit.")

    def op(kind, rank, k):
        chunk = k // ranks % chunks
        stage = (chunk if kind == "F" else chunks - 1 - chunk) * ranks + rank
        return kind, stage, k // (ranks * chunks) * ranks + k % ranks

    total, rows = microbatches * chunks, []
    for rank in range(ranks):
        ahead = min(2 * (ranks - 1 - rank) + (chunks - 1) * ranks, total)
        row = [op("F", rank, k) for k in range(ahead)]
        for k in range(total):
            if ahead + k < total:
                row.append(op("F", rank, ahead + k))
            row.append(op("B", rank, k))
        rows.append(row)
    return rows


# %% right: lists of forwards and backwards, zipped together
def interleaved_rows(ranks, microbatches, chunks):
    rounds, rest = divmod(microbatches, ranks)
    if rest:
        raise ValueError(
            f"Micro-batches come in rounds of {ranks}; {rounds * ranks} or {(rounds + 1) * ranks} would fit."
        )
    rows = []
    for rank in range(ranks):
        forwards = [
            Op("F", chunk * ranks + rank, r * ranks + m)
            for r in range(rounds)
            for chunk in range(chunks)
            for m in range(ranks)
        ]
        backwards = [
            Op("B", chunk * ranks + rank, r * ranks + m)
            for r in range(rounds)
            for chunk in reversed(range(chunks))
            for m in range(ranks)
        ]
        ahead = min(len(forwards), 2 * (ranks - rank - 1) + (chunks - 1) * ranks)
        row = forwards[:ahead]
        for pair in zip(forwards[ahead:], backwards):
            row += pair
        rows.append(row + backwards[len(forwards) - ahead :])
    return rows


# %% right: fewer forwards ahead, which is enough where messages take no time
def interleaved_rows(ranks, microbatches, chunks):
    return looped(ranks, microbatches, chunks, lambda rank: ranks - 1 - rank + (chunks - 1) * ranks)


# %% wrong: does not look whether rounds are whole => generality not-refused  from: fewer forwards ahead, which is enough where messages take no time
# ~ ranks - 1 - rank + (chunks - 1) * ranks ==> 2 * (ranks - 1 - rank) + (chunks - 1) * ranks, check=False


# %% wrong: plain 1F1B's warm-up => values order
def interleaved_rows(ranks, microbatches, chunks):
    return looped(ranks, microbatches, chunks, lambda rank: ranks - 1 - rank)


# %% wrong: one forward too many ahead => cost too-much-memory  from: fewer forwards ahead, which is enough where messages take no time
# ~ ranks - 1 - rank ==> 2 * (ranks - rank)


# %% wrong: breadth-first, all forwards first => cost all-forwards-first
def interleaved_rows(ranks, microbatches, chunks):
    if microbatches % ranks:
        raise ValueError("whole rounds, please")
    rows = []
    for rank in range(ranks):
        row = [("F", c * ranks + rank, m) for c in range(chunks) for m in range(microbatches)]
        rows.append(row + [("B", c * ranks + rank, m) for c in reversed(range(chunks)) for m in range(microbatches)])
    return rows


# %% wrong: neighboring stages on one rank => values wrong-rank  from: by the number of each forward and backward
# -         stage = (chunk if kind == "F" else chunks - 1 - chunk) * ranks + rank
# +         stage = rank * chunks + (chunk if kind == "F" else chunks - 1 - chunk)

# %% wrong: backwards take the chunks in the forwards' order => values deadlock  from: by the number of each forward and backward
# ~ (chunk if kind == "F" else chunks - 1 - chunk) ==> chunk

# %% wrong: plain 1F1B => values -  from: fewer forwards ahead, which is enough where messages take no time
# ~ chunks, lambda rank: ranks - 1 - rank + (chunks - 1) * ranks ==> 1, lambda rank: ranks - 1 - rank


# %% wrong: one micro-batch after the other => cost bubble-of-1f1b
def interleaved_rows(ranks, microbatches, chunks):
    if microbatches % ranks:
        raise ValueError("no whole rounds")
    return [
        [
            op
            for m in range(microbatches)
            for op in [("F", c * ranks + r, m) for c in range(chunks)]
            + [("B", c * ranks + r, m) for c in reversed(range(chunks))]
        ]
        for r in range(ranks)
    ]


# %% wrong: empty rows => values empty-schedule
def interleaved_rows(ranks, microbatches, chunks):
    if microbatches % ranks:
        raise ValueError("no whole rounds")
    return [[]] * ranks


# %% wrong: refuses everything => values refused
def interleaved_rows(ranks, microbatches, chunks):
    raise ValueError("does not fit")


# %% wrong: refuses an odd number of micro-batches => generality -  from: by the number of each forward and backward
# ~ if microbatches % ranks: ==> if microbatches % ranks or microbatches % 2:

# %% wrong: only two chunks => generality missing  from: by the number of each forward and backward
#   def interleaved_rows(ranks, microbatches, chunks):
# +     chunks = 2

# %% wrong: refuses with an assertion => generality -  from: by the number of each forward and backward
# -     if microbatches % ranks:
# -         raise ValueError(f"{microbatches} is no multiple of {ranks}; {(microbatches // ranks + 1) * ranks} would fit.")
# +     assert microbatches % ranks == 0

# %% wrong: four chunks at most => generality missing  from: by the number of each forward and backward
#   def interleaved_rows(ranks, microbatches, chunks):
# +     chunks = min(chunks, 4)

# %% wrong: refuses broken rounds after the first only if one or two are left => generality not-refused  from: by the number of each forward and backward
# ~ if microbatches % ranks: ==> if 0 < microbatches % ranks < 3:

# %% half: right but for the refusal => 9  from: does not look whether rounds are whole

# %% half: breadth-first, within its bubble => 8.5  from: breadth-first, all forwards first
'''
