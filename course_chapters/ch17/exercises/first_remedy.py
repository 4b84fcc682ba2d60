from course_grader.exercises import Card, Params, Random, Rows, Word, Worth

REMEDIES = ("nothing", "accumulate", "shard the optimizer", "recompute", "shard everything", "split the model")


def _vary_job(draw: Random) -> Params:
    return {
        "billions": draw.choice((3, 7, 8, 13)),
        "gpus": draw.choice((16, 32, 64)),
        "sequences": draw.choice((4, 8, 16)),
    }


CARD = Card(
    title="The cheapest remedy that is enough",
    text="""A run does not fit. Write `first_remedy(parameters, gpus, sequences, activations, inputs, memory)`, which
returns the first remedy of this list that makes it fit, as text. On this job's network each remedy costs more than the
one before it, and it **keeps those before it**:

1. `"nothing"`: plain data parallelism. A GPU holds 16 bytes per parameter (4 of weights and gradients, 12 of optimizer
   state) and the activations of all its `sequences`.
2. `"accumulate"`: one sequence at a time, which is free until the matrices become too small.
3. `"shard the optimizer"` (ZeRO-1) over all `gpus`: no more bytes on the wire than the gradients' all-reduce.
4. `"recompute"`: of a sequence, only the layers' `inputs` stay, for a third more compute.
5. `"shard everything"` (ZeRO-3): all 16 bytes are cut by `gpus`, for 1.5 times the bytes on the wire.
6. `"split the model"`: none of the others is enough.

`activations` and `inputs` are bytes of one sequence, `memory` bytes of one GPU. A run that fills the memory exactly
fits. Ignore all other buffers. Example: {{billions}}B parameters on {{gpus}} GPUs, {{sequences}} sequences per GPU.""",
    **Worth(points=4, minutes=5, difficulty=1, importance=5),
    hints=(
        "What does a GPU hold after each remedy, if those before it stay in place?",
        "The state is 16 P, then (4 + 12 / n) P, then 16 P / n. The activations are those of all sequences, of one, "
        "then its inputs.",
        "Compute the six totals in order and return the first name whose total is at most `memory`; the last "
        "needs no test.",
    ),
    answers=("first_remedy",),
    allowed="plain Python; the library's ranking is switched off.",
    hides=("course_lib.operate.capstone.remedy:remedies",),
    params={"billions": 7, "gpus": 64, "sequences": 8},
    vary=_vary_job,
    needs=("02", "05", "08"),
    returns=Rows(Word(REMEDIES)),
)
