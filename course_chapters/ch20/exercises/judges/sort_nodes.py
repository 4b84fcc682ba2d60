import random
from collections import Counter
from collections.abc import Mapping, Sequence

from course_chapters.ch20.exercises.judges.shared import rows_fault_of
from course_grader.exercises.values import describe
from course_grader.judging import Judging, Params, Worked, judged
from course_grader.judging.random_inputs import generality, plain
from course_grader.records import Case, Outcome, Verdict

right = Worked("sort-nodes")
Row = tuple[list[str], dict[str, object], float, float]
RATE = 48.0  # GB/s of a healthy adapter; sums of powers of two are exact


def _fleet(rng: random.Random, count: int, **changes: Mapping[str, object]) -> Row:
    """Healthy nodes in any order, with these changes to reports: {"n3": {"ecc": 1}}; None takes a report away."""
    names = [f"n{at}" for at in range(count)]
    reports: dict[str, dict[str, object]] = {
        name: {"ecc": 0, "checksum": 77, "rates": [RATE + rng.choice((0, 0.25, 0.5)) for _ in range(4)], "hot": 0.0}
        for name in names
    }
    for name, change in changes.items():
        reports[name] |= change
    rng.shuffle(names)
    return names, {name: reports[name] for name in sorted(reports, key=lambda _: rng.random())}, 50.0, 0.9


def _without(row: Row, *names: str) -> Row:
    return row[0], {name: report for name, report in row[1].items() if name not in names}, *row[2:]


def _cases(params: Params, rng: random.Random) -> list[Case]:
    hot = params["hot"]
    weak = {"rates": [48.0, 30.0, 48.0, 48.0]}
    mixed = _fleet(rng, 7, n2={"ecc": 3}, n4=weak, n5={"hot": 2 * hot}, n6={"checksum": 78})
    some = [
        _fleet(rng, 5, n1={"rates": []}, n3={"hot": 1.0}),
        _without(_fleet(rng, 6, n0=weak), "n4"),
        _fleet(rng, 8, n1={"ecc": 1, "rates": [10.0] * 4}, n2={"checksum": 1, "hot": 1.0}),
        _fleet(rng, 4),
        _fleet(rng, 6, n0={"rates": [33.0, *[60.0] * 9]}, n3={"rates": [70.0]}),
    ]
    # two rates on both sides of the limit; bad nodes that would move the median; one rate in place of many
    half = [({f"n{at}": {"rates": [64.0]} for at in range(1, 5)}, low) for low in (31.75, 32.0, 32.25)]
    edges = [(*_fleet(rng, 5, n0={"rates": [low]}, **rest)[:2], 64.0, 0.5) for rest, low in half]
    edges += [_fleet(rng, 5, n1={"hot": hot}, n2={"hot": hot + 1e-6}, n3={"hot": hot - 1e-6})]
    slow_bad = {f"n{at}": {"ecc": 1, "rates": [8.0]} for at in range(4)}
    edges += [(*_fleet(rng, 7, n6={"rates": [40.0]}, **slow_bad)[:2], 44.0, 0.9)]
    edges += [(*_fleet(rng, 6, **{f"n{at}": {"rates": [20.0 + at] * 2} for at in range(6)})[:2], 26.0, 0.95)]
    edges += [(*_fleet(rng, 3, n0={"rates": [90.0]}, n1={"rates": [60.0]}, n2={"rates": [58.0]})[:2], 64.0, 0.95)]
    small = [([], {}, 50.0, 0.9), (["n0"], {}, 50.0, 0.9), _fleet(rng, 1), _fleet(rng, 1, n0={"ecc": 1})]
    small += [_without(_fleet(rng, 3), "n0", "n1", "n2"), _fleet(rng, 3, n1={"checksum": 5})]
    small += [_without(_fleet(rng, 5, n1={"checksum": 5}), "n0", "n4")]  # two of three reports, and of five nodes
    doubled = _fleet(rng, 6)
    doubled[0].extend(["n1", "n3", "n1"])
    strange = _fleet(rng, 4)
    strange[0].remove("n2")
    both = _without(_fleet(rng, 4), "n1")
    both[0].append("n1")
    errors = [doubled, strange, both, _fleet(rng, 4, n0={"checksum": 1}, n1={"checksum": 1})]
    errors += [_fleet(rng, 3, n0={"checksum": 1}, n1={"checksum": 2}), _fleet(rng, 2, n0={"checksum": 3})]
    errors += [_without(_fleet(rng, 5, n0={"checksum": 1}, n1={"checksum": 1}), "n4")]
    known = _fleet(rng, 3)[1]
    errors += [([], known, 50.0, 0.9), ([], {"n0": known["n0"]}, 50.0, 0.9), (["n0"], known, 50.0, 0.9)]
    small += [(["n1", "n0"], {"n0": known["n0"]}, 50.0, 0.9)]
    return [
        Case(name="seven nodes", args=(0, [mixed]), part="nodes"),
        plain("nodes", 0, "other nodes", some),
        generality("edges", 0, "on both sides of each limit", edges),
        generality("edges", 0, "few nodes, few reports", small),
        generality("errors", 0, "lists and reports that are wrong", errors),
    ]


