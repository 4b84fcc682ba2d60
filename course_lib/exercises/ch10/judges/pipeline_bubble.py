"""Judge of pipeline-bubble: how much of the time is idle?"""

import random
from typing import Any

from course_lib.exercises.ch10.judges.shared import fewest, share
from course_lib.exercises.probes import NOT_ANSWERED
from course_lib.exercises.returns import Number
from course_lib.judging import Fault, Judging, Mistake, Params, number_fault, verdict
from course_lib.judging.cases import hidden, shown
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import count_text

OTHER = {"all": ("work", "other-convention"), "work": ("all", "public-form")}  # with the mistake of using it


def _bubble_cases(params: Params, rng: random.Random) -> list[Case]:
    p, m, most = params["stages"], params["microbatches"], params["most"]
    cases = [
        shown(
            f"{count_text(p, 'stage')}, {count_text(m, 'micro-batch', 'micro-batches')}",
            "values:both",
            (p, m),
            (p, most),
        )
    ]
    mosts, exact = (0.02, 0.05, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5), share(params["convention"], 7, 11)
    sizes = [(1, rng.randrange(2, 9), 0.5), (rng.randrange(5, 9), 1, 0.75), (21, 2000, 0.08), (90, 3, 0.004)]
    sizes += [(7, 11, exact), (7, 12, 0.9999 * exact)]
    for p, m, most in sizes + [(rng.randrange(2, 33), rng.randrange(2, 129), rng.choice(mosts)) for _ in range(8)]:
        cases.append(
            hidden(
                f"{count_text(p, 'stage')}, {count_text(m, 'micro-batch', 'micro-batches')}",
                "generality:sizes",
                (p, m),
                (p, most),
            )
        )
    return cases


def _bubble_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    (p, m), (_, most) = case.args
    (bubble, count), parts = outcome.value, ("bubble", "inverse") if case.kind == "values" else ("sizes", "sizes")
    faults = _bubble_fault(params, case, bubble, p, m), _fewest_fault(params["convention"], count, p, most)
    return [verdict(case.kind, part, case, fault) for part, fault in zip(parts, faults, strict=True)]


def _bubble_fault(params: Params, case: Case, got: Any, p: int, m: int) -> Fault | None:
    want, (other, name) = share(params["convention"], p, m), OTHER[params["convention"]]
    mistakes = [
        Mistake(name, share(other, p, m), f"this is the other convention; the exercise asks for {params['means']}."),
        Mistake("naive", 1 - 1 / p, "this is the naive pipeline, where one rank works at a time."),
        Mistake("off-by-one", p / (m + p), "how many slots does a rank wait before its first micro-batch arrives?"),
        Mistake("one-less", (p - 1) / (m + p), "count the slots from the first forward to the end once more."),
        Mistake("useful-part", 1 - want, "this is the share that works; the idle share is asked for."),
        Mistake("percent", 100 * want, "this is a percentage; a fraction of 1 is asked for."),
    ]
    mistakes = [Mistake(one.name, one.value, f"{case.name}: {one.message}") for one in mistakes if p > 1]
    hint = "Draw the slots of two stages."
    return number_fault(case.name, got, want, unit="of 1", rel=1e-9, mistakes=mistakes, hint=hint)


def _fewest_fault(convention: str, got: Any, p: int, most: float) -> Fault | None:
    want, lead, (other, name) = fewest(convention, p, most), f"At most {most:g} on {p} stages", OTHER[convention]
    if type(got) is str and got == NOT_ANSWERED:
        return "not-answered", f"{lead}: this function is not answered yet."
    if fault := Number("micro-batches", whole=True).find(got, lead, None):
        return fault
    if got == want:
        return None
    if got < 1:
        return "below-one", f"{lead}: got {got:g} micro-batches; there is at least one."
    if got == fewest(other, p, most):
        return name, f"{lead}: {got:g} is right for the other convention of what a bubble is a share of."
    if got > want:
        return "not-fewest", f"{lead}: {got:g} are enough, but not the fewest."
    name, bubble = "rounded-down" if got == want - 1 else "too-few", share(convention, p, int(got))
    return name, f"{lead}: with {got:g} micro-batches the bubble is {bubble:.4g}, still too large."


