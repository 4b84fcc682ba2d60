from collections.abc import Sequence

from course_grader.judging import Fault, Judging, Params, Random, Worked, Wrong, describe, first, hidden, judged, shown
from course_grader.judging.per_row import EXACT, Column
from course_grader.records import Case, Outcome, Verdict

Ops = Sequence[tuple[str, str, Sequence[str]]]
Chain = tuple[Ops, dict[str, int], list[str], int]  # operations, bytes, what is kept, most inputs
right = Worked("fuse-or-not")


def _chain(rng: Random, count: int, most: int) -> Chain:
    """Operations that take a recent result and others, most of them pointwise, with a few matmuls and reductions."""
    ops: list[tuple[str, str, list[str]]] = []
    sizes = {f"x{at}": 8 * rng.randrange(1, 9) for at in range(4)}
    for at in range(count):
        earlier = [op[0] for op in ops]
        kind = rng.choice(("pointwise",) * 6 + ("matmul", "reduction"))
        inputs = [*earlier[-1:], *rng.sample([*earlier[:-1], "x0", "x1", "x2", "x3"], rng.randrange(1, 3))][:most]
        ops.append((f"t{at}", kind, list(dict.fromkeys(inputs))))
        sizes[f"t{at}"] = 1 if kind == "reduction" else 8 * rng.randrange(1, 9)
    return ops, sizes, [ops[-1][0], *([rng.choice(ops)[0]] if rng.random() < 0.4 else [])], most


def _row(sizes: str, keep: str, most: int, *ops: str) -> Chain:
    """A chain in short: "a=1 b=2", the kept names, and operations as "c pointwise a b"."""
    weights = {name: int(size) for name, size in (each.split("=") for each in sizes.split())}
    return [(op.split()[0], op.split()[1], op.split()[2:]) for op in ops], weights, keep.split(), most


def _cases(params: Params, rng: Random) -> list[Case]:
    count, most = params["count"], params["most"]
    known = [_chain(rng, count, most) for _ in range(2)]
    late = _row("a=8 b=8 c=8 d=8 t=8 u=64 v=8", "v", 3, "t pointwise a d", "u pointwise t b", "v pointwise u c")
    twice = _row("a=8 s=1 t=8 u=8", "u", 4, "s reduction a", "t pointwise a s", "u pointwise t a")
    kept = _row("a=8 t=8 u=8 v=8", "t v", 3, "t pointwise a", "u pointwise t t", "v pointwise u a")
    product = _row("a=8 w=64 t=8 u=16 v=16", "v", 4, "t pointwise a", "u matmul t w", "v pointwise u u")
    lone = _row("a=8 t=8", "t", 1, "t matmul a")
    other = ([("t", "matmul", ["a", "d"]), *late[0][1:]], *late[1:])  # the same tensors, and another first operation
    cut = _row("a=8 b=8 c=8 d=8 t=24 u=32 v=8", "v", 3, "t pointwise a d", "u pointwise t b", "v pointwise u c")
    many = [_chain(rng, rng.randrange(3, 14), rng.randrange(2, 6)) for _ in range(12)]
    alone = [(*each[:3], [[op[0]] for op in each[0]]) for each in (*many[:4], kept, twice)]
    pair = [(each[0], *late[1:3], [["t"], ["u", "v"]]) for each in (late, ([*late[0][:2], ("v", "pointwise", ["u"])],))]
    best = [(*each[:3], right[1](*each)) for each in (*known, *many)]
    return [
        shown("bytes of a chain", "values:traffic", 0, [(*each[:3], right[1](*each)) for each in known]),
        shown("kernels of a chain", "values:kernels", 1, [*known, late, twice]),
        hidden("bytes of other kernels", "values:traffic", 0, [*alone, *pair]),
        hidden("short chains", "values:kernels", 1, [lone, kept, product]),
        hidden(
            "bytes of other chains",
            "generality:traffic",
            0,
            [*best, *[(*each[:3], right[1](*each)) for each in (kept, late)]],
        ),
        hidden("drawn chains", "generality:kernels", 1, [*many, late, other, cut, (*cut[:2], ["u", "v"], 3)]),
    ]


def _words(ops: Ops, *_: object) -> str:
    return f"{len(ops)} operations that end in {ops[-1][0]}"


_TRAFFIC = Column("traffic", "bytes", want=right[0], words=_words, rel=EXACT)


def _illegal(ops: Ops, most: int, names: Sequence[str]) -> str:
    """Why a run cannot be one kernel; "" if it can."""
    known = {op[0]: op for op in ops}
    kinds = [known[name][1] for name in names]
    outside = {each for name in names for each in known[name][2]} - set(names)
    if len(names) > 1 and "matmul" in kinds:
        return "holds a matmul and something else"
    if "reduction" in kinds[:-1]:
        return "goes on after a reduction"
    return f"reads {len(outside)} tensors, and {most} fit" if len(outside) > most else ""


