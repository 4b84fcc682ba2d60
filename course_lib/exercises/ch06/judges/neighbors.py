"""Judges of chapter 06's exchanges between neighbors: a pair that combines, a shift around the ring, a hang to repair."""

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.layouts import COLUMNS
from course_lib.judging import Fault, Judging, Params, first, judged, ranks
from course_lib.judging.cases import hidden, ranks_text, shown, under
from course_lib.judging.ranks import PerRank, counted_wrong, layouts, moved_early, plain_sum, secret, tensors, world
from course_lib.judging.tensors import coin_of, nbytes, not_like, same
from course_lib.judging.traffic import Meter, off_the_ring, ready_made, sent_again, too_few_bytes, too_long
from course_lib.records import Case, Outcome, Verdict

Shape = tuple[int, ...]
PUBLIC = "This solves the public form of the exercise. "

# --- pair exchange


def _pair_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, size = coin_of(rng), params["numbers"]

    def data(n: int) -> PerRank:
        return world(n, lambda: secret(coin, size))

    cases = [shown("four ranks", "values:pair", per_rank=data(4))]
    cases += [hidden("two ranks, other data", "values:pair", per_rank=data(2))]
    cases += [hidden(ranks_text(n), "generality:ranks", per_rank=data(n)) for n in (1, 3, 7)]
    many = world(rng.choice((11, 13)), lambda: secret(coin, 2, 3, 11, dtype=torch.int64))
    cases += [hidden(f"{len(many)} ranks, integers in three dimensions", "generality:ranks", per_rank=many)]
    cases += [hidden(name, "generality:tensors", per_rank=given) for name, given in layouts(coin, 2).items()]
    return cases + under(ranks.UNKIND[:3], "two ranks", "protocol:safe", lambda: data(2))


def _combined(op: str, pair: Sequence[Tensor]) -> Tensor:
    return pair[0].clone() if len(pair) == 1 else plain_sum(pair) if op == "sum" else torch.maximum(*pair)


def _pair_fault(params: Params, case: Case, results: Sequence[Any]) -> Fault | None:
    given, result = tensors(case), params["result"]

    def wrong(rank: int, got: Tensor) -> Fault | None:
        pair = given[rank - rank % 2 : rank - rank % 2 + 2]
        if params["op"] == "max" and same(got, plain_sum(pair)):
            return "public-form", f"This solves the public form: rank {rank} returned the sum, not {result}."
        if same(got, given[rank]):
            return "returned-input", f"Rank {rank} returned its own numbers, without its partner's."
        if len(pair) == 2 and same(got, theirs := pair[1 - rank % 2]):
            return "only-theirs", f"Rank {rank} returned its partner's numbers, without its own."
        if len(pair) == 2 and torch.equal(got, (2 * theirs).to(got.dtype)):
            return "overwritten", f"Rank {rank} returned twice its partner's numbers. Did the receive overwrite `x`?"
        counted = counted_wrong(got, given, f"Rank {rank}'s result")
        return counted or ("other-numbers", f"Rank {rank}'s result is not {result} of the pair's tensors.")

    wants = [_combined(params["op"], given[rank - rank % 2 : rank - rank % 2 + 2]) for rank in range(len(given))]
    return ranks.over_ranks(case, results, wants, wrong)


def _pair_cost(case: Case, meter: Meter) -> Fault | None:
    given = tensors(case)
    least = [nbytes(x) if rank ^ 1 < len(given) else 0 for rank, x in enumerate(given)]
    return sent_again(meter, least) or too_few_bytes(meter, least, least)


def _pair_partners(case: Case, meter: Meter) -> Fault | None:
    if fault := ready_made(meter):
        return fault
    for src, dst, _, messages in meter["pairs"]:
        if messages and dst != src ^ 1:
            return "spoke-to-others", f"Rank {src} sent a message to rank {dst}; its partner is rank {src ^ 1}."
    return None


def _pair_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault = _pair_fault(params, case, outcome.value)
    if case.adversary is not None:
        return judged(case, fault)
    spent, partner = _pair_cost(case, outcome.meter), _pair_partners(case, outcome.meter)
    return judged(case, fault, ("cost", "bytes", spent), ("protocol", "partner", partner))


# --- ring shift


