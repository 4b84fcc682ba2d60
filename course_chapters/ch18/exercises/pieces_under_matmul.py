from course_grader.exercises import Card, Number, Rows, Worth

CARD = Card(
    title="How many pieces?",
    text="""Write `seconds(ranks, product, transfer, latency, launch, pieces)`, the time of an all-gather under a matmul
around a ring, and `best_pieces(ranks, product, transfer, latency, launch, most)`, the number of pieces from 1 to `most`
with the shortest time (the fewest, if several are equally fast). Times are in seconds.

- Each rank's own rows make `pieces` equal pieces, so a rank multiplies ranks · pieces of them in order, its own
  first. For *all* rows of one rank, the products take `product` and the bytes `transfer`. Each product takes `launch`
  more.
- All ranks do the same at the same time. When a rank begins to multiply a piece, it also sends it on, unless the piece
  has been at all ranks. The message leaves at once, or when all bytes of the message before it have left. It arrives
  `latency` after its own last byte has left.
- What arrives is the piece that comes `pieces` later in the order. A rank begins to multiply a piece when the
  piece is there and the product before it is done.""",
    **Worth(points=8, minutes=20, difficulty=4, importance=4),
    kind="more",
    hints=(
        "Which two times does a rank wait for before a product? And before a message?",
        "Go through the ranks · pieces products in a loop. Keep when the last product ends, when the link is free, and "
        "a list of arrivals.",
        "`begin = max(done, arrived[i - pieces] if i >= pieces else 0)`; `leaves = max(begin, free)`; `free = leaves + "
        "transfer / pieces`; `arrived.append(free + latency)`; `done = begin + product / pieces + launch`.",
    ),
    answers=("seconds", "best_pieces"),
    allowed="Python alone; the library's formula is switched off.",
    hides=("course_chapters.ch18.collective_matmul:pieces_seconds, fewest_best_pieces",),
    params={"ranks": 8},
    vary=lambda draw: {"ranks": draw.choice((4, 6, 12, 16))},
    needs=("06", "09"),
    returns=Rows(Number("s"), Number("pieces", whole=True)),
)
