"""One-line questions of chapter 10, with other numbers every time."""

from course_grader.exercises import Params, Random, asking, pick

STAGES, MANY = (2, 4, 6, 8, 12, 16), (8, 16, 24, 32, 48, 64)
_drill = asking("10")


def _round(draw: Random) -> Params:
    stages = draw.choice((4, 8, 16))
    return {"stages": stages, "microbatches": stages * draw.choice((1, 2, 4)), "chunks": draw.choice((2, 4, 5))}


def _somewhere(draw: Random) -> Params:
    stages = draw.choice(STAGES[1:])
    return {"stages": stages, "stage": draw.randrange(stages), "microbatches": draw.choice(MANY[1:])}


DRILLS = (
    _drill("naive-idle", "%", {"stages": 4}, pick(stages=STAGES))(
        "{{stages}} equal stages, one micro-batch at a time. What percentage of all GPU time is idle?"
    ),
    _drill("bubble-of-all", "%", {"stages": 4, "microbatches": 8}, pick(stages=STAGES[1:], microbatches=MANY))(
        "1F1B on {{stages}} equal stages with {{microbatches}} micro-batches: idle time as a percentage of all time?"
    ),
    _drill("bubble-over-work", "%", {"stages": 16, "microbatches": 8}, pick(stages=STAGES[1:], microbatches=MANY))(
        "GPipe on {{stages}} equal stages with {{microbatches}} micro-batches: idle time as a percentage of "
        "working time?"
    ),
    _drill(
        "enough-microbatches",
        "micro-batches",
        {"stages": 16, "percent": 10},
        pick(stages=STAGES[1:], percent=(5, 10, 20)),
    )("{{stages}} equal stages: how many micro-batches do you need so that at most {{percent}} % of all time is idle?"),
    _drill("held-by-1f1b", "micro-batches", {"stages": 8, "stage": 2, "microbatches": 32}, _somewhere)(
        "1F1B, {{stages}} stages, {{microbatches}} micro-batches: how many micro-batches' activations does stage "
        "{{stage}} (counted from 0) hold at most?"
    ),
    _drill(
        "held-by-gpipe", "micro-batches", {"stages": 8, "microbatches": 32}, pick(stages=STAGES[1:], microbatches=MANY)
    )(
        "GPipe, {{stages}} stages, {{microbatches}} micro-batches: how many micro-batches' activations does each "
        "stage hold at most?"
    ),
    _drill(
        "step-time",
        "milliseconds",
        {"stages": 4, "microbatches": 8, "forward": 10, "backward": 20},
        pick(stages=STAGES[1:], microbatches=MANY, forward=(5, 10), backward=(12, 20, 30)),
    )(
        "1F1B on {{stages}} equal stages, {{microbatches}} micro-batches; a stage takes {{forward}} ms forward and "
        "{{backward}} ms backward. How long is a step without messages?"
    ),
    _drill("interleaved-bubble", "%", {"stages": 16, "chunks": 2, "microbatches": 16}, _round)(
        "Interleaved 1F1B, {{stages}} ranks with {{chunks}} chunks each, {{microbatches}} micro-batches: idle time as "
        "a percentage of working time?"
    ),
    _drill(
        "pipeline-messages",
        "messages",
        {"stages": 4, "chunks": 1, "microbatches": 8},
        pick(stages=STAGES[1:], chunks=(1, 2, 4), microbatches=(8, 16, 32)),
    )(
        "{{stages}} ranks with {{chunks}} chunks each, assigned in turn; {{microbatches}} micro-batches forward and "
        "back. How many messages in all?"
    ),
    _drill("boundary-megabytes", "MB", sequences=(1, 2, 4), tokens=(8192, 2048, 4096), hidden=(16384, 4096, 8192))(
        "Sequences per micro-batch: {{sequences}}. Tokens per sequence: {{tokens:int}}. Hidden size {{hidden:int}}, "
        "16 bits. How much crosses one stage boundary in the forward pass?"
    ),
    _drill("zero-bubble-idle", "milliseconds", {"stages": 8, "ms": 5}, pick(stages=STAGES[1:], ms=(2, 5, 8)))(
        "ZB-H1 on {{stages}} ranks; forward, input gradient and weight gradient take {{ms}} ms each. How long is a "
        "rank idle between the first and the last operation of the whole step?"
    ),
)
