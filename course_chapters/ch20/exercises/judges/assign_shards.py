import math
import random
from collections.abc import Sequence

from course_chapters.ch20.exercises.judges.shared import rows_fault_of
from course_grader.exercises.values import is_row, same_lists
from course_grader.judging import Judging, Params, Worked, describe, is_number, judged
from course_grader.judging.cases import shown
from course_grader.judging.random_inputs import each_changed, generality, plain, unseen
from course_grader.records import Case, Outcome, Verdict

right = Worked("assign-shards")
SIZES = [8, 3, 5, 12, 6, 4, 9, 2]


def _cases(params: Params, rng: random.Random) -> list[Case]:
    def drawn(shards: int, hosts: int) -> tuple[list[int], list[int]]:
        """Whole sizes, and rates that are powers of two: every moment is exact."""
        return [rng.randint(2, 30) for _ in range(shards)], [rng.choice((1, 2, 4)) for _ in range(hosts)]

    rates = [2, 2, 1, 4, 1][: params["hosts"]]
    others = [drawn(*each) for each in ((9, 2), (12, 3), (20, 5))]
    ties = [([4] * 7, [1, 1, 1]), ([6, 6, 6, 6], [2, 1, 2]), ([2, 8, 2, 8, 4], [1, 1])]
    few = [([5, 3], [1, 2, 4, 8]), ([7], [1, 1]), ([], [2, 1]), ([3, 1, 9], [2]), ([7], [4]), ([], [2])]
    return [
        shown("eight shards", "values:hosts", 0, [(SIZES, rates)]),
        shown("an epoch of 100 steps", "values:step", 1, [(SIZES, rates, 100)]),
        plain("hosts", 0, "other shards", others),
        plain("step", 1, "other shards", [(*each, rng.choice((50, 400))) for each in others]),
        unseen(rng, "hosts", 0, "hosts that would be done together", ties),
        generality("hosts", 0, "few shards, one host, none", few),
        generality("hosts", 0, "one argument changes", each_changed(([6, 5, 4], [1, 2]), ([9, 1, 2, 7], [4, 1]))),
        generality("step", 1, "few shards, one host, none", [(*each, 8) for each in few]),
        generality("step", 1, "one argument changes", each_changed(([6, 5, 4], [1, 2], 10), ([9, 1, 7], [4, 1], 25))),
        generality("bad", 0, "a host without bandwidth", [([4, 2], [1, 0, 2]), ([4], [2, 1, 1, -1]), ([], [1, 1, 0])]),
    ]


def _apart(got: object, want: list[int] | float) -> str:
    if isinstance(want, list):
        if not is_row(got) or len(got) != len(want):
            return f"expected a host for each of {len(want)} shards; got {describe(got)}."
        at = next(
            (at for at, pair in enumerate(zip(got, want, strict=True)) if not same_lists([pair[0]], [pair[1]])), None
        )
        return "" if at is None else f"shard {at} does not go to host {describe(got[at])}."
    close = is_number(got) and math.isclose(got, want, rel_tol=1e-6, abs_tol=1e-12)
    return "" if close else f"{describe(got)} s is not the shortest step."


def _words(sizes: object, rates: object, *steps: object) -> str:
    return f"shards of {sizes} GB, hosts of {rates} GB/s" + (f", {steps[0]} steps" if steps else "")


def _named(sizes: object, rates: Sequence[float], *steps: object) -> list[str]:
    return [str(next(host for host, rate in enumerate(rates) if rate <= 0))]


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    return judged(case, rows_fault_of(case, outcome.value, right[case.args[0]], _words, _apart, _named))


JUDGING = Judging(
    shares="values:hosts 0.25, values:step 0.2, generality:hosts 0.3, generality:step 0.15, generality:bad 0.1",
    cases=_cases,
    verdicts=_verdicts,
    why="""The last host sets the time of all, so bytes follow bandwidth. Going from the largest shard to the smallest
leaves the small ones to even out what the large ones made uneven.""",
    pytorch="`torch.utils.data.IterableDataset` leaves the choice of shards to the worker; WebDataset's "
    "`split_by_node` gives every node equally many, whatever its bandwidth.",
)

