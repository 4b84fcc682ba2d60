import random

from course_grader.judging import Judging, Params, Worked
from course_grader.judging.cases import shown
from course_grader.judging.per_row import Column, shares, table
from course_grader.judging.random_inputs import draw_rows, generality, logarithmic, unseen
from course_grader.records import Case
from course_lib.messages import count_text

right = Worked("pieces-under-matmul")
Row = tuple[int, float, float, float, float, int]  # ranks, product, transfer, latency and launch in s, pieces or most
MOST = 24


def _clear(row: Row) -> bool:
    """Whether one number of pieces is better than all others by more than rounding."""
    times = sorted(right[0](*row[:5], pieces) for pieces in range(1, row[5] + 1))
    return len(times) < 2 or times[1] > times[0] * (1 + 1e-6)


def _cases(params: Params, rng: random.Random) -> list[Case]:
    ranks = params["ranks"]

    def drawn(count: int, last: tuple[int, ...], *counts: int) -> list[Row]:
        fields = counts, logarithmic(1e-5, 1e-3), logarithmic(1e-5, 1e-3), logarithmic(1e-6, 3e-5)
        return draw_rows(rng, count, *fields, logarithmic(1e-6, 1e-5), last, keep=_clear)

    compute, wire, late = (4e-4, 1e-4, 5e-6, 4e-6), (1e-4, 4e-4, 5e-6, 4e-6), (4e-5, 2e-5, 1e-4, 2e-6)
    middle = (1e-4, 1.3e-4, 5e-6, 8e-6)
    near = [(4, 1.0e-4, transfer, 5e-6, 2e-6, MOST) for transfer in (0.6e-4, 0.9e-4, 0.99e-4, 1.01e-4, 1.1e-4, 2e-4)]
    bounds = [(8, *link, most) for link in (middle, wire) for most in (1, 2, 3, MOST)]
    return [
        shown("products longer than hops", "values:seconds", 0, [(ranks, *compute, 1), (ranks, *compute, 4)]),
        shown("hops longer than products", "values:seconds", 0, [(ranks, *wire, 1), (ranks, *wire, 4)]),
        shown("one link, the best number of pieces", "values:pieces", 1, [(ranks, *middle, MOST)]),
        unseen(rng, "seconds", 0, "other links", drawn(6, (1, 2, 3, 5, 8), 2, 4, 8)),
        unseen(rng, "pieces", 1, "other links", drawn(6, (MOST,), 2, 4, 8)),
        generality("seconds", 0, "a long latency", [(ranks, *late, pieces) for pieces in (1, 2, 6)]),
        generality("seconds", 0, "one rank, and many", [(1, *wire, 3), (2, *wire, 7), (33, *compute, 2)]),
        generality("pieces", 1, "products and hops nearly equal", [row for row in near if _clear(row)]),
        generality("pieces", 1, "few pieces allowed", bounds),
        generality("pieces", 1, "two numbers equally fast", [(4, 2.0**-12, 2.0**-14, 0.0, 0.0, 2)]),
        generality("pieces", 1, "one rank, and a long latency", [(1, *wire, MOST), (2, *late, MOST), (8, *late, MOST)]),
    ]


def _words(ranks: int, product: float, transfer: float, latency: float, launch: float, last: int) -> str:
    times = ", ".join(f"{seconds * 1e6:.3g}" for seconds in (product, transfer, latency, launch))
    return f"{count_text(ranks, 'rank')}, {times} µs, {count_text(last, 'piece')}"


JUDGING = Judging(
    shares=shares(seconds=(0.3, 0.2), pieces=(0.3, 0.2)),
    cases=_cases,
    verdicts=table(
        Column(part="seconds", unit="s", want=right[0], words=_words),
        Column(part="pieces", unit="pieces", want=right[1], words=lambda *row: f"{_words(*row)} at most"),
    ),
    why="""Where products take longer than hops, communication is hidden already, and each further piece costs a launch.
Where hops take longer, the last product begins only after the last message: smaller pieces make that last product
short, and let a long ring start early. More pieces help until the products, with their launches, take as long as the
messages.""",
    pytorch="PyTorch's `fused_all_gather_matmul` takes one piece a rank; Transformer Engine's ring exchange does, too, "
    "and its pipelined form takes `num_splits`.",
)

