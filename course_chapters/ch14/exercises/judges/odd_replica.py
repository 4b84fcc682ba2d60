from collections.abc import Callable

import torch
from torch import Tensor

from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Worked, Wrong, describe, oracle, ranks
from course_grader.judging.cases import hidden, shown, under
from course_grader.judging.tensors import coin_of
from course_grader.judging.traffic import bytes_fault

right = Worked("odd-replica")


def _bit(x: Tensor, at: int) -> None:
    x.view(-1).view(torch.uint8)[at * x.element_size()] ^= 1


def _swap(x: Tensor, at: int) -> None:
    x[[at, at + 1]] = x[[at + 1, at]]


def _apart(x: Tensor, at: int) -> None:
    """Changes two numbers, and not their sum."""
    x[at] += 1
    x[at + 1] -= 1


def _sign(x: Tensor, at: int) -> None:
    x[at] = -x[at]


def _cases(params: Params, rng: Random) -> list[Case]:
    coin, n = coin_of(rng), params["ranks"]

    def given(who: str, change: Callable[[Tensor, int], None] = _bit, x: Tensor | None = None) -> ranks.PerRank:
        """A replica for each letter: "a" is `x`, and other letters are changed at other places."""
        x = ranks.secret(coin, 400) if x is None else x
        copies = {letter: x.clone() for letter in who}
        for letter in copies.keys() - {"a"}:
            change(copies[letter], -2 * (ord(letter) - ord("a")))
        return tuple((copies[letter],) for letter in who)

    empty, number, zeros, unknown = torch.zeros(0), torch.tensor(2.5), torch.zeros(9), torch.full((40,), torch.nan)
    table = ranks.secret(coin, 6, 8, dtype=torch.bfloat16)
    votes = ("baa", "aba", "aabbb", "bacaa", "abcaaa", "ab", "aabb", "abc", "aabbc", "abcd", "aabc", "aa", "a")
    digests = {"two numbers swapped": _swap, "the same sum": _apart}
    machines = ranks.LATE, ranks.BUFFER, ranks.BUFFERS_LATE  # on a strict stream the order of messages would matter
    return [
        shown("one flipped bit", "values:odd", per_rank=given("a" * (n - 1) + "b")),
        hidden("other data", "values:odd", per_rank=given("b" + "a" * n)),
        hidden("all are equal", "values:odd", per_rank=given("a" * (n + 1))),
        *(hidden(f"replicas {who}", "generality:votes", per_rank=given(who)) for who in votes),
        *(hidden(name, "generality:bits", per_rank=given("aaba", change)) for name, change in digests.items()),
        hidden("the sign of a zero", "generality:bits", per_rank=given("baa", _sign, zeros)),
        hidden("NaN everywhere", "generality:bits", per_rank=given("aaa", x=unknown)),
        hidden("bfloat16 in two dimensions", "generality:bits", per_rank=given("aab", x=table)),
        *(
            hidden(f"{name}, replicas {who}", "generality:bits", per_rank=given(who, x=x))
            for name, x in (("a single number", number), ("no number at all", empty))
            for who in ("aaa", "aa", "a")
        ),
        *under(machines, "four ranks", "protocol:safe", lambda: given("abaa")),
    ]


def _fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    for rank, (got, want) in enumerate(zip(outcome.value, right.value(case), strict=True)):
        if (got if got is None else list(got)) != want:
            lead = f"Rank {rank} of {case.ranks}: "
            return Wrong("", f"{lead}got {describe(got)}, which is not right.", lead)
    return None


def _bytes(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    n = case.ranks or 1
    least = [n > 1] * n  # without a byte, a rank knows nothing about the others, nor they about it
    return bytes_fault(outcome.meter, [params["budget"] * (n - 1)] * n, "allowed are", least)


JUDGING = Judging(
    shares="values:odd 0.3, generality:votes 0.25, generality:bits 0.2, cost:bytes 0.15, protocol:safe 0.1",
    cases=_cases,
    verdicts=oracle(_fault, {"cost:bytes": _bytes}, named=True),
    why="A digest of 8 bytes changes with every single bit, and two different gradients have the same one by chance "
    "only once in 2⁶⁴. A majority names who differs from it. It cannot name who is right: if more than half of "
    "the replicas have the same wrong bit, the others are blamed.",
    pytorch="`torch.hash_tensor` gives such a digest on the device; `all_gather` of one number per rank does the rest.",
)

ANSWERS = r'''# %% right: worked
def odd_replicas(comm, gradient):
    """The ranks that differ from more than half of all; every rank if there is no majority; None if all are equal."""
    bits = gradient.reshape(-1).view(torch.uint8)
    digest = hashlib.sha256(bits.numpy().tobytes()).digest()[:8]
    mine = torch.tensor(list(digest), dtype=torch.uint8)
    everyone = [torch.empty_like(mine) for _ in range(comm.size)]
    comm.all_gather(everyone, mine)
    digests = [bytes(each.tolist()) for each in everyone]
    usual, count = Counter(digests).most_common(1)[0]
    if count == comm.size:
        return None
    if 2 * count <= comm.size:
        return list(range(comm.size))
    return [rank for rank, each in enumerate(digests) if each != usual]
# %% right: a message to every rank
# -     comm.all_gather(everyone, mine)
# +     works = [comm.isend(mine, rank) for rank in range(comm.size) if rank != comm.rank]
# +     for rank in range(comm.size):
# +         if rank != comm.rank:
# +             comm.recv(everyone[rank], rank)
# +     everyone[comm.rank] = mine
# +     for work in works:
# +         work.wait()
# %% wrong: the digest changes while it is sent => protocol ~  from: a message to every rank
# ~ everyone[comm.rank] = mine ==> everyone[comm.rank] = mine.clone(); mine.zero_()
# %% wrong: whole gradients => cost too-many-bytes
# ~ torch.tensor(list(digest), dtype=torch.uint8) ==> bits.clone()
# %% wrong: the sum of the numbers => generality
# > a sum stays the same when two numbers change places.
# ~ bits.numpy().tobytes() ==> str(gradient.double().sum().item()).encode()
# %% wrong: values instead of bits => generality
# > 0.0 and −0.0 have different bits.
# ~ bits.numpy().tobytes() ==> (gradient + 0.0).reshape(-1).view(torch.uint8).numpy().tobytes()
# %% wrong: the first rank is right => values
# > this takes rank 0's gradient for the right one.
# ~ Counter(digests).most_common(1)[0] ==> digests[0], digests.count(digests[0])
# %% wrong: half is enough => generality
# > half of the replicas are not more than half.
# ~ 2 * count <= comm.size ==> 2 * count < comm.size
# %% wrong: the most frequent is enough => generality
# > the most frequent digest need not be that of more than half of the replicas.
# ~ 2 * count <= comm.size ==> count == 1
# %% wrong: no majority is no fault => generality
# > without a majority all ranks are suspect.
# ~ return list(range(comm.size)) ==> return None
# %% wrong: one rank at most => generality
# > more than one rank may differ.
# ~ if each != usual] ==> if each != usual][:1]
# %% wrong: an empty list => values
# > return None if all replicas are equal.
# ~ count == comm.size ==> count > comm.size
# %% wrong: only the odd rank knows => values
# > every rank returns the ranks that differ.
# ~ if each != usual] ==> if each != usual and rank == comm.rank]
'''
