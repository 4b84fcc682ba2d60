from course_chapters.ch04.exercises.probes import trajectory
from course_grader.exercises import Card, DictOf, ListOf, Tensor, Worth

DECAYS = {
    "decoupled": "**AdamW**: subtract `lr * decay * parameter` from the parameter, outside the adaptive ratio",
    "l2": "**Adam with L2**: add `decay * parameter` to the gradient, before the moments are updated",
}

CARD = Card(
    title="An optimizer from its formulas",
    text="""Write the optimizer step that trains almost every language model, from its formulas. If your step differs
from PyTorch's, a run that moves between the two changes its course without an error.

`adamw(parameter, gradient, state, lr, betas, eps, decay)` returns the updated parameter as a new tensor. Moments, bias
correction and update are those of this section. The weight decay is that of {{means}}.

- `state` is a dictionary that belongs to this parameter. It is empty before the first step. What you leave in it comes
  back at the next step.
- If `gradient` is `None`, return `parameter` unchanged: no decay, and the step does not count.
- Keep the dtype. Do not modify `parameter` or `gradient`.
- Memory: `state` holds at most two tensors of the parameter's size, 8 bytes per fp32 parameter.""",
    **Worth(points=20, minutes=25, difficulty=3, importance=5),
    hints=(
        "Which three quantities must survive from one step to the next?",
        "Update both moments first. The first step has number 1; divide each moment by one minus its β to the power "
        "of the step. ε is added to the square root of the corrected second moment.",
        "`t = state.get('t', 0) + 1`; `m = b1 * m + (1 - b1) * g`; `v = b2 * v + (1 - b2) * g * g`; `p - lr * (m / (1 "
        "- b1**t)) / ((v / (1 - b2**t)).sqrt() + eps)`; the decay is one more term, here or in `g`.",
    ),
    answers=("adamw",),
    allowed="torch, without `torch.optim`.",
    hides=("course_lib.model.optimizer.steps:adam_moments, bias_corrected, adamw_update, build",),
    params={"decay": "decoupled", "means": DECAYS["decoupled"], "steps": 10},
    vary=lambda draw: {"decay": "l2", "means": DECAYS["l2"], "steps": draw.choice((8, 12))},
    structural="decay",
    probe=trajectory,
    returns=DictOf({"parameters": ListOf(Tensor()), "state": ListOf(Tensor())}),
)