ANSWERS = r'''# %% right: worked
def seconds(ranks: int, product: float, transfer: float, latency: float, launch: float, pieces: int) -> float:
    """Seconds of an all-gather under a matmul in so many pieces a rank."""
    ### BEGIN SOLUTION
    done, free, arrived = 0.0, 0.0, []
    for i in range(ranks * pieces):
        begin = max(done, arrived[i - pieces] if i >= pieces else 0.0)
        free = max(begin, free) + transfer / pieces
        arrived.append(free + latency)
        done = begin + product / pieces + launch
    return done
    ### END SOLUTION


def best_pieces(ranks: int, product: float, transfer: float, latency: float, launch: float, most: int) -> int:
    """The fewest pieces, at most `most`, with the shortest time."""
    ### BEGIN SOLUTION
    return min(range(1, most + 1), key=lambda pieces: seconds(ranks, product, transfer, latency, launch, pieces))
    ### END SOLUTION

# %% right: by sorting
# ~ free = max(begin, free) + transfer / pieces ==> free = transfer / pieces + sorted((begin, free))[-1]
# ~ min(range(1, most + 1), key=lambda pieces: seconds(ranks, product, transfer, latency, launch, pieces))
# ~~ ==> min((seconds(ranks, product, transfer, latency, launch, pieces), pieces) for pieces in range(1, most + 1))[1]
# %% wrong: one after the other => values
# > this is the time of all messages and then all products.
# ~ begin = max(done, arrived[i - pieces] if i >= pieces else 0.0) ==> begin = done
# ~ return done ==> return done + (ranks - 1) * (latency + transfer)
# %% wrong: every message waits for the arrival of the one before => values
# > here the link waits for the latency after every message; the next one may leave when the bytes have left.
# ~ free = max(begin, free) + transfer / pieces ==> free = max(begin, free) + transfer / pieces + latency
# ~ arrived.append(free + latency) ==> arrived.append(free)
# %% wrong: one launch for all pieces => values
# > this counts one launch for each rank's rows; every piece is a launch.
# ~ product / pieces + launch ==> (product + launch) / pieces
# %% wrong: a piece has all bytes => values
# > this sends the bytes of all of a rank's rows with each piece.
# ~ + transfer / pieces ==> + transfer
# %% wrong: until the last message => values
# > this ends with the start of the last product; the product itself is missing.
# ~ return done ==> return begin
# %% wrong: messages leave after the product => values
# > here a piece is sent on only after its product.
# -         begin = max(done, arrived[i - pieces] if i >= pieces else 0.0)
# -         free = max(begin, free) + transfer / pieces
# -         arrived.append(free + latency)
# -         done = begin + product / pieces + launch
# +         begin = max(done, arrived[i - pieces] if i >= pieces else 0.0)
# +         done = begin + product / pieces + launch
# +         free = max(done, free) + transfer / pieces
# +         arrived.append(free + latency)
# %% wrong: no latency => values
# > the latency is missing.
# ~ arrived.append(free + latency) ==> arrived.append(free)
# %% wrong: as many as allowed => values
# > this is the most that is allowed, whatever a launch costs.
# ~ min(range(1, most + 1), key=lambda pieces: seconds(ranks, product, transfer, latency, launch, pieces)) ==> most
# %% wrong: always one => values
# > one piece a rank is not always the best: the last product then begins late.
# ~ min(range(1, most + 1), key=lambda pieces: seconds(ranks, product, transfer, latency, launch, pieces)) ==> 1
# %% wrong: as if launches were free => values
# > this is the best number if launches were free.
# ~ launch, pieces)) ==> 0.0, pieces))
# %% wrong: the most of equals => generality
# > of numbers that are equally fast, the fewest pieces are asked for.
# ~ key=lambda pieces: seconds(ranks, product, transfer, latency, launch, pieces))
# ~~ ==> key=lambda pieces: (seconds(ranks, product, transfer, latency, launch, pieces), -pieces))
# %% wrong: one more may be allowed => generality
# > this number is larger than `most`.
# ~ most + 1 ==> most + 2
# %% half: seconds alone => 2.4
# ~ return min(range(1, most + 1), key=lambda pieces: seconds(ranks, product, transfer, latency, launch, pieces))
# ~~ ==> raise NotImplementedError
'''
