import re

from course_chapters.ch10.exercises.judges.schedules import longer, runnable
from course_grader.exercises.probes import refusal
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Verdict, Wrong, hidden, judged, shown
from course_lib.estimate.units import count_text
from course_lib.parallel.schedules import Schedule, looped, peak_activations
from course_lib.parallel.timeline import Durations


def _interleaved_cases(params: Params, rng: Random) -> list[Case]:
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
        refused = refusal(outcome.value)
        if refused is None:
            told = f"{m} micro-batches do not form whole rounds of {p}; raise a ValueError that says which numbers fit."
            return judged(case, ("not-refused", told), named=True)
        fits = any(int(found) and not int(found) % p for found in re.findall(r"\d+", refused))
        told = f"{m} micro-batches are refused, but the ValueError names no number that fits rounds of {p}."
        return judged(case, None if fits else ("no-number", told), named=True)
    schedule = runnable(outcome.value, case, p, m, looped(p, v))
    if not isinstance(schedule, Schedule):
        return judged(case, schedule, named=True)
    slow: Fault | None = None
    if found := longer(schedule, Durations(forward=1, backward=2), Durations(forward=1, backward=1)):
        told, plain = found
        worse = f"{told} That is no better than 1F1B with one stage per rank."
        slow = ("bubble-of-1f1b", worse) if plain else ("slower", told)
    return judged(case, None, ("cost", "memory", _chunks_fault(schedule, v)), ("cost", "time", slow), named=True)


def _chunks_fault(schedule: Schedule, v: int) -> Fault | None:
    p, total = schedule.ranks, v * schedule.microbatches
    for rank, held in enumerate(peak_activations(schedule)):
        chunks, most = round(held * v), min(2 * (p - 1 - rank) + (v - 1) * p + 1, total)
        if chunks > most:
            told = f"rank {rank} holds activations of {chunks} chunks at once; its limit is {most}."
            return Wrong("too-much-memory", told, f"{told} ")
    return None


JUDGING = Judging(
    many_right=True,
    shares="values:rows 0.35, cost:memory 0.15, cost:time 0.25, generality:sizes 0.15, generality:refusal 0.1",
    cases=_interleaved_cases,
    verdicts=_interleaved_verdicts,
    why="""Filling and draining take one *stage's* time per rank, and a stage is 1/chunks as long. The price is chunks
times as many messages, and activations of (p − 1)/chunks more micro-batches. In rounds of p, each chunk's first
micro-batch comes back just as the round ends; with a broken round, ranks would wait. Where messages take no time, ranks
− 1 − r forwards ahead are enough; doing twice as many hides the messages.""",
    pytorch="`ScheduleInterleaved1F1B`; Megatron-LM's `--num-layers-per-virtual-pipeline-stage`.",
)