def _fault(row: Chain, got: Sequence[Sequence[str]]) -> Fault | None:
    ops, sizes, keep, most = row
    lead = f"{_words(ops)}: "
    if any(type(each) not in (list, tuple) for each in got) or [name for each in got for name in each] != [
        op[0] for op in ops
    ]:
        return Wrong(
            "not-in-order", f"{lead}the kernels must hold each result once, in order; got {describe(got)}.", lead
        )
    for each in got:
        if why := _illegal(ops, most, each):
            return Wrong("illegal", f"{lead}the kernel of {', '.join(each)} {why}.", lead)
    mine, least = (right[0](ops, sizes, keep, kernels) for kernels in (got, right[1](*row)))
    if mine > least:
        return Wrong("too-many-bytes", f"{lead}these kernels move {mine} bytes, and {least} are enough.", lead)
    return None


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    index, rows = case.args
    if index == 0:
        return judged(case, _TRAFFIC.fault(case, outcome.value))
    return judged(case, first(*(_fault(row, got) for row, got in zip(rows, outcome.value, strict=True))))


JUDGING = Judging(
    shares="values:traffic 0.2, values:kernels 0.2, generality:traffic 0.2, generality:kernels 0.4",
    cases=_cases,
    verdicts=_verdicts,
    many_right=True,
    why="The traffic of a kernel depends on its own run and on who reads its results later, not on how the rest is "
    "divided. So the cheapest division up to an operation is the cheapest one up to the last cut, plus one kernel. "
    "Taking all that fits from the left can put a cut where a large tensor must be written.",
    pytorch="`TORCH_LOGS=fusion` prints what TorchInductor fuses, and `TORCH_LOGS=output_code` the kernels that it "
    "writes.",
)

ANSWERS = r'''# %% right: worked
def traffic(ops: list, sizes: dict[str, float], keep: list[str], kernels: list[list[str]]) -> float:
    """Bytes that the kernels read and write together."""
    inputs = {result: set(names) for result, _, names in ops}
    total = 0
    for at, names in enumerate(kernels):
        read = set().union(*(inputs[name] for name in names)) - set(names)
        later = set(keep).union(*(inputs[name] for kernel in kernels[at + 1 :] for name in kernel))
        total += sum(sizes[name] for name in read) + sum(sizes[name] for name in names if name in later)
    return total


def fuse(ops: list, sizes: dict[str, float], keep: list[str], most: int) -> list[list[str]]:
    """The kernels that move the fewest bytes, as lists of results in order."""
    names, kinds = [op[0] for op in ops], [op[1] for op in ops]

    def fits(start: int, stop: int) -> bool:
        run = set(names[start:stop])
        read = set().union(*(op[2] for op in ops[start:stop])) - run
        mixed = "matmul" in kinds[start:stop] or "reduction" in kinds[start : stop - 1]
        return stop - start == 1 or (len(read) <= most and not mixed)

    best = [(0, [])]
    for stop in range(1, len(ops) + 1):
        ways = []
        for start in range(stop):
            if fits(start, stop):
                kernels = [*best[start][1], names[start:stop]]
                rest = [[name] for name in names[stop:]]  # so that what they read counts as written
                ways.append((traffic(ops, sizes, keep, kernels + rest), kernels))
        best.append(min(ways, key=lambda way: way[0]))
    return best[-1][1]
# %% right: the last of equal ways
# ~ for start in range(stop): ==> for start in reversed(range(stop)):
# ~ best.append(min(ways, key=lambda way: way[0])) ==> best.append(sorted(ways, key=lambda way: way[0])[0])
# %% wrong: reads once for each operation => values
# > a tensor that several operations of a kernel take is read once.
# ~ [name] for name in read ==> [each] for name in names for each in inputs[name] - set(names)
# %% wrong: all results are written => values
# > a result that only its own kernel takes is not written.
# ~ sum(sizes[name] for name in names if name in later) ==> sum(sizes[name] for name in names)
# %% wrong: kept results are forgotten => values
# > the results in `keep` are written too.
# ~ set(keep).union ==> set().union
# %% wrong: reads alone => values
# > the results that others need are written, and count too.
# ~ + sum(sizes[name] for name in names if name in later) ==> + 0
# %% wrong: as much as fits from the left => values too-many-bytes
# ~ key=lambda way: way[0] ==> key=lambda way: [-len(kernel) for kernel in way[1]]
# %% wrong: nothing fused => values too-many-bytes
# ~ or (len(read) <= most and not mixed) ==> or not run
# %% wrong: on through a reduction => values illegal
# ~ or "reduction" in kinds[start : stop - 1] ==> or not run
# %% wrong: more inputs than fit => values illegal
# ~ len(read) <= most ==> bool(run)
# %% wrong: the kernels in another order => values not-in-order
# ~ return best[-1][1] ==> return best[-1][1][::-1]
# %% wrong: left as it is => not-answered
# ~ inputs = {result ==> raise NotImplementedError; inputs = {result
'''
