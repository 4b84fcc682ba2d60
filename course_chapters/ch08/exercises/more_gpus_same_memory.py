from course_grader.exercises import Card, Word, Worth, call, pick
from course_grader.exercises.audits import causes_text

CAUSES = {
    "replicated optimizer": "every rank keeps the whole optimizer state",
    "whole gradients": "every rank keeps whole gradients, as when micro-batches are added up before they are reduced",
    "one giant unit": "the model is one unit, so that all of it is gathered at once",
    "kept after forward": "units are gathered one by one and then kept until the backward pass",
    "small group": "the group that shards the state has a fixed size; more GPUs only make more copies",
    "activations": "the state does fall, but most of the memory is activations, which this does not shard",
    "allocator": "allocated memory falls, but the memory that the allocator has reserved does not",
}

CARD = Card(
    title="More GPUs, same memory",
    text=f"""Diagnose from a trace why memory per GPU does not fall as GPUs are added. Many threads have this complaint,
with different causes (*pytorch/pytorch, issues 82001, 2022, and 104589, 2023*; *facebookresearch/fairscale, issue 1050,
2022*; *pytorch/examples, issue 1319, 2025*).

A trace is a dictionary: `"params"`, `"units"` (as its author intended), `"micro_batches"` (in a step), and `"runs"`,
one dictionary for each number of ranks, fewest first. All bytes are those of one rank at its peak:

| key | |
|---|---|
| `"ranks"` | number of ranks |
| `"weights"`, `"gradients"`, `"optimizer"` | state that the rank holds |
| `"gathered"` | gathered weights, in addition to its own |
| `"activations"` | tensors that autograd keeps |
| `"reserved"` | memory that the allocator has reserved, including all of the above |
| `"gathers"` | all-gathers in a step |

Weights and gradients have 16 bits; the numbers are measured, to a few percent. Write `cause(trace)`: why does memory
not fall as it should? Name the largest block of memory that **should have fallen or been freed but was not**. If there
is none, name the other cause:

{causes_text(CAUSES)}
- `"as it should"`: memory falls about as the number of ranks rises.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    kind="more",
    hints=(
        "Which of the three buckets of state are smaller in the last run than in the first? By what factor should "
        "they be smaller?",
        "In the last run, each bucket should be its first value times the first ranks over the last. The excess is "
        "what did not fall. At most two or three units should be gathered.",
        "`stuck = {k: last[k] - first[k] * first['ranks'] / last['ranks'] for k in …}`; all three stuck: the group. "
        "`gathered > half of 2 * params`: one unit or kept, by `gathers / micro_batches` against `units`. Then "
        "`reserved` against the sum of the parts; then activations against the sum of the rest.",
    ),
    answers=("cause",),
    params={"params": 7e9, "units": 32, "ranks": 8},
    vary=pick(params=(3e9, 8e9, 13e9), units=(24, 32, 40), ranks=(8, 16)),
    probe=call,
    returns=Word((*CAUSES, "as it should")),
)
