"""Judge of audit-pipeline: audit: what does a pipeline save?"""

from course_chapters.ch10.exercises.audit_pipeline import CAUSES, ITEMS
from course_grader.judging import Mistake
from course_grader.judging.audit import audit, right, wrong
from course_lib.estimate import facts
from course_lib.parallel.schedules import gpipe, interleaved, one_f_one_b, peak_activations
from course_lib.parallel.timeline import Durations, play

_STAGES, _MICROBATCHES, _LAYERS = 16, 64, 80
_PLAYED = play(one_f_one_b(_STAGES, _MICROBATCHES))
_FIRST = peak_activations(one_f_one_b(_STAGES, _MICROBATCHES))[0] / _STAGES  # in micro-batches of the whole model
_GPIPE = peak_activations(gpipe(_STAGES, _MICROBATCHES))[0] / _STAGES
_INPUTS = _FIRST * _LAYERS
_LONGER = play(one_f_one_b(_STAGES, _MICROBATCHES), Durations(forward=1, backward=3)).makespan / _PLAYED.makespan - 1
_SQRT = float(facts.claim("recompute-sqrt-stage").value)
_OVER_WORK = "this is idle time over working time; the brackets ask for another share."
_ONE_LESS = "a rank waits p − 1 slots, not p."

KEYS = {
    "bubble-4-8": right(
        play(one_f_one_b(4, 8)).bubble_fraction,
        Mistake("over-work", 3 / 8, _OVER_WORK),
        Mistake("off-by-one", 4 / 12, _ONE_LESS),
    ),
    "bubble-16-64": right(
        _PLAYED.bubble_fraction, Mistake("over-work", 15 / 64, _OVER_WORK), Mistake("off-by-one", 16 / 80, _ONE_LESS)
    ),
    "interleaved-bubble": right(
        play(interleaved(8, 32)).bubble_over_ideal,
        Mistake("one-chunk", 7 / 32, "this is with one stage per device."),
        Mistake("of-all", 3.5 / 35.5, "this is a share of all time; the brackets name working time."),
    ),
    "recompute-forwards": wrong(
        1.0,
        "another whole",
        Mistake("as-printed", _LONGER, "this is how much longer the step takes. Count the forwards, with and without."),
        Mistake("percent", 100.0, "this is a percentage; a fraction of 1 is asked for."),
        Mistake("times", 2.0, "this is all forwards; how many of them are *additional*?"),
    ),
    "recompute-sqrt-stage": wrong(
        _INPUTS,
        "another recipe",
        Mistake("as-printed", _SQRT, "this was printed. Count the layers of a stage, and the micro-batches it holds."),
        Mistake("one-micro-batch", _LAYERS / _STAGES, "this is one micro-batch; how many does the stage hold at once?"),
        Mistake("gpipe", _GPIPE * _LAYERS, "these are GPipe's; 1F1B holds fewer."),
    ),
    "accumulation-gradients": wrong(
        1.0,
        "one copy anyway",
        Mistake("as-printed", 1 / 16, "each micro-batch would have a sixteenth of it. What shape has a gradient?"),
        Mistake("one-each", 16.0, "gradients are summed as they arrive, not kept separately."),
    ),
    "pipeline-activations": wrong(
        _FIRST,
        "more in flight",
        Mistake("as-printed", 1 / _STAGES, "this is one micro-batch. How many does the first stage hold at once?"),
        Mistake("whole-model", float(_STAGES), "each of them passes only a sixteenth of the layers here."),
        Mistake("gpipe", _GPIPE, "this is GPipe's; 1F1B holds fewer."),
    ),
    "interleaved-layers": wrong(
        10.0, "layers left over", Mistake("as-printed", 20.0, "count them: 1 to 5, and 21 to 25.")
    ),
}


JUDGING = audit(
    ITEMS,
    KEYS,
    CAUSES,
    why=f"""Recomputing repeats every forward: 100 % more forwards, {_LONGER:.0%} more of everything. In 1F1B the first of
p stages holds p micro-batches of 1/p of the layers, {_INPUTS:.0f} layer inputs here: a pipeline divides the weights, not the first
stage's activations. A √ needs segments of several layers. Accumulation adds into one buffer. Layers 1–5 and 21–25 are ten; a GPU that
holds 20 has 1–10 and 41–50, or four runs of five. The three bubbles are right, each by its own convention.""",
    pytorch="`torch.utils.checkpoint` repeats forwards; `torch.distributed.pipelining` holds what the schedule says.",
)

ANSWERS = r'''from course_lib.parallel.schedules import one_f_one_b
from course_lib.parallel.timeline import play


# %% right: worked
def audit_pp() -> dict[str, tuple[float, str, str]]:
    """For each statement: (its number, recomputed; "right" or "wrong"; the cause)."""
    ### BEGIN SOLUTION
    first = play(one_f_one_b(16, 64)).peak_activations[0]  # micro-batches on the first of 16 stages
    return {
        "bubble-4-8": (3 / 11, "right", "as printed"),
        "recompute-forwards": (1.0, "wrong", "another whole"),
        "pipeline-activations": (first / 16, "wrong", "more in flight"),
        "interleaved-bubble": (7 / 64, "right", "as printed"),
        "accumulation-gradients": (1.0, "wrong", "one copy anyway"),
        "interleaved-layers": (10, "wrong", "layers left over"),
        "bubble-16-64": (15 / 79, "right", "as printed"),
        "recompute-sqrt-stage": (first * 80 / 16, "wrong", "another recipe"),
    }
    ### END SOLUTION

# %% right: a list for each, in other letters
# ~ (1.0, "wrong", "another whole") ==> [1, "Wrong", " Another whole"]
# ~ (10, "wrong", "layers left over") ==> [10.0, "WRONG", "Layers left over"]
# %% wrong: all right as printed, with the printed numbers => values as-printed
# -     return {
# +     printed = {
# ~ (1.0, "wrong", "another whole") ==> 0.33
# ~ (first / 16, "wrong", "more in flight") ==> 0.0625
# ~ (1.0, "wrong", "one copy anyway") ==> 0.0625
# ~ (10, "wrong", "layers left over") ==> 20
# -         "recompute-sqrt-stage": (first * 80 / 16, "wrong", "another recipe"),
# -     }
# +         "recompute-sqrt-stage": 8.94,
# +     }
# +     return {name: (one, "right", "as printed") if type(one) is not tuple else one for name, one in printed.items()}
# %% wrong: idle over working time everywhere => values over-work
# ~ (3 / 11, "right", "as printed") ==> (0.375, "wrong", "another convention")
# ~ (15 / 79, "right", "as printed") ==> (15 / 64, "wrong", "another convention")
# %% wrong: interleaving as a share of all time => values of-all
# ~ (7 / 64, "right", "as printed") ==> (3.5 / 35.5, "wrong", "another convention")
# %% wrong: GPipe's first stage => values gpipe
# ~ (first / 16, ==> (4.0,
# ~ (first * 80 / 16, ==> (320,
# %% wrong: one micro-batch in the stage => values one-micro-batch
# ~ (first * 80 / 16, ==> (5,
# %% wrong: twice the forwards => values times
# ~ (1.0, "wrong", "another whole") ==> (2.0, "wrong", "another whole")
# %% wrong: per cent => values percent
# ~ (1.0, "wrong", "another whole") ==> (100, "wrong", "another whole")
# %% wrong: a gradient for each micro-batch => values one-each
# ~ (1.0, "wrong", "one copy anyway") ==> (16, "wrong", "one copy anyway")
# %% half: seven of eight => 7  from: one micro-batch in the stage
'''
