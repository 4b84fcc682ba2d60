import random
from collections.abc import Sequence

from course_chapters.ch20 import link_faults
from course_chapters.ch20.exercises.judges.shared import rows_fault_of
from course_grader.exercises.values import describe
from course_grader.judging import Judging, Params, Worked, judged
from course_grader.judging.random_inputs import generality, plain
from course_grader.records import Case, Outcome, Verdict

right = Worked("sick-links")
Row = tuple[list[list[object]], int, float]
UNIT = 2.0**-14  # s of a sound pair: products with the factors below are exact


def _matrix(ranks: int, per_node: int, times: dict[tuple[int, int], float | None], factor: float = 1.5) -> Row:
    """A sound network with these times, in units; a place of -1 stands for all ranks. Inside nodes it is faster."""
    seconds: list[list[object]] = [
        [0.0 if src == dst else UNIT / 16 if src // per_node == dst // per_node else UNIT for dst in range(ranks)]
        for src in range(ranks)
    ]
    for (src, dst), time in times.items():
        for a in range(ranks) if src < 0 else (src,):
            for b in range(ranks) if dst < 0 else (dst,):
                if a // per_node != b // per_node:
                    seconds[a][b] = None if time is None else time * UNIT
    return seconds, per_node, factor


def _metered(fault: str) -> Row:
    return [list(row) for row in link_faults.pair_seconds(fault)], link_faults.PER_NODE, 1.5


def _cases(params: Params, rng: random.Random) -> list[Case]:
    one, two, other = rng.sample(range(12), 3)
    apart = (one + 4) % 12  # in another node
    inside = _matrix(8, 4, {})
    inside[0][1][2] = inside[0][5][6] = 40 * UNIT  # slow, but not in the network
    some = [
        _matrix(12, 4, {(-1, two): 3.0}),
        _matrix(12, 4, {(two, -1): 2.0, (-1, two): 5.0}),
        _matrix(12, 4, {(one, apart): 9.0}),
        _matrix(12, 4, {}),
        inside,
    ]
    edges = [_matrix(12, 4, {(other, -1): time}) for time in (1.5, 1.5 + 2**-20, 1.5 - 2**-20)]
    edges += [_matrix(12, 3, {(2, -1): 4.0, (2, 11): 1.0}), _matrix(12, 3, {(-1, 7): 4.0, (0, 7): 1.5})]
    edges += [_matrix(9, 3, {(4, -1): 4.0, (-1, 8): 3.0, (0, 3): 2.0}), _matrix(9, 3, {(-1, 1): 2.0, (1, 5): 2.0})]
    edges += [_matrix(8, 1, {(3, -1): 2.0, (-1, 0): 2.0, (5, 6): 7.0, (6, 5): 7.0}), _matrix(6, 2, {(0, -1): 9.0}, 9.0)]
    uneven = _matrix(6, 2, {(0, 2): 0.5, (1, 3): 0.75, (4, 0): 1.25, (5, 1): 1.25})  # fastest and median disagree
    edges += [uneven, (uneven[0], 2, 2.0), (uneven[0], 2, 1.125)]
    few = [_matrix(2, 1, {}), _matrix(2, 1, {(0, 1): 4.0}, 1.25), _matrix(3, 1, {(0, -1): 4.0}), _matrix(4, 4, {})]
    few += [_matrix(4, 2, {(-1, 0): 3.0}), _matrix(3, 2, {(2, -1): 3.0}, 1.25), _matrix(1, 1, {}), _matrix(1, 8, {})]
    unmeasured = [_matrix(6, 2, {(4, 1): None}), _matrix(13, 4, {(12, 10): None, (12, -1): None})]
    unmeasured += [_matrix(6, 2, {(0, -1): 4.0, (2, 5): None})]
    known = _matrix(6, 2, {(5, -1): 4.0})
    known[0][0][0] = known[0][0][1] = known[0][3][2] = None  # inside nodes
    return [
        Case(name="12 ranks, one sends slowly", args=(0, [_matrix(12, 4, {(5, -1): 3.0})]), part="links"),
        plain("links", 0, "other links", some),
        plain("links", 0, "the metered cluster", [_metered("slow adapter"), _metered("one slow path")]),
        generality("edges", 0, "on both sides of the factor, several faults", edges),
        generality("edges", 0, "few ranks", few),
        generality("unmeasured", 0, "pairs without a time", [*unmeasured, known]),
    ]


def _named(seconds: Sequence[Sequence[object]], per_node: int, factor: float) -> list[str]:
    ranks = range(len(seconds))
    missing = [(a, b) for a in ranks for b in ranks if a // per_node != b // per_node and seconds[a][b] is None]
    return [str(rank) for rank in missing[0]] if len(missing) == 1 else [str(missing[0][0])]


def _apart(got: object, want: list[object]) -> str:
    if not isinstance(got, list | tuple | set) or not all(
        type(each) in (tuple, list) and {*map(type, each)} <= {str, int} for each in got
    ):
        return f"return a list of tuples; got {describe(got)}."
    found, wanted = sorted(map(tuple, got), key=str), sorted(want, key=str)
    missing = [each for each in wanted if each not in found]
    extra = [each for each in found if each not in wanted]
    if missing:
        return f"{missing[0]} is missing."
    if extra:
        return f"{describe(extra[0])} should not be in the list."
    return "" if len(found) == len(wanted) else "a fault is in the list more than once."


def _words(seconds: Sequence[object], per_node: int, factor: float) -> str:
    return f"{len(seconds)} ranks, {per_node} in a node, factor {factor:.3g}"


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    return judged(case, rows_fault_of(case, outcome.value, right, _words, _apart, _named))


JUDGING = Judging(
    shares="values:links 0.4, generality:edges 0.4, generality:unmeasured 0.2",
    cases=_cases,
    verdicts=_verdicts,
    many_right=True,  # any order of the list
    why="""An adapter sends for all pairs of its row and receives for all pairs of its column, so a sick one colors a
line of the matrix. A single pair is a route: a cable or a port between switches. An all-reduce gives one number for all
of this, and none at all for a pair that its ring does not use. A repair begins with the place, not with the number.""",
    pytorch="`sendrecv_perf` and `alltoall_perf` of nccl-tests measure pairs and rounds; `ibdiagnet` and the counters "
    "in `/sys/class/infiniband` then say why.",
)

ANSWERS = r'''import statistics

from course_lib import params


# %% right: worked
usual = params("sick-links").usual  # leave as is: "median" or "fastest"


def sick(seconds: list[list[float]], per_node: int, factor: float) -> list[tuple]:
    """What explains the slow pairs: ("send", r), ("receive", r), ("both", r) or ("path", src, dst)."""
    ### BEGIN SOLUTION
    ranks = range(len(seconds))
    pairs = [(src, dst) for src in ranks for dst in ranks if src // per_node != dst // per_node]
    missing = [pair for pair in pairs if seconds[pair[0]][pair[1]] is None]
    if missing:
        raise ValueError(f"pairs of ranks without a time: {missing}")
    times = {(src, dst): seconds[src][dst] for src, dst in pairs}
    normal = (statistics.median if usual == "median" else min)(times.values()) if times else 0.0
    slow = {pair for pair, time in times.items() if time > factor * normal}

    def blamed(end):
        lines = {rank: [pair for pair in pairs if pair[end] == rank] for rank in ranks}
        return {rank for rank, line in lines.items() if len(line) > 1 and slow.issuperset(line)}

    send, receive = blamed(0), blamed(1)
    found = [("both", rank) for rank in send & receive]
    found += [("send", rank) for rank in send - receive] + [("receive", rank) for rank in receive - send]
    return found + [("path", src, dst) for src, dst in slow if src not in send and dst not in receive]
    ### END SOLUTION

# %% right: by counting, in the order of ranks
# ~ return {rank for rank, line in lines.items() if len(line) > 1 and slow.issuperset(line)}
# ~~ ==> return {rank for rank in ranks if 1 < len(lines[rank]) == sum(pair in slow for pair in lines[rank])}
# ~ found = [("both", rank) for rank in send & receive] ==> found = [("both", rank) for rank in sorted(send & receive)]
# %% wrong: pairs inside nodes count => values
# > pairs inside a node are measured over another link; they do not belong here.
# ~ if src // per_node != dst // per_node] ==> if src != dst]
# %% wrong: rows and columns exchanged => values
# > sending and receiving are exchanged: the first index is the rank that sends.
# ~ send, receive = blamed(0), blamed(1) ==> send, receive = blamed(1), blamed(0)
# %% wrong: two entries for one rank => values
# > a rank that is slow in both directions is in the list twice; it has one entry, "both".
# ~ found = [("both", rank) for rank in send & receive] ==> found = []
# ~ [("send", rank) for rank in send - receive] + [("receive", rank) for rank in receive - send]
# ~~ ==> [("send", rank) for rank in send] + [("receive", rank) for rank in receive]
# %% wrong: every slow pair is a path => values
# > these paths are explained by a rank that is in the list already.
# ~ if src not in send and dst not in receive] ==> ]
# %% wrong: any blamed end explains => generality
# > a path to a rank that only *sends* slowly is not explained by it, nor one from a rank that only receives slowly.
# ~ if src not in send and dst not in receive] ==> if not {src, dst} & (send | receive)]
# %% wrong: no paths => values
# > a single slow pair is a fault, too.
# ~ return found + [("path", src, dst) for src, dst in slow if src not in send and dst not in receive] ==> return found
# %% wrong: one slow pair is enough => values
# > one slow pair does not make its rank sick; all of its pairs must be slow.
# ~ slow.issuperset(line)} ==> slow & set(line)}
# %% wrong: one pair is a rank => generality
# > with a single pair, the rank cannot be told from the path.
# ~ len(line) > 1 and ==> line and
# %% wrong: two pairs are too few => generality
# > two pairs of a rank are enough.
# ~ len(line) > 1 ==> len(line) > 2
# %% wrong: at the factor => generality
# > a time of exactly `factor` times the usual one is not slow.
# ~ time > factor * normal ==> time >= factor * normal
# %% wrong: the fastest pair is usual => generality unless usual=fastest
# > the times are compared with the fastest one; one fast pair makes many others slow.
# ~ (statistics.median if usual == "median" else min) ==> min
# %% wrong: the mean => values unless usual=fastest
# > slow pairs raise the mean, so that it hides some of them.
# ~ statistics.median if ==> statistics.mean if
# %% wrong: no time is fine => generality
# > a pair without a time passes as sound, in silence.
# ~ if missing: ==> pairs = [pair for pair in pairs if pair not in missing]
# -         raise ValueError(f"pairs of ranks without a time: {missing}")
# %% wrong: which pair is not said => generality
# > the error must name the ranks of the pair without a time.
# ~ raise ValueError(f"pairs of ranks without a time: {missing}") ==> raise ValueError("some pairs have no time")
# %% wrong: no time inside a node is an error => generality
# > times inside a node do not matter, also where there is none.
# ~ missing = [pair for pair in pairs if seconds[pair[0]][pair[1]] is None]
# ~~ ==> missing = [(src, dst) for src in ranks for dst in ranks if seconds[src][dst] is None]
# %% wrong: one node => generality
# > ranks of one node have no pair in the network: the list is empty, and there is no error.
# ~ (statistics.median if usual == "median" else min)(times.values()) if times else 0.0
# ~~ ==> (statistics.median if usual == "median" else min)(times.values())
# %% wrong: left as it is => not-answered
# ~ ranks = range ==> raise NotImplementedError; ranks = range
'''
