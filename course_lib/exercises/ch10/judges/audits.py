"""Key of chapter 10's audit: the truth about each statement, and what slips come to."""

from course_lib import facts
from course_lib.exercises.ch10.cards.audits import CAUSES, ITEMS
from course_lib.judging import Mistake
from course_lib.judging.audit import Key, audit
from course_lib.schedules import gpipe, interleaved, one_f_one_b, peak_activations
from course_lib.timeline import Durations, play


def _bubble(stages: int, microbatches: int) -> float:
    return play(one_f_one_b(stages, microbatches)).bubble_fraction


_SMALL, _LARGE = _bubble(4, 8), _bubble(16, 64)
_LOOPED = play(interleaved(8, 32)).bubble_over_ideal
_STAGES, _MANY, _LAYERS = 16, 64, 80
_FIRST = peak_activations(one_f_one_b(_STAGES, _MANY))[0] / _STAGES  # in micro-batches through the whole model
_ALL_FIRST = peak_activations(gpipe(_STAGES, _MANY))[0] / _STAGES
_INPUTS = _FIRST * _LAYERS
_LONGER = (
    play(one_f_one_b(_STAGES, _MANY), Durations(forward=1, backward=3)).makespan
    / play(one_f_one_b(_STAGES, _MANY)).makespan
    - 1
)
_SQRT = float(facts.claim("recompute-sqrt-stage").value)

KEYS: dict[str, Key] = {
    "bubble-4-8": Key(
        _SMALL,
        mistakes=(
            Mistake("over-work", 3 / 8, "this is idle time over working time; the brackets name another whole."),
            Mistake("off-by-one", 4 / 12, "a rank waits p − 1 slots, not p."),
        ),
    ),
    "bubble-16-64": Key(
        _LARGE,
        mistakes=(
            Mistake("over-work", 15 / 64, "this is idle time over working time; the brackets name another whole."),
            Mistake("off-by-one", 16 / 80, "a rank waits p − 1 slots, not p."),
        ),
    ),
    "interleaved-bubble": Key(
        _LOOPED,
        mistakes=(
            Mistake("one-chunk", 7 / 32, "this is with one stage a device."),
            Mistake("of-all", 3.5 / 35.5, "this is a share of all time; the brackets name working time."),
        ),
    ),
    "recompute-forwards": Key(
        1.0,
        "another whole",
        mistakes=(
            Mistake(
                "as-printed",
                _LONGER,
                "that is what the step takes longer. How many forwards are done, and how many were done before?",
            ),
            Mistake("percent", 100.0, "these are per cent; a fraction of 1 is asked for."),
            Mistake("times", 2.0, "that is all forwards; how many of them are done *more*?"),
        ),
    ),
    "recompute-sqrt-stage": Key(
        _INPUTS,
        "another recipe",
        mistakes=(
            Mistake(
                "as-printed",
                _SQRT,
                "that is what was printed. Count the layers of a stage, and the micro-batches it holds.",
            ),
            Mistake(
                "one-micro-batch",
                _LAYERS / _STAGES,
                "this is one micro-batch's; how many are between forward and backward?",
            ),
            Mistake("gpipe", _ALL_FIRST * _LAYERS, "these are GPipe's; 1F1B holds fewer."),
        ),
    ),
    "accumulation-gradients": Key(
        1.0,
        "one copy anyway",
        mistakes=(
            Mistake(
                "as-printed",
                1 / 16,
                "that would be it if each micro-batch had its own sixteenth of the buffer. What shape has a gradient?",
            ),
            Mistake("one-each", 16.0, "they are added up as they come, not kept side by side."),
        ),
    ),
    "pipeline-activations": Key(
        _FIRST,
        "more in flight",
        mistakes=(
            Mistake(
                "as-printed", 1 / _STAGES, "that is one micro-batch's. How many does the first stage hold at once?"
            ),
            Mistake("whole-model", float(_STAGES), "each of them only through a sixteenth of the layers."),
            Mistake("gpipe", _ALL_FIRST, "that is GPipe's; 1F1B holds fewer."),
        ),
    ),
    "interleaved-layers": Key(
        10.0, "layers left over", mistakes=(Mistake("as-printed", 20.0, "count them: 1 to 5, and 21 to 25."),)
    ),
}


AUDITS = {
    "audit-pipeline": audit(
        ITEMS,
        KEYS,
        CAUSES,
        why=f"Recomputing repeats every forward: 100 % more forwards, {_LONGER:.0%} more of everything. In 1F1B the first of p stages holds p "
        f"micro-batches of 1/p of the layers, {_INPUTS:.0f} layer inputs here: a pipeline shares out weights, not the first stage's activations; "
        f"a √ needs segments of several layers. Accumulating adds into one buffer. Layers 1–5 and 21–25 are ten: with 20 to hold, 1–10 and "
        f"41–50, or four runs of five. The three bubbles are right, each by its own convention.",
        pytorch="`torch.utils.checkpoint` repeats forwards; `torch.distributed.pipelining` holds what the schedule says: count it before believing a saving.",
    )
}
