from course_chapters.ch04.exercises.probes import told_apart
from course_grader.exercises import Card, ListOf, Word, Worth, pick

DECAYS: dict[str, str] = {
    "decoupled": "the parameter shrinks by `lr * decay` of itself, as in AdamW",
    "unscaled": "the parameter shrinks by `decay` of itself, whatever the learning rate",
    "l2": "`decay * parameter` is added to the gradient",
    "none": "the decay is ignored",
}
_DECAYS_TEXT = ";\n".join(f'- `"{name}"`: {meaning}' for name, meaning in DECAYS.items()) + "."

CARD = Card(
    title="What kind of decay is this?",
    text=f"""A library's documentation says “Adam with weight decay”, and that can mean four things. Design an
experiment that tells them apart.

`which(build)` returns one of these words:

{_DECAYS_TEXT}

`build(lr, decay)` makes a fresh optimizer of the unknown kind. The result is a function: `step(parameter, gradient)`
takes two fp64 tensors of the same shape, makes one step and returns the new parameter. It keeps its moments between
calls.

- You do not know β₁, β₂ and ε. ε may be as large as 0.01.
- Some optimizers skip a gradient that is zero everywhere: then nothing changes, the parameter included.
- Some apply the decay before the update, some after it.

Shown: {{{{boxes}}}} optimizers. You may call `build` at most 20 times for one answer.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    hints=(
        "Run the same gradients twice, with decay and without. What does the difference of the two parameters show?",
        "With equal gradients, decoupled decay changes the parameter by a known amount in the first step. Adam's "
        "first step hardly depends on the gradient's size, so what does L2 do to it? What happens to the amount if "
        "you double the learning rate?",
        "Large parameter, small gradient of changing sign, one learning rate `lr` and one `decay`: compare the "
        "difference after step 1 with `lr * decay * p`, with `decay * p` and with 0 after many steps; whatever else "
        "it is, is L2.",
    ),
    answers=("which",),
    allowed="torch and the standard library.",
    params={"boxes": 4},
    vary=pick(boxes=(5, 6, 7)),
    probe=told_apart,
    returns=ListOf(Word(tuple(DECAYS)), what="optimizer"),
)
