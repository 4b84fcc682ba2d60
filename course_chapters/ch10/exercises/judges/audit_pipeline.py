from course_chapters.ch10.exercises.audit_pipeline import CAUSES, ITEMS
from course_grader.judging import Worked
from course_grader.judging.audit import audit
from course_lib.parallel.schedules import one_f_one_b, peak_activations
from course_lib.parallel.timeline import Durations, play

_ONE_F_ONE_B, _LAYERS = one_f_one_b(16, 64), 80
_INPUTS = peak_activations(_ONE_F_ONE_B)[0] * _LAYERS / 16
_LONGER = play(_ONE_F_ONE_B, Durations(forward=1, backward=3)).makespan / play(_ONE_F_ONE_B).makespan - 1

JUDGING = audit(
    ITEMS,
    Worked("audit-pipeline"),
    CAUSES,
    why=f"""Recomputing repeats every forward: 100 % more forwards, {_LONGER:.0%} more of everything. In 1F1B the first
of p stages holds p micro-batches of 1/p of the layers, {_INPUTS:.0f} layer inputs here: a pipeline divides the weights,
not the first stage's activations. A √ needs segments of several layers. Accumulation adds into one buffer. Layers 1–5
and 21–25 are ten; a GPU that holds 20 has 1–10 and 41–50, or four runs of five. The three bubbles are right, each by
its own convention.""",
    pytorch="`torch.utils.checkpoint` repeats forwards; `torch.distributed.pipelining` holds what the schedule says.",
)

ANSWERS = r'''from course_lib.parallel.schedules import one_f_one_b
# %% right: worked
def audit_pp() -> dict[str, tuple[float, str, str]]:
    """For each statement: (its number, recomputed; "right" or "wrong"; the cause)."""
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
# %% right: a list for each, in other letters
# ~ (1.0, "wrong", "another whole") ==> [1, "Wrong", " Another whole"]
# ~ (10, "wrong", "layers left over") ==> [10.0, "WRONG", "Layers left over"]
# %% right: played
#       """For each statement: (its number, recomputed; "right" or "wrong"; the cause)."""
# +     from course_lib.parallel.schedules import interleaved
# ~ 3 / 11 ==> play(one_f_one_b(4, 8)).bubble_fraction
# ~ 7 / 64 ==> play(interleaved(8, 32)).bubble_over_ideal
# ~ 15 / 79 ==> play(one_f_one_b(16, 64)).bubble_fraction
# %% wrong: all right as printed, with the printed numbers => values blind
# ~ return ==> printed =
# -         "recompute-forwards": (1.0, "wrong", "another whole"),
# -         "pipeline-activations": (first / 16, "wrong", "more in flight"),
# +         "recompute-forwards": 0.33,
# +         "pipeline-activations": 0.0625,
# ~ (1.0, "wrong", "one copy anyway") ==> 0.0625
# ~ (10, "wrong", "layers left over") ==> 20
# ~ (first * 80 / 16, "wrong", "another recipe") ==> 8.94
#       }
# +     return {name: (one, "right", "as printed") if type(one) is not tuple else one for name, one in printed.items()}
# %% wrong: idle over working time everywhere => values over-work
# > this is idle time over working time; the brackets ask for another share.
# ~ (3 / 11, "right", "as printed") ==> (0.375, "wrong", "another convention")
# ~ (15 / 79, "right", "as printed") ==> (15 / 64, "wrong", "another convention")
# %% wrong: p slots idle => values off-by-one
# > a rank waits p − 1 slots, not p.
# ~ (3 / 11, ==> (4 / 12,
# ~ (15 / 79, ==> (16 / 80,
# %% wrong: one stage per device => values one-chunk
# > this is with one stage per device.
# ~ (7 / 64, ==> (7 / 32,
# %% wrong: interleaving as a share of all time => values of-all
# > this is a share of all time; the brackets name working time.
# ~ (7 / 64, "right", "as printed") ==> (3.5 / 35.5, "wrong", "another convention")
# %% wrong: a third more time => values as-printed
# > this is how much longer the step takes. Count the forwards, with and without.
# ~ (1.0, "wrong", "another whole") ==> (1 / 3, "wrong", "another whole")
# %% wrong: twice the forwards => values times
# > this is all forwards; how many of them are *additional*?
# ~ (1.0, "wrong", "another whole") ==> (2.0, "wrong", "another whole")
# %% wrong: per cent => values percent
# > this is a percentage; a fraction of 1 is asked for.
# ~ (1.0, "wrong", "another whole") ==> (100, "wrong", "another whole")
# %% wrong: a sixteenth of the activations => values as-printed
# > this is one micro-batch. How many does the first stage hold at once?
# ~ (first / 16, ==> (1 / 16,
# %% wrong: whole models in flight => values whole-model
# > each of them passes only a sixteenth of the layers here.
# ~ (first / 16, ==> (first,
# %% wrong: GPipe's first stage => values gpipe
# > this is GPipe's; 1F1B holds fewer.
# ~ (first / 16, ==> (4.0,
# ~ (first * 80 / 16, ==> (320,
# %% wrong: a sixteenth of the gradients => values as-printed
# > each micro-batch would have a sixteenth of it. What shape has a gradient?
# ~ (1.0, "wrong", "one copy anyway") ==> (1 / 16, "wrong", "one copy anyway")
# %% wrong: a gradient for each micro-batch => values one-each
# > gradients are summed as they arrive, not kept separately.
# ~ (1.0, "wrong", "one copy anyway") ==> (16, "wrong", "one copy anyway")
# %% wrong: twenty layers => values as-printed
# > count them: 1 to 5, and 21 to 25.
# ~ (10, ==> (20,
# %% wrong: the root of all layers => values as-printed
# > this was printed. Count the layers of a stage, and the micro-batches it holds.
# ~ (first * 80 / 16, ==> (80**0.5,
# %% wrong: one micro-batch in the stage => values one-micro-batch
# > this is one micro-batch; how many does the stage hold at once?
# ~ (first * 80 / 16, ==> (5,
# %% half: seven of eight => 7  from: one micro-batch in the stage
'''