def _shift_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, size = coin_of(rng), params["numbers"]

    def data(n: int, *shape: int) -> PerRank:
        return world(n, lambda: secret(coin, *(shape or (size,)), dtype=torch.int64 if shape else torch.float32))

    cases = [shown("six ranks", "values:shift", per_rank=data(6))]
    cases += [hidden("five ranks, other data", "values:shift", per_rank=data(5))]
    cases += [hidden(ranks_text(n), "generality:ranks", per_rank=data(n)) for n in (1, 2, 8)]
    for n in (1, rng.choice((11, 13))):
        cases.append(hidden(f"{ranks_text(n)}, many integers", "generality:ranks", per_rank=data(n, 2, 3, 11)))
    cases += [hidden(name, "generality:tensors", per_rank=given) for name, given in layouts(coin, 3).items()]
    return cases + under(ranks.UNKIND, "three ranks", "protocol:safe", lambda: data(3))


def _shift_fault(params: Params, case: Case, results: Sequence[Any]) -> Fault | None:
    given, step = tensors(case), params["direction"]
    n = len(given)

    def wrong(rank: int, got: Tensor) -> Fault | None:
        if same(got, given[rank]):
            return "own-tensor", f"Rank {rank} returned its own tensor. Receive into a second one and return that."
        if n > 2 and same(got, given[(rank + step) % n]):
            name, lead = ("public-form", PUBLIC) if step < 0 else ("wrong-direction", "")
            return name, f"{lead}Rank {rank} returned the next rank's tensor; the route is {params['route']}."
        for other, theirs in enumerate(given):
            if same(got, theirs):
                before = (rank - step) % n
                return "wrong-rank", f"Rank {rank} returned rank {other}'s tensor; its previous rank is {before}."
        counted = counted_wrong(got, given, f"Rank {rank}'s result")
        return counted or ("other-numbers", f"Rank {rank}'s result is not the tensor of any rank.")

    return ranks.over_ranks(case, results, [given[(rank - step) % n] for rank in range(n)], wrong)


def _shift_bytes(case: Case, meter: Meter) -> Fault | None:
    given = tensors(case)
    least = [nbytes(x) if len(given) > 1 else 0 for x in given]
    return sent_again(meter, least) or too_few_bytes(meter, least, least)


def _shift_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault, meter = _shift_fault(params, case, outcome.value), outcome.meter
    if case.adversary is not None:
        return judged(case, fault)
    late = too_long(meter, 4, "Which rank waits for a neighbor that itself waits for its neighbor?")
    route = first(ready_made(meter), off_the_ring(meter, params["direction"], params["route"]))
    costs = ("cost", "bytes", _shift_bytes(case, meter)), ("cost", "time", late)
    return judged(case, fault, *costs, ("protocol", "neighbors", route))


# --- the hang


def _edge_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, size = coin_of(rng), params["numbers"]

    def data(n: int, ahead: Shape = (size,), behind: Shape = (size,), *kinds: torch.dtype) -> PerRank:
        one, two = kinds or (torch.float32, torch.float32)
        return tuple((secret(coin, *ahead, dtype=one), secret(coin, *behind, dtype=two)) for _ in range(n))

    in_order = "four ranks, each pair's operations in the order of issue"
    cases = [shown(in_order, "values:edges", per_rank=data(4), adversary=ranks.STREAM)]
    cases += [hidden("eight ranks", "values:edges", per_rank=data(8))]
    cases += [hidden(ranks_text(n), "generality:ranks", per_rank=data(n)) for n in (1, 2, 3)]
    columns = data(5, (size, 1), (3, 2), torch.float32, torch.int64)
    cases += [hidden("five ranks, a column ahead and integers behind", "generality:tensors", per_rank=columns)]
    cases += [hidden("two ranks, different shapes", "generality:tensors", per_rank=data(2, (2, size), (3,)))]
    for n in (1, 2, rng.choice((11, 13))):
        given = data(n, (2, 3, 11), (5,), torch.bfloat16, torch.int64)
        cases.append(hidden(f"{ranks_text(n)}, neither of them float32", "generality:tensors", per_rank=given))
    turned = tuple((*edges, COLUMNS) for edges in data(3, (3, 4), (5, 2)))
    cases += [hidden("three ranks, transposed", "generality:tensors", per_rank=turned)]
    cases += [hidden("two ranks, order of issue", "protocol:order", per_rank=data(2), adversary=ranks.STREAM_LATE)]
    return cases + under(ranks.UNKIND, "three ranks", "protocol:safe", lambda: data(3))