def _named(nodes: Sequence[str], reports: Mapping[str, object], *_: object) -> list[str]:
    doubles = [name for name, count in Counter(nodes).items() if count > 1]
    return sorted({*doubles, *(name for name in reports if name not in nodes)})


def _apart(got: object, want: dict[str, str]) -> str:
    if type(got) is not dict:
        return f"return a dictionary of all nodes; got {describe(got)}."
    if got.keys() != want.keys():
        return f"the result is about {describe(sorted(map(str, got)))}; it should be about the nodes of the list."
    wrong = [name for name in want if got[name] != want[name]]
    return f"{wrong[0]} is {describe(got[wrong[0]])}; it should be {want[wrong[0]]!r}." if wrong else ""


def _words(nodes: Sequence[str], reports: Mapping[str, object], printed: float, least: float) -> str:
    return f"{len(nodes)} names, {len(reports)} reports, printed {printed:g}, at least {least:g} times"


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    return judged(case, rows_fault_of(case, outcome.value, right, _words, _apart, _named))


JUDGING = Judging(
    shares="values:nodes 0.4, generality:edges 0.3, generality:errors 0.3",
    cases=_cases,
    verdicts=_verdicts,
    why="""A bad node must not join, whatever its speed; a slow one can wait for a job that does not need it. A limit
relative to the other nodes adapts to the machine, and a limit relative to the data sheet also notices if all nodes are
slow. A name that is twice in the list would start two ranks on the same GPUs. A node without a report is not healthy:
no one has looked.""",
    pytorch="`dcgmi diag -r 3`, `nvidia-smi -q -d ECC,PERFORMANCE`, `all_reduce_perf` of nccl-tests; "
    "NVIDIA/nvidia-resiliency-ext has health checks for torchrun.",
)