ANSWERS = r'''from course_lib import params


# %% right: worked
order = params("assign-shards").order  # leave as is: the shards come "largest" first, or as "listed"


def assign(sizes: list, rates: list) -> list[int]:
    """The host of each shard."""
    ### BEGIN SOLUTION
    for host, rate in enumerate(rates):
        if rate <= 0:
            raise ValueError(f"host {host} has a rate of {rate} GB/s")
    load, hosts = [0] * len(rates), [0] * len(sizes)
    shards = sorted(range(len(sizes)), key=lambda at: -sizes[at] if order == "largest" else 0)
    for shard in shards:
        done = [(held + sizes[shard]) / rate for held, rate in zip(load, rates, strict=True)]
        hosts[shard] = done.index(min(done))
        load[hosts[shard]] += sizes[shard]
    return hosts
    ### END SOLUTION


def shortest_step(sizes: list, rates: list, steps: int) -> float:
    """The least seconds of a step at which no host is late."""
    ### BEGIN SOLUTION
    load = [0] * len(rates)
    for size, host in zip(sizes, assign(sizes, rates), strict=True):
        load[host] += size
    done = [held / rate for held, rate in zip(load, rates, strict=True)]
    return max(done) / steps
    ### END SOLUTION

# %% right: by key
# ~ hosts[shard] = done.index(min(done)) ==> hosts[shard] = min(range(len(done)), key=done.__getitem__)
# ~ return max(done) / steps ==> return max(each / steps for each in done)
# %% wrong: fewest bytes => values
# > this evens out bytes; a slow host needs longer for the same bytes.
# ~ (held + sizes[shard]) / rate for ==> held + 0 * rate for
# %% wrong: the host that is free first => values
# > this asks which host is free first; ask which one would be done first with this shard, too.
# ~ (held + sizes[shard]) / rate for ==> held / rate for
# %% wrong: in turn => values
# > the shards go round, whatever the hosts' bandwidth.
# ~ hosts[shard] = done.index(min(done)) ==> hosts[shard] = shards.index(shard) % len(rates)
# %% wrong: the other order => values
# > the shards are taken in the other order.
# ~ if order == "largest" else 0 ==> if order != "largest" else 0
# %% wrong: the smallest first => values
# > the shards go from the smallest to the largest.
# ~ key=lambda at: -sizes[at] if order == "largest" else 0 ==> key=lambda at: sizes[at]
# %% wrong: in the order of the sizes => values unless order=listed
# > the hosts are listed in the order in which the shards were given out; the list has the order of `sizes`.
# ~ return hosts ==> return [hosts[shard] for shard in shards]
# %% wrong: the last host => values
# > of hosts that would be done together, the first takes the shard.
# ~ hosts[shard] = done.index(min(done)) ==> hosts[shard] = max(at for at, each in enumerate(done) if each == min(done))
# %% wrong: no rate is refused => generality raised
# -     for host, rate in enumerate(rates):
# -         if rate <= 0:
# -             raise ValueError(f"host {host} has a rate of {rate} GB/s")
#       load, hosts = [0] * len(rates), [0] * len(sizes)
# %% wrong: negative rates are taken => generality
# > a rate of 0 is refused, a negative one is not.
# ~ if rate <= 0: ==> if rate == 0:
# %% wrong: the mean host => values
# > this is the mean of the hosts; the last one is late then.
# ~ return max(done) / steps ==> return sum(done) / len(done) / steps
# %% wrong: all bandwidth together => values
# > this divides all bytes by all bandwidth; shards are whole, so some host needs longer.
# ~ return max(done) / steps ==> return sum(load) / sum(rates) / steps
# %% wrong: seconds of the epoch => values
# > these are the seconds of the whole epoch.
# ~ return max(done) / steps ==> return max(done)
# %% wrong: left as it is => not-answered
# ~ load, hosts = [0] * len(rates), [0] * len(sizes) ==> raise NotImplementedError
'''
