from course_chapters.ch20.exercises.distant_probes import streamed
from course_grader.exercises import Card, Worth, pick
from course_grader.exercises.result_schema import Anything

_GIVEN = """```python
def outer_gradients(original, local):
    return [new - old for old, new in zip(original, local)]


def merge(shared, local, alpha):
    for new, own in zip(shared, local):
        new.lerp(own, 1 - alpha)
```"""

CARD = Card(
    title="A fragment that goes the wrong way",
    text=f"""A worker of streaming DiLoCo with this code gets worse with every exchange. Repair the two functions. The
bug is real: torchft's first version had it (*meta-pytorch/torchft, pull requests 212 and 233, 2025*), and torchtitan
met it (*pytorch/torchtitan, pull request 1507, 2025*).

{_GIVEN}

- `outer_gradients` returns what an outer optimizer such as `torch.optim.SGD` gets as gradients: `original` are the
  fragment's weights at its last exchange, `local` this worker's weights now. Both are lists of tensors; leave them.
- After the outer step, the model's tensors `shared` hold the new shared weights. `merge` changes **them** so that they
  become α · `local` + (1 − α) · `shared`: with α = 0, the worker continues from the shared weights. `local` stays.
- `torch.lerp(a, b, w)` is a + w · (b − a).

Workers use α = {{{{alpha}}}}.""",
    **Worth(points=6, minutes=10, difficulty=2, importance=4),
    kind="more",
    form="bug",
    hints=(
        "SGD subtracts the gradient. Which way do the shared weights go now?",
        "What happens to the result of `lerp`? And which of the two does α = 0 leave?",
        "`old - new`, and `new.lerp_(own, alpha)`: the underscore writes into `new`.",
    ),
    answers=("outer_gradients", "merge"),
    allowed="torch.",
    params={"alpha": 0.2},
    vary=pick(alpha=(0.25, 0.3, 0.4, 0.6)),
    probe=streamed,
    returns=Anything("the tensors"),
)