ANSWERS = r'''import statistics
from collections import Counter

from course_lib import params


# %% right: worked
against, hot = params("sort-nodes").against, params("sort-nodes").hot  # leave as is: "peers" or "printed", and a share


def preflight(nodes: list[str], reports: dict[str, dict], printed: float, least: float) -> dict[str, str]:
    """A word for every node of the list: "good", "slow" or "bad"."""
    ### BEGIN SOLUTION
    doubles = [name for name, count in Counter(nodes).items() if count > 1]
    strangers = [name for name in reports if name not in nodes]
    if doubles or strangers:
        raise ValueError(f"twice in the list: {doubles}; reports of nodes that are not in it: {strangers}")
    votes = Counter(report["checksum"] for report in reports.values())
    common, count = votes.most_common(1)[0] if votes else (None, 0)
    if votes and 2 * count <= len(reports):
        raise ValueError("no checksum has more than half of the reports")
    words = dict.fromkeys(nodes, "bad")
    lows = {}
    for name, report in reports.items():
        if not report["ecc"] and report["rates"] and report["checksum"] == common:
            lows[name] = min(report["rates"])
    usual = printed if against == "printed" or not lows else statistics.median(lows.values())
    for name, low in lows.items():
        words[name] = "slow" if low < least * usual or reports[name]["hot"] > hot else "good"
    return words
    ### END SOLUTION

# %% right: sorted, and in one expression
# ~ doubles = [name for name, count in Counter(nodes).items() if count > 1]
# ~~ ==> doubles = sorted({name for name in nodes if nodes.count(name) > 1})
# ~ strangers = [name for name in reports if name not in nodes] ==> strangers = sorted(set(reports) - set(nodes))
# ~ common, count = votes.most_common(1)[0] if votes else (None, 0)
# ~~ ==> common, count = max(votes.items(), key=lambda pair: pair[1], default=(None, 0))
# %% wrong: doubles are dropped => generality
# > the doubles are taken once, in silence: a wrong list goes on.
# ~ if doubles or strangers: ==> if strangers:
# %% wrong: strangers are ignored => generality
# > a report of a node that is not in the list is ignored in silence.
# ~ if doubles or strangers: ==> if doubles:
# %% wrong: an error without names => generality
# > the error must say which nodes are meant.
# ~ raise ValueError(f"twice in the list: {doubles}; reports of nodes that are not in it: {strangers}")
# ~~ ==> raise ValueError("the node list is wrong")
# %% wrong: most votes are enough => generality
# > this trusts the most frequent checksum although half of the reports or more differ from it.
# ~ if votes and 2 * count <= len(reports): ==> if False:
# %% wrong: half is enough => generality
# > half of the reports are no majority: the other half may be right.
# ~ 2 * count <= len(reports) ==> 2 * count < len(reports)
# %% wrong: half of the nodes => generality
# > more than half of the reports decide, not of the nodes.
# ~ 2 * count <= len(reports) ==> 2 * count <= len(nodes)
# %% wrong: no report is good => values
# > a node without a report counts as good here, although nothing is known of it.
# ~ words = dict.fromkeys(nodes, "bad") ==> words = {name: "bad" if name in reports else "good" for name in nodes}
# %% wrong: nodes without a report are left out => values
# > the nodes without a report are missing in the result.
# ~ words = dict.fromkeys(nodes, "bad") ==> words = dict.fromkeys(reports, "bad")
# %% wrong: memory errors are ignored => values
# > this does not look at the uncorrected memory errors.
# ~ if not report["ecc"] and report["rates"] ==> if report["rates"]
# %% wrong: checksums are ignored => values
# > this does not look at the checksum: a node that computes wrongly would join.
# ~ and report["checksum"] == common: ==> :
# %% wrong: the mean of the adapters => values
# > the mean hides one slow adapter; the lowest rate decides.
# ~ min(report["rates"]) ==> statistics.mean(report["rates"])
# %% wrong: heat is ignored => values
# > heat makes no node slow here; `hot` is a share of the time, 0.01 for 1 %.
# ~  or reports[name]["hot"] > hot else ==>  else
# %% wrong: the hot ones are bad => values
# > heat makes a node slow, not bad.
# ~ words[name] = "slow" if low < least * usual or reports[name]["hot"] > hot else "good"
# ~~ ==> words[name] = "bad" if reports[name]["hot"] > hot else "slow" if low < least * usual else "good"
# %% wrong: exactly at the limit is slow => generality
# > a rate that equals the limit is enough.
# ~ low < least * usual ==> low <= least * usual
# %% wrong: hot at the limit => generality
# > exactly the allowed share of heat is allowed.
# ~ reports[name]["hot"] > hot else ==> reports[name]["hot"] >= hot else
# %% wrong: the other reference => generality
# > this compares with the other one of the two references.
# ~ printed if against == "printed" or not lows ==> printed if against == "peers" or not lows
# %% wrong: bad nodes are peers => generality unless against=printed
# > the rates of bad nodes are in the median.
# ~ statistics.median(lows.values())
# ~~ ==> statistics.median(min(report["rates"]) for report in reports.values() if report["rates"])
# %% wrong: the mean of the peers => generality unless against=printed
# > one very fast or slow node moves the mean of the peers; the median is asked for.
# ~ statistics.median(lows.values()) ==> statistics.mean(lows.values())
# %% wrong: left as it is => not-answered
# ~ doubles = [ ==> raise NotImplementedError; doubles = [
'''
