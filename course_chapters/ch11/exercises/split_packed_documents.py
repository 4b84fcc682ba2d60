from course_grader.exercises import Card, ListOf, Number, Rows, Worth

CARD = Card(
    title="Balance a pack of documents",
    text="""Write `split_pack(lengths, ranks)`, which spreads a pack of documents over ranks. Attention stays within a
document, so equal numbers of tokens are not equal work: a long document costs more per token than a short one.

- `lengths` are the documents' tokens, in the order in which they are packed; a length may be 0. Return a list with one
  list of positions in the pack for each rank. Every position occurs once.
- The work of a token is the number of keys that it sees: those of its document up to and including itself.
- The busiest rank's work is at most 1.05 times the mean, plus the length of the longest document.
- The largest number of tokens on a rank is at most 1.05 times the mean, plus 1.""",
    **Worth(points=8, minutes=20, difficulty=3, importance=4),
    kind="more",
    hints=(
        "Zig-zag balances one document. What happens if many documents are shorter than 2N tokens?",
        "What counts is a token's work, not which document it belongs to. Deal the tokens out one by one, the "
        "most expensive first.",
        "Sort all tokens by their work, largest first; token number i goes to rank `min(i % (2 * n), 2 * n - 1 - i "
        "% (2 * n))`.",
    ),
    answers=("split_pack",),
    allowed="everything; the library's layouts are switched off.",
    hides=("course_lib.parallel.context.layout:split_documents, zig_zag",),
    params={"ranks": 4},
    vary=lambda draw: {"ranks": draw.choice((3, 5, 6))},
    needs=("04",),
    returns=Rows(ListOf(ListOf(Number("a position", whole=True)))),
)
