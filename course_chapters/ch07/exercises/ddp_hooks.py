from course_chapters.ch07.exercises.probes import hooked
from course_chapters.ch07.exercises.shared import READY, STEPS
from course_grader.exercises import Anything, Card, DictOf, PerRank, Worth

CARD = Card(
    title="Average while the backward pass runs",
    text="""Write `hook_gradients(comm, model)`: it registers hooks that average gradients while the backward pass still
runs, and returns a function `finish`. The last layer's gradient is ready long before the first layer's, so most of the
communication can be hidden.

A step calls `loss.backward()`, in which your hooks start an all-reduce as each gradient becomes complete. It then calls
`finish()`, which waits until every `.grad` is the mean over the ranks, and then `optimizer.step()` and
`optimizer.zero_grad()`.

- `hook_gradients` is called once, before several steps. All ranks start with the same weights, so nothing is sent at
  that point, and have equally many examples in every step.
- **Overlap.** Each parameter's all-reduce starts in the backward pass and is waited for in `finish`. Only the last
  gradient's all-reduce is exposed.
- **Once.** One all-reduce per trained parameter and step. Every loss uses all trained parameters. A parameter can be
  frozen (`requires_grad` is False and `.grad` stays None), and two layers can share one. No handle is kept for later.
- **In flight.** A tensor that is being reduced is neither read nor written.

`parameter.register_post_accumulate_grad_hook(hook)` calls `hook(parameter)` when `parameter.grad` is complete.""",
    **Worth(points=12, minutes=25, difficulty=4, importance=5),
    hints=(
        "When is a gradient complete, and what tells you? What must the hook not do, so that the backward pass "
        "can continue?",
        "The hook starts an asynchronous all-reduce and stores the handle; `finish` waits for all handles and clears "
        "them. Divide before the sum or after the wait. In between, the tensor is in flight.",
        "`works = []`; `def hook(p): p.grad /= comm.size; works.append(comm.all_reduce(p.grad, async_op=True))`; "
        "register it for every parameter with `requires_grad`; `finish` waits for each work, then `works.clear()`.",
    ),
    answers=("hook_gradients",),
    allowed="every operation of `comm`; torch.",
    hides=READY,
    params={"width": 12},
    vary=lambda draw: {"width": draw.randrange(9, 16)},
    probe=hooked,
    returns=PerRank(DictOf({"gradients": STEPS, "returned": Anything(), "handles": Anything()})),
)
