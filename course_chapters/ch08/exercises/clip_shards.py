from course_chapters.ch08.exercises.probes import clipped
from course_grader.exercises import Anything, Card, DictOf, ListOf, PerRank, Tensor, Worth

NORMS = {
    "2": "the root of the sum of all squares, over all trained numbers of the model",
    "max": "the **largest absolute value** among all trained numbers of the model (the maximum norm)",
}

CARD = Card(
    title="One norm for all parts",
    text="""Compute the norm of the whole gradient when every rank has only parts of it, and clip by that norm. Real
runs took the norm of a rank's own parts (*pytorch/torchtitan, issue 766, January 2025*), or counted copies too
(*ByteDance-Seed/VeOmni, issue 184, November 2025*).

- Write `clip_parts(inside, across, parts, counts, most)`.
- `inside` is the communicator of the ranks that shard one copy of the model. `across` is that of the ranks that hold
  **the same parts** as this one, with the same gradients. Without hybrid sharding (HSDP, later in this chapter),
  `across` has one rank.
- `parts` is a list of flat gradients. The first `counts[i]` numbers of `parts[i]` are this rank's. After them comes
  padding, which may hold **anything**, even NaN. A rank may have no numbers at all.
- The norm is {{means}}. Return it as a float, the same on all ranks.
- If it is larger than `most`, scale all parts in place by most / norm. Otherwise leave them unchanged.
- Add in float64: in float32, the squares of large gradients overflow. Send a number or two per rank, however many parts
  there are.""",
    **Worth(points=8, minutes=15, difficulty=2, importance=5),
    hints=(
        "If one process had all numbers of the model, how often would it count a number that three ranks hold? "
        "And padding?",
        "Compute one number per rank from its own parts without padding. All-reduce it among the ranks whose parts "
        "make up the model. Then every rank takes the root (or not) and divides.",
        "`total = torch.zeros((), dtype=torch.float64)`; `total += part[:count].double().square().sum()`; "
        "`inside.all_reduce(total)`; `norm = total.sqrt().item()`; `if norm > most: part.mul_(most / norm)`. For the "
        "maximum: `op='MAX'`, and no part may be empty for `max()`.",
    ),
    answers=("clip_parts",),
    may_change=("arguments",),
    allowed="every operation of the two communicators; torch.",
    hides=("course_lib.parallel.sharding:gradient_norm, clip_gradients",),
    params={"norm": "2", "means": NORMS["2"], "numbers": 20},
    vary=lambda draw: {"norm": "max", "means": NORMS["max"], "numbers": draw.randrange(15, 30)},
    structural="norm",
    probe=clipped,
    returns=PerRank(DictOf({"norm": Anything("the norm"), "parts": ListOf(Tensor())})),
)