JUDGING = Judging(
    shares="values:bubble 0.4, values:inverse 0.3, generality:sizes 0.3",
    cases=_bubble_cases,
    verdicts=_bubble_verdicts,
    why="""Rank s waits s slots before its first micro-batch arrives, and p − 1 − s slots after its last: p − 1 in all, whichever
rank it is. A slot is one forward and one backward, so their ratio cancels.""",
    pytorch="`n_microbatches` of the schedules in `torch.distributed.pipelining` is the number to choose.",
)

ANSWERS = r"""import math


# %% right: by formula
def bubble(stages, microbatches):
    return (stages - 1) / (microbatches + stages - 1)


def microbatches_for(stages, most):
    return max(1, math.ceil((stages - 1) * (1 - most) / most - 1e-9))


# %% right: by trying
def bubble(stages, microbatches):
    slots = microbatches + stages - 1
    return 1 - microbatches / slots


def microbatches_for(stages, most):
    count = 1
    while (stages - 1) / (count + stages - 1) > most + 1e-12:
        count += 1
    return count


# %% right: any variant  from: by trying
# - def bubble(stages, microbatches):
# + from course_lib import params
# + VARIANT = params("pipeline-bubble")
# + def bubble(stages, microbatches):
# -     slots = microbatches + stages - 1
# -     return 1 - microbatches / slots
# +     return (stages - 1) / (microbatches + (stages - 1 if VARIANT.convention == "all" else 0))
# ~ (stages - 1) / (count + stages - 1) ==> bubble(stages, count)

# %% wrong: over working time => values other-convention unless convention=work  from: by formula
# ~ (microbatches + stages - 1) ==> microbatches
# ~ (stages - 1) * (1 - most) / most - 1e-9 ==> (stages - 1) / most - 1e-9

# %% wrong: the naive pipeline's => values naive  from: by formula
# ~ (stages - 1) / (microbatches + stages - 1) ==> 1 - 1 / stages

# %% wrong: p slots of waiting => values off-by-one  from: by formula
# ~ (stages - 1) / (microbatches + stages - 1) ==> stages / (microbatches + stages)
# ~ max(1, math.ceil((stages - 1) * (1 - most) / most - 1e-9)) ==> math.ceil(stages * (1 - most) / most - 1e-9)

# %% wrong: one slot too many in all => values one-less  from: by formula
# ~ (microbatches + stages - 1) ==> (microbatches + stages)

# %% wrong: the part that works => values useful-part  from: by formula
# ~ return (stages - 1) / (microbatches + stages - 1) ==> return microbatches / (microbatches + stages - 1)

# %% wrong: per cent => values percent  from: by formula
# ~ return (stages - 1) / (microbatches + stages - 1) ==> return 100 * (stages - 1) / (microbatches + stages - 1)

# %% wrong: rounds down => generality rounded-down  from: by formula
# ~ 1, math.ceil((stages - 1) * (1 - most) / most - 1e-9) ==> 1, math.floor((stages - 1) * (1 - most) / most + 1e-9)

# %% wrong: no micro-batch at all for one stage => generality below-one  from: by formula
# ~ max(1, math.ceil((stages - 1) * (1 - most) / most - 1e-9)) ==> math.ceil((stages - 1) * (1 - most) / most - 1e-9)

# %% wrong: the example's numbers => values too-few  from: by formula
# ~ (stages - 1) / (microbatches + stages - 1) ==> 3 / 11
# ~ max(1, math.ceil((stages - 1) * (1 - most) / most - 1e-9)) ==> 27

# %% wrong: a rule of thumb => values -  from: by formula
# ~ max(1, math.ceil((stages - 1) * (1 - most) / most - 1e-9)) ==> 4 * stages

# %% wrong: strictly below => values not-fewest  from: by formula
# ~ math.ceil((stages - 1) * (1 - most) / most - 1e-9) ==> math.floor((stages - 1) * (1 - most) / most + 1e-9) + 1

# %% wrong: a percent too much is allowed => generality rounded-down  from: by formula
# ~ - 1e-9 ==> - 1e-2

# %% wrong: a thousand micro-batches at most => generality too-few  from: by trying
# ~ > most + 1e-12: ==> > most + 1e-12 and count < 1000:

# %% wrong: a bubble of half at most => generality not-fewest  from: by formula
# ~ (1 - most) / most ==> (1 - min(most, 0.5)) / min(most, 0.5)

# %% half: no inverse => 1.6  from: by formula
# -     return max(1, math.ceil((stages - 1) * (1 - most) / most - 1e-9))
# +     return None
"""
