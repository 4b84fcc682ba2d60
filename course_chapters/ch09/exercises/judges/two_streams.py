from collections.abc import Iterator, Sequence

from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Verdict, hidden, judged, shown

DRAWN = 6


def _cases(params: Params, rng: Random) -> list[Case]:
    start = rng.randrange(1000)
    seeds, ranks = params["seeds"], params["ranks"]
    few = [(start, rank) for rank in range(4)] + [(start + 500, 0)]
    zero = [(0, rank) for rank in range(3)] + [(1, 0), (1, 1), (1024, 0)]
    wide = [(start + seed, rank) for seed in range(seeds) for rank in {0, 1, 2, rng.randrange(3, ranks - 1), ranks - 1}]
    both, replicas = [(start + seed, rank) for seed in (0, 1) for rank in range(ranks)], "generality:replicas"
    return [
        shown("four ranks", "values:outside", few, DRAWN),
        shown("four ranks, inside", "values:inside", few, DRAWN),
        hidden("called again", "values:outside", [*few, *few], DRAWN),
        hidden("called again, inside", "values:inside", [*few, *few], DRAWN),
        hidden(f"{seeds} seeds in a row, ranks up to {ranks - 1}", replicas, wide, DRAWN),
        hidden("all ranks of two seeds", replicas, both, DRAWN),
        hidden("seed 0", replicas, zero, DRAWN),
    ]


Drawn = tuple[Sequence[float], Sequence[float], object, object]  # outside, inside, one generator, moved


def _faults(case: Case, drawn: Sequence[Drawn]) -> Iterator[tuple[str, Fault]]:
    """What is wrong with the streams, each with the share that it is about, "" for both."""
    pairs, owner = case.args[0], dict[tuple[float, ...], str]()
    outside: dict[int, tuple[float, ...]] = {}
    inside: dict[tuple[int, int], tuple[float, ...]] = {}
    if len(drawn) != len(pairs):
        yield "", ("no-generators", "Return a pair of `torch.Generator`s, (outside, inside).")
    for (seed, rank), (out, own, one, disturbed) in zip(pairs, drawn, strict=False):
        lead, out, own = f"Seed {seed}, rank {rank}:", tuple(out), tuple(own)
        if one is not False:
            yield "", ("one-generator", "outside and inside are one generator: drawing from one moves the other.")
        if disturbed is not False:
            told = "torch's own generator was moved; use `torch.Generator()`, not `torch.manual_seed`."
            yield "outside", ("disturbed", told)
        if outside.setdefault(seed, out) != out:
            told = f"{lead} outside draws other numbers than on another rank, call or process."
            yield "outside", ("outside-differs", told)
        if inside.setdefault((seed, rank), own) != own:
            told = f"{lead} asked again, as in another process, inside draws other numbers."
            yield "inside", ("not-repeatable", told)
    for seed, row in outside.items():
        if row in owner:
            yield "outside", ("seeds-alike", f"Outside, seed {seed} draws the same numbers as {owner[row]}.")
        owner[row] = f"seed {seed} outside"
    for (seed, rank), row in inside.items():
        if other := owner.get(row):
            name = "ranks-alike" if other.startswith(f"seed {seed},") else "replicas-collide"
            name = "inside-is-outside" if other == f"seed {seed} outside" else name
            yield "inside", (name, f"Inside, seed {seed}, rank {rank} draws the same numbers as {other}.")
        owner[row] = f"seed {seed}, rank {rank} inside"


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    asked = {"", case.part} if case.kind == "values" else {"", "outside", "inside"}
    return judged(case, next((fault for about, fault in _faults(case, outcome.value) if about in asked), None))


JUDGING = Judging(
    shares="values:outside 0.35, values:inside 0.35, generality:replicas 0.3",
    cases=_cases,
    verdicts=_verdicts,
    why="Every pair (seed, rank) needs a number of its own, but `seed + rank` is the same for many pairs. Leave more "
    "room between seeds than there are ranks.",
    pytorch="Megatron's `model_parallel_cuda_manual_seed`; DTensor's `OffsetBasedRNGTracker` makes shards draw what "
    "the whole would draw.",
)

ANSWERS = r'''import hashlib
import time
# %% right: worked
def two_streams(seed, rank):
    """A pair of `torch.Generator`s: (outside, the same on all ranks; inside, this rank's own)."""
    first = seed * 1_000_003
    return torch.Generator().manual_seed(first), torch.Generator().manual_seed(first + 1 + rank)
# %% right: a hash of the pair
def two_streams(seed, rank):
    def of(*parts):
        digest = hashlib.sha256(repr(parts).encode()).digest()
        return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))

    return of("outside", seed), of("inside", seed, rank)
# %% wrong: seed + rank => values inside-is-outside
# ~ first = seed * 1_000_003 ==> first = seed
# ~ first + 1 + rank ==> seed + rank
# %% wrong: alike everywhere => values ranks-alike
# ~ first + 1 + rank ==> first + 2718
# %% wrong: apart everywhere => values outside-differs
# ~ first = seed * 1_000_003 ==> first = (seed * 1000 + rank) * 2
# ~ first + 1 + rank ==> first + 1
# %% wrong: one generator under two names => values one-generator
# ~ first = seed * 1_000_003 ==> both = torch.Generator().manual_seed(seed)
# ~ torch.Generator().manual_seed(first), torch.Generator().manual_seed(first + 1 + rank) ==> both, both
# %% wrong: seeds multiplied by rank => values replicas-collide
# ~ first = seed * 1_000_003 ==> first = seed
# ~ first + 1 + rank ==> seed * rank + 7
# %% wrong: from the process's own generator => values disturbed
# ~ seed * 1_000_003 ==> int(torch.randint(2**40, ()))
# %% wrong: inside from the clock => values not-repeatable
# ~ first + 1 + rank ==> time.perf_counter_ns() + rank
# %% wrong: inside from a text's hash, which each process salts anew => values not-repeatable
# ~ first + 1 + rank ==> abs(hash(f"{seed}, {rank}"))
# %% wrong: seeds, no generators => values no-generators
# ~ torch.Generator().manual_seed(first), torch.Generator().manual_seed(first + 1 + rank) ==> seed, first + rank
# %% wrong: room for eight ranks only => generality replicas-collide
# ~ 1_000_003 ==> 9
# %% wrong: a product of seed and rank => generality replicas-collide
# ~ first = seed * 1_000_003 ==> first = 2 * seed
# ~ first + 1 + rank ==> 2 * (seed + 1) * (rank + 1) + 1
# %% half: outside alike, and inside, too => 1.75  from: alike everywhere
# %% wrong: seeds of ten bits => generality seeds-alike
# ~ seed * 1_000_003 ==> seed % 1024 * 1_000_003
'''
