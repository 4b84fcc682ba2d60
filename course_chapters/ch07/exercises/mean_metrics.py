from course_grader.exercises import Anything, Card, DictOf, PerRank, Worth

CARD = Card(
    title="One number for all ranks",
    text="""Write `evaluate(comm, batches)`, which combines the metrics of an evaluation over all ranks. Every rank has
a list of `(mean loss, correct, tokens)`, one entry per batch: the mean loss over the batch's tokens, how many tokens
were predicted correctly, and how many there were.

- It returns `{"loss": …, "accuracy": …, "perplexity": …}` on every rank, over **all tokens of all ranks**.
  Perplexity is e to the power of the loss.
- Batches differ in size, and ranks in how many they have; a rank can have none.
- The mean loss of a batch without tokens is NaN, as in torch.
- **Budget:** a few numbers per rank, however long the lists are.""",
    **Worth(points=5, minutes=10, difficulty=2, importance=4),
    kind="more",
    hints=(
        "Which of the three numbers can be added up over batches as they are, and how do you make the others addable?",
        "Three sums are enough: of losses, of correct tokens, and of tokens. Divide after the all-reduce.",
        "`row = torch.zeros(3, dtype=torch.float64)`; for each batch with tokens add `mean * tokens, correct, "
        "tokens`; all-reduce; divide; `math.exp` of the loss.",
    ),
    answers=("evaluate",),
    allowed="every operation of `comm`.",
    hides=("course_lib.parallel.data:mean_metrics",),
    params={"batches": 5},
    vary=lambda draw: {"batches": draw.randrange(4, 9)},
    returns=PerRank(DictOf({"loss": Anything(), "accuracy": Anything(), "perplexity": Anything()}, more=True)),
)
