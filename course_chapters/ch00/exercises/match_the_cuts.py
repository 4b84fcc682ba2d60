from course_grader.exercises import Anything, Card, Worth
from course_grader.exercises.snippets import folded

# The six properties, in an order that reveals nothing; the judge knows which strategy rests on which.
PROPERTIES = (
    "Layers compose: each one needs only the output of the one before it.",
    "A weight is needed only while its own layer computes; at other times another rank may hold it.",
    "A batch's gradient is a sum over its samples, and a sum may be grouped in any way.",
    "Each token uses only a few of the experts; for all other tokens an expert's weights are idle.",
    "A matrix product is linear: split the matrix, multiply the parts, then join or add the results.",
    "Softmax over a row can be computed block by block, with a running maximum and a running sum.",
)


def option_list(texts: tuple[str, ...]) -> str:
    """The properties as a Markdown list with letters, as the statement shows them."""
    return "\n".join(f"- **{letter}** {text}" for letter, text in zip("ABCDEF", texts, strict=True))


SENT = """- `all_reduce`: add up the tensors of all ranks; every rank gets the sum
- `all_gather + reduce_scatter`: collect the parts of a layer before its use; add up its gradients, each rank keeping
  one part
- `send_recv`: pass one tensor to the next rank, and its gradient back
- `ring`: pass blocks of keys and values around all ranks
- `all_to_all`: every rank sends something different to every other rank"""

SPLIT = """- `data`: the batch
- `sharded`: the batch and, between uses, the weights, gradients and optimizer state
- `tensor`: every weight matrix
- `pipeline`: the stack of layers
- `context`: the sequence, attention included
- `expert`: the feed-forward layers"""

CARD = Card(
    title="Match the strategies",
    text=f"""Match each of the six strategies to the property that makes it possible and to its communication. Write
`matches()`: it returns a dictionary from each strategy to a pair (letter of the property, communication).

- **Strategies:** `data`, `sharded`, `tensor`, `pipeline`, `context` and `expert`.
- **Communication:** `all_reduce`, `all_gather + reduce_scatter`, `send_recv`, `ring` or `all_to_all`. One of the five
  is used twice.
- A row counts if both halves are right. A letter used twice counts for neither row.

Properties, each used once:

{{{{options}}}}

{folded("What each strategy splits", SPLIT)}

{folded("What each communication sends", SENT)}""",
    **Worth(points=3, minutes=5, difficulty=2, importance=4),
    hints=(
        "Start with the two that are easiest to picture: where does a layer's output go if the next layer is on "
        "another rank? Where does a token go if its expert is on another rank?",
        "`data` and `tensor` end in the same way: parts of a *sum* are on different ranks. They differ in what is "
        "summed: gradients of samples, or products of slices.",
        "`sharded` needs a whole layer only briefly. `context` uses every block of keys and values, in any order, "
        "with two running numbers per row.",
    ),
    answers=("matches",),
    params={"options": option_list(PROPERTIES)},
    vary=lambda rng: {"options": option_list(tuple(rng.sample(PROPERTIES, len(PROPERTIES))))},
    returns=Anything("a dictionary with a row for each strategy"),
)