ANSWERS = r'''# %% right: worked
def interleaved_rows(ranks: int, microbatches: int, chunks: int) -> list[list[tuple[str, int, int]]]:
    """One row per rank: interleaved 1F1B on `chunks` stages per rank; stage s is on rank s mod ranks."""
    if microbatches % ranks:
        near = max(ranks, microbatches // ranks * ranks)
        fits = f"{near} or {near + ranks} would fit"
        raise ValueError(f"{microbatches} micro-batches do not form whole rounds of {ranks}; {fits}.")
    rounds, rows = range(0, microbatches, ranks), []
    order = [(start + i, chunk) for start in rounds for chunk in range(chunks) for i in range(ranks)]
    for rank in range(ranks):
        forwards = [("F", chunk * ranks + rank, m) for m, chunk in order]
        backwards = [("B", (chunks - 1 - chunk) * ranks + rank, m) for m, chunk in order]
        ahead = min(2 * (ranks - 1 - rank) + (chunks - 1) * ranks, len(forwards))
        row = forwards[:ahead]
        for f, b in zip(forwards[ahead:], backwards, strict=False):
            row += [f, b]
        rows.append(row + backwards[len(forwards) - ahead :])
    return rows
# %% right: fewer forwards ahead, which is enough where messages take no time
# ~ min(2 * (ranks - 1 - rank) + ==> min(ranks - 1 - rank +
# %% wrong: does not look whether rounds are whole => generality not-refused
# ~ if microbatches % ranks: ==> if False:
# %% wrong: refuses broken rounds after the first only if one or two are left => generality not-refused
# ~ if microbatches % ranks: ==> if 0 < microbatches % ranks < 3:
# %% wrong: refuses everything => values refused
# ~ if microbatches % ranks: ==> if True:
# %% wrong: refuses an odd number of micro-batches => generality refused
# ~ if microbatches % ranks: ==> if microbatches % ranks or microbatches % 2:
# %% wrong: refuses a single micro-batch => generality refused
# ~ if microbatches % ranks: ==> if microbatches % ranks or microbatches == 1:
# %% wrong: refuses without a number that fits => generality no-number
# ~ raise ValueError( ==> raise ValueError("these micro-batches do not fit") if microbatches else ValueError(
# %% wrong: refuses with an assertion => generality raised
# ~ raise ValueError( ==> raise AssertionError(
# %% wrong: returns a refusal instead of raising it => generality not-refused
# ~ raise ValueError(f"{microbatches} micro-batches do not form whole rounds of {ranks}; {fits}.")
# ~~ ==> return {"refused": f"{microbatches} micro-batches do not form whole rounds of {ranks}; {fits}."}
# %% wrong: plain 1F1B's warm-up => values order
# ~ 2 * (ranks - 1 - rank) + (chunks - 1) * ranks ==> ranks - 1 - rank
# %% wrong: one forward too many ahead => cost too-much-memory
# ~ 2 * (ranks - 1 - rank) ==> 2 * (ranks - rank)
# %% wrong: all forwards first => cost
# > All forwards come first.
# ~ for start in rounds for chunk in range(chunks) for i in range(ranks)]
# ~~ ==> for chunk in range(chunks) for start in rounds for i in range(ranks)]
# ~ min(2 * (ranks - 1 - rank) + (chunks - 1) * ranks, len(forwards)) ==> len(forwards)
# %% wrong: one micro-batch after the other => cost bubble-of-1f1b
# ~ chunk in range(chunks) for i in range(ranks) ==> i in range(ranks) for chunk in range(chunks)
# -         rows.append(row + backwards[len(forwards) - ahead :])
# +         rows.append([op for at in range(0, len(order), chunks) for ops in (forwards, backwards) for op in ops[at :
# ~~ at + chunks]])
# %% wrong: neighboring stages on one rank => values wrong-rank
# ~ "F", chunk * ranks + rank ==> "F", rank * chunks + chunk
# ~ "B", (chunks - 1 - chunk) * ranks + rank ==> "B", rank * chunks + chunks - 1 - chunk
# %% wrong: backwards take the chunks in the forwards' order => values deadlock
# ~ (chunks - 1 - chunk) * ranks ==> chunk * ranks
# %% wrong: plain 1F1B => values missing
# ~ rounds, rows = range(0, microbatches, ranks), [] ==> rounds, rows, chunks = range(0, microbatches, ranks), [], 1
# %% wrong: only two chunks => generality missing
# ~ rounds, rows = range(0, microbatches, ranks), [] ==> rounds, rows, chunks = range(0, microbatches, ranks), [], 2
# %% wrong: four chunks at most => generality missing
# ~ rows = range(0, microbatches, ranks), [] ==> rows, chunks = range(0, microbatches, ranks), [], min(chunks, 4)
# %% wrong: empty rows => values empty-schedule
# ~ rows.append(row + backwards[len(forwards) - ahead :]) ==> rows.append([])
# %% half: right but for the refusal => 9  from: does not look whether rounds are whole
# %% half: breadth-first, within its bubble => 8.5  from: all forwards first
'''