def _edge_fault(case: Case, results: Sequence[Any]) -> Fault | None:
    given, n = case.per_rank or (), len(case.per_rank or ())
    for rank, got in enumerate(results):
        before, after = (rank - 1) % n, (rank + 1) % n
        wants = (given[before][0], f"what rank {before} sent on"), (given[after][1], f"what rank {after} sent back")
        for one, (want, words) in zip(got, wants, strict=True):
            if same(one, want):
                continue
            others = (given[before][1], given[after][0], given[before][0], given[after][1])
            if n > 1 and any(same(one, other) for other in others):
                return "crossed", (
                    f"Rank {rank} of {n} has its two messages swapped. Messages of one pair are matched in the order in which they "
                    "were sent, or by tag; `from_before` comes first in the result."
                )
            if fault := not_like(one, want, rank):
                return fault
            if case.adversary is not None and case.adversary != ranks.STREAM:
                return moved_early(case, rank)
            if any(same(one, mine) for mine in given[rank][:2]):
                return "own-tensor", f"Rank {rank} returned one of its own tensors instead of {words}."
            return "other-numbers", f"Rank {rank} of {n} did not return {words}."
    return None


def _edge_bytes(case: Case, meter: Meter) -> Fault | None:
    n = len(case.per_rank or ())
    least = [nbytes(ahead) + nbytes(behind) if n > 1 else 0 for ahead, behind, *_ in case.per_rank or ()]
    return sent_again(meter, least, neighbors=2) or too_few_bytes(meter, least, least)


def _edge_partners(meter: Meter) -> Fault | None:
    if fault := ready_made(meter):
        return fault
    n = len(meter["bytes_sent"])
    for src, dst, _, messages in meter["pairs"]:
        if messages and (dst - src) % n not in (1, n - 1):
            return "not-a-neighbor", f"Rank {src} sent to rank {dst}, which is not its neighbor on a ring of {n}."
    return None


def _edge_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault, meter = _edge_fault(case, outcome.value), outcome.meter
    if case.part == "order" and fault is not None and fault[0] == "crossed":
        fault = None  # it did not hang, which is the question here; swapped messages cost another share
    if case.adversary not in (None, ranks.STREAM):
        return judged(case, fault)
    late = too_long(meter, 6, "It no longer hangs. Now let all ranks act at the same time.")
    costs = ("cost", "bytes", _edge_bytes(case, meter)), ("cost", "time", late)
    return judged(case, fault, *costs, ("protocol", "neighbors", _edge_partners(meter)))


NEIGHBORS = {
    "pair-exchange": Judging(
        shares="values:pair 0.35, cost:bytes 0.15, protocol:partner 0.1, protocol:safe 0.15, generality:ranks 0.15, "
        "generality:tensors 0.1",
        cases=_pair_cases,
        verdicts=_pair_verdicts,
        why="The partner's number differs in the last bit: `rank ^ 1`. Both halves start as one operation, so neither rank waits for a "
        "receive that is queued behind the other's send. The received data has its own tensor, so the one being sent stays intact.",
        pytorch="`torch.distributed.batch_isend_irecv`; an all-reduce in a group of two.",
    ),
    "ring-shift": Judging(
        shares="values:shift 0.3, cost:bytes 0.1, cost:time 0.15, protocol:neighbors 0.1, protocol:safe 0.15, "
        "generality:ranks 0.1, generality:tensors 0.1",
        cases=_shift_cases,
        verdicts=_shift_verdicts,
        why="All ranks act at once, so the time does not grow with N. If only rank 0 received first, that would also break the cycle, "
        "but the last rank would have to wait for all the others. Counting modulo N closes the ring.",
        pytorch="The hop of ring attention and of every ring collective; in JAX it is `ppermute`.",
    ),
    "hang-repair": Judging(
        shares="values:edges 0.3, cost:bytes 0.1, cost:time 0.1, protocol:neighbors 0.05, protocol:order 0.1, "
        "protocol:safe 0.1, generality:ranks 0.15, generality:tensors 0.1",
        cases=_edge_cases,
        verdicts=_edge_verdicts,
        why="On one stream, a pair's operations run in the order of issue. Both neighbors issued their send first, so each receive "
        "was queued behind a send that waited for the other's receive. One batch has no order inside; alternatively, even ranks send "
        "while odd ranks receive. With two ranks, both messages come from the same peer, and only order or a tag distinguishes them.",
        pytorch="`batch_isend_irecv` becomes `ncclGroupStart … ncclGroupEnd`; Megatron-LM's pipeline uses it, or even ranks first.",
    ),
}
