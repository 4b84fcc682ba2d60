from course_chapters.ch01.exercises.shared import peak_of
from course_grader.exercises import Card, Number, Params, Random, Rows, Worth
from course_grader.exercises.snippets import CLOSE

_SCOPES = {
    "all": ("of **all GPUs together**", "gpu_flops", "the mistake"),
    "each": ("of **each GPU**", "(gpus * gpu_flops)", "the mirror image of the mistake"),
}


def _scope(name: str) -> dict[str, object]:
    return {"scope": name, **dict(zip(("batch_of", "peak", "likeness"), _SCOPES[name], strict=True))}


def _bug_variant(draw: Random) -> Params:
    return {
        **_scope("each"),
        "gpus": draw.choice((8, 32, 64)),
        "params": draw.choice((7e9, 13e9, 34e9)),
        "batch": draw.choice((2, 4)),
        "steps": draw.choice((400, 600, 800)),
        "hours": draw.choice((1.5, 2.5, 4.5)),
    }


CARD = Card(
    title="Find the bug: a utilization in an article",
    **Worth(points=10, minutes=10, difficulty=3, importance=4),
    kind="more",
    form="bug",
    answers=("mfu_fixed",),
    text=f"""Find the bug in a published MFU. Readers of a public article on fine-tuning a large model
[could not reproduce its MFU](https://github.com/huggingface/blog/issues/1649), and the calculation has since
been removed. This function, which is ours, makes {{{{likeness}}}}:

```python
def mfu(params, sequence, batch, steps, seconds, gpus, gpu_flops):
    tokens = sequence * batch * steps
    flops_per_s = 6 * params * tokens / seconds
    return flops_per_s / {{{{peak:plain}}}}
```

`sequence` is the tokens of one sequence, `batch` the sequences {{{{batch_of}}}} in one step, `seconds` the length of
the run, `gpu_flops` the dense peak of one GPU. In the run: {{{{params:count}}}} parameters, sequences of
{{{{sequence:int}}}}, batch {{{{batch:int}}}}, {{{{steps:int}}}} steps in {{{{hours:plain}}}} hours on {{{{gpus:int}}}}
{{{{device}}}} of {{{{flops:tflops}}}}.

Write `mfu_fixed` with the same arguments: the MFU of the whole run, as a fraction of one. The gradients are recomputed
from checkpointed activations; that work does not count as model FLOPs. {CLOSE}""",
    hints=(
        "The numerator and the denominator each refer to some number of GPUs. Which?",
        "Change nothing that is right: 6 FLOP per parameter and token, and the dense peak. Then make the tokens and "
        "the peak belong to the same GPUs.",
        "`tokens_of_all_gpus = …`; `return 6 * params * tokens_of_all_gpus / seconds / (gpus * gpu_flops)`.",
    ),
    allowed="the standard library and numpy.",
    hides=("course_lib.estimate.compute:mfu", "course_lib.estimate.compute:hfu"),
    params={
        **_scope("all"),
        "params": 70e9,
        "sequence": 2048,
        "batch": 16,
        "steps": 500,
        "hours": 13.5,
        "gpus": 16,
        **peak_of("A100 SXM 80GB"),
    },
    vary=_bug_variant,
    structural="scope",
    returns=Rows(Number()),
)
