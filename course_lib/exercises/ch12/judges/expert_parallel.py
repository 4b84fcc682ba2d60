"""Judge of expert-parallel: experts on many ranks."""

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch12.judges.layer import REL, calls_fault, choose, draw, gradients_fault, layer, output_fault
from course_lib.judging import Fault, Judging, Params, judged
from course_lib.judging.cases import hidden, shown
from course_lib.judging.tensors import close, coin_of
from course_lib.judging.traffic import too_few_bytes
from course_lib.records import Case, Outcome, Verdict


def owner(placement: str, expert: int, ranks: int, each: int) -> tuple[int, int]:
    """The rank of an expert, and its place on that rank."""
    return divmod(expert, each) if placement == "blocks" else (expert % ranks, expert // ranks)


def _parallel_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, placement = coin_of(rng), params["placement"]

    def data(tokens: Sequence[int], each: int, k: int, only: Sequence[tuple[int, int]] = (), width: int = 4) -> Any:
        """`only`: the (rank, place) of the experts that tokens go to."""
        ranks = len(tokens)
        numbers = {owner(placement, expert, ranks, each): expert for expert in range(ranks * each)}
        picked = sorted(numbers[one] for one in only or numbers)
        made = [draw(coin, choose(coin, count, k, picked), each, width) for count in tokens]
        return tuple(made)

    zeros = data((7, 3, 5), 2, 3)
    for given in zeros:
        given[2][:, 1] = 0.0
    return [
        shown("two ranks, four experts", "values:output", per_rank=data((params["tokens"], 4), 2, 2)),
        hidden("three ranks, six experts", "values:output", per_rank=data((7, 3, 5), 2, 3)),
        hidden("four ranks, twelve experts", "values:gradients", per_rank=data((4, 6, 3, 5), 3, 2)),
        hidden("two ranks, six experts", "values:gradients", per_rank=data((8, 7), 3, 2)),
        hidden("three ranks, 20 tokens each", "cost:bytes", per_rank=data((20, 20, 20), 2, 2)),
        hidden("four ranks, 16 experts", "cost:bytes", per_rank=data((4, 5, 4, 6), 4, 4)),
        hidden("one rank's experts alone", "generality:routing", per_rank=data((4, 5, 3), 2, 2, [(1, 0), (1, 1)], 3)),
        hidden("one favorite expert", "generality:routing", per_rank=data((3, 140), 2, 1, [(0, 1)])),
        hidden("a rank without tokens", "generality:routing", per_rank=data((4, 0, 5), 2, 2)),
        hidden("a rank with nothing to do", "generality:routing", per_rank=data((4, 0, 3), 1, 2, [(0, 0), (2, 0)])),
        hidden("no tokens at all", "generality:routing", per_rank=data((0, 0), 2, 1)),
        hidden("weights of zero", "generality:routing", per_rank=zeros),
        hidden("one expert a rank", "generality:ranks", per_rank=data((4, 3, 6), 1, 2)),
        hidden("one rank alone", "generality:ranks", per_rank=data((5,), 3, 2)),
    ]


def whole(placement: str, case: Case) -> list[tuple[Any, ...]]:
    """Each rank's layer with all experts, in the order of their numbers."""
    given = case.per_rank or ()
    ranks, each = len(given), len(given[0][3])
    places = [owner(placement, expert, ranks, each) for expert in range(ranks * each)]
    tables = [given[rank][3][place] for rank, place in places]
    return [(rows, ids, weights, tables, slope) for rows, ids, weights, _, slope in given]


def parallel_faults(placement: str, case: Case, results: Sequence[Any]) -> dict[str, Fault | None]:
    """What is wrong with outputs, gradients and calls."""
    layers = whole(placement, case)
    ranks, each = len(layers), len(layers[0][3]) // len(layers)
    solved = [layer("output", one) for one in layers]
    other = "blocks" if placement == "round-robin" else "round-robin"
    moved_places = [layer("output", one)[0] for one in whole(other, case)]
    if any(got["changed"] is not False for got in results):
        return {"output": ("changed", "a given tensor was changed; make new ones.")}
    faults = [
        output_fault("output", one, got["output"], want)
        for one, got, (want, _) in zip(layers, results, solved, strict=True)
    ]
    for rank, fault in enumerate(faults):
        if fault is None:
            continue
        if ranks > 1 and all(
            isinstance(got["output"], Tensor) and close(got["output"].double(), want, REL)
            for got, want in zip(results, moved_places, strict=True)
        ):
            name = "public-form" if placement == "round-robin" else "other-placement"
            return {"output": (name, "the experts are taken to be in other places: blocks and dealing are mixed up.")}
        return {"output": (fault[0], f"rank {rank}: {fault[1]}")}
    graph, calls = None, None
    every = tuple(torch.cat([one[at] for one in layers]) for at in range(3))
    for rank, got in enumerate(results):
        own = [expert for expert in range(ranks * each) if owner(placement, expert, ranks, each)[0] == rank]
        gradients = solved[rank][1]
        right = [gradients[0], gradients[1]]
        for expert in own:
            right += [sum(one[1][2 + 2 * expert + half] for one in solved) for half in (0, 1)]
        if fault := gradients_fault(got["gradients"], right):
            graph = graph or (fault[0], f"rank {rank}: {fault[1]}")
        of_rank = torch.full_like(every[1], -1)
        for place, expert in enumerate(own):
            of_rank[every[1] == expert] = place
        if fault := calls_fault("output", (every[0], of_rank, every[2], None, None), got["calls"], ordered=False):
            calls = calls or (fault[0], f"rank {rank}: {fault[1]}")
    return {"output": None, "gradients": graph, "calls": calls}


def allowed_bytes(placement: str, case: Case) -> list[int]:
    """Bytes that each rank may send: copies out and back, forward and backward, and a count for every expert elsewhere."""
    given = case.per_rank or ()
    ranks, each, size = len(given), len(given[0][3]), given[0][0].shape[1] * 4
    table = [[0] * ranks for _ in given]
    for rank, (_, ids, *_rest) in enumerate(given):
        for expert in ids.flatten().tolist():
            table[rank][owner(placement, expert, ranks, each)[0]] += 1
    return [
        2 * size * sum(table[rank][peer] + table[peer][rank] for peer in range(ranks) if peer != rank)
        + 8 * each * (ranks - 1)
        for rank in range(ranks)
    ]


def least_bytes(placement: str, case: Case) -> list[int]:
    """The same, if a token crosses once to each rank and its results are added up there; no answer can do with less."""
    given = case.per_rank or ()
    ranks, each, size = len(given), len(given[0][3]), given[0][0].shape[1] * 4
    table = [[0] * ranks for _ in given]
    for rank, (_, ids, *_rest) in enumerate(given):
        for token in ids.tolist():
            for peer in {owner(placement, expert, ranks, each)[0] for expert in token} - {rank}:
                table[rank][peer] += 1
    return [2 * size * sum(table[rank][peer] + table[peer][rank] for peer in range(ranks)) for rank in range(ranks)]


def _bytes_fault(placement: str, case: Case, meter: Any) -> Fault | None:
    for rank, (sent, most) in enumerate(zip(meter["bytes_sent"], allowed_bytes(placement, case), strict=True)):
        if sent > most:
            return (
                "too-many-bytes",
                f"rank {rank} sends {sent:,} bytes; its copies and counts are {most:,}, forward and backward.",
            )
    least = least_bytes(placement, case)
    return too_few_bytes(meter, least, least)


def _parallel_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    faults = parallel_faults(params["placement"], case, outcome.value)
    own, graph, calls = faults["output"], faults.get("gradients"), faults.get("calls")
    cost = _bytes_fault(params["placement"], case, outcome.meter)
    if case.kind == "generality":
        return judged(case, own or graph or calls or cost, named=True)
    if case.part == "gradients":
        return judged(case, own or graph, named=True)
    if case.part == "bytes":
        return judged(case, own or cost or calls, named=True)
    return judged(case, own, ("values", "gradients", graph), ("cost", "bytes", cost or calls), named=True)


JUDGING = Judging(
    shares={
        "values:output": 0.3,
        "values:gradients": 0.2,
        "cost:bytes": 0.2,
        "generality:routing": 0.2,
        "generality:ranks": 0.1,
    },
    cases=_parallel_cases,
    verdicts=_parallel_verdicts,
    why="""Counts travel first, because a rank cannot receive rows without knowing how many. Then copies go out and results come back along the same
routes. A rank whose experts got nothing still holds a piece of the graph, an empty one: without it, the others wait in the backward pass.""",
    pytorch="torchtitan's `ExpertParallel` does the same with `all_to_all_single_autograd`; DeepEP replaces both exchanges by its own kernels.",
)

ANSWERS = r"""import torch


# %% right: counts, then two exchanges
from course_lib.notebook import params


def expert_parallel(comm, x, ids, weights, experts, exchange):
    n, k, ranks, flat = len(experts), ids.shape[1], comm.size, ids.flatten()
    dealt = params("expert-parallel").placement == "round-robin"
    slot = (flat % ranks) * n + flat // ranks if dealt else flat
    order = slot.argsort()
    counts = torch.bincount(slot, minlength=ranks * n)
    arriving = torch.empty_like(counts)
    comm.all_to_all_single(arriving, counts)
    send, receive = counts.view(ranks, n).sum(1).tolist(), arriving.view(ranks, n).sum(1).tolist()
    rows = exchange(x[order // k], send, receive)
    which = torch.arange(n).repeat(ranks).repeat_interleave(arriving)
    sort = which.argsort()
    parts = rows[sort].split(arriving.view(ranks, n).sum(0).tolist())
    made = torch.cat([expert(part) for expert, part in zip(experts, parts)])
    back = exchange(made[sort.argsort()], receive, send)
    return torch.zeros_like(x).index_add(0, order // k, back * weights.flatten()[order, None])


# %% right: with lists
def expert_parallel(comm, x, ids, weights, experts, exchange):
    mine = len(experts)
    copies = [(ids == expert).nonzero() for expert in range(comm.size * mine)]
    counts = torch.tensor([len(each) for each in copies])
    others = torch.zeros_like(counts)
    comm.all_to_all_single(others, counts)
    send, receive = (sizes.view(comm.size, mine).sum(1).tolist() for sizes in (counts, others))
    tokens, places = torch.cat(copies).unbind(1)
    results = list(exchange(x[tokens], send, receive).split(others.tolist()))
    for local, expert in enumerate(experts):
        pieces = results[local::mine]
        rows = torch.cat(pieces)
        if len(rows):
            results[local::mine] = expert(rows).split([len(piece) for piece in pieces])
    back = exchange(torch.cat(results), receive, send)
    return torch.zeros_like(x).index_add(0, tokens, back * weights[tokens, places, None])


# %% wrong: a rank without rows leaves the graph => generality deadlock  from: counts, then two exchanges
# -     made = torch.cat([expert(part) for expert, part in zip(experts, parts)])
# +     filled = [expert(part) for expert, part in zip(experts, parts) if len(part)]
# +     made = torch.cat(filled) if filled else torch.zeros(0, x.shape[1])

# %% wrong: an idle rank does not exchange => generality deadlock  from: counts, then two exchanges
# ~ (x[order // k], send, receive) ==> (x[order // k], send, receive) if sum(send) + sum(receive) else x[order // k]
# ~ (made[sort.argsort()], receive, send) ==> (made[sort.argsort()], receive, send) if sum(send) + sum(receive) else made

# %% wrong: arrivals keep their order by source => values -  from: counts, then two exchanges
# ~ rows[sort].split ==> rows.split

# %% wrong: results go back sorted by expert => values -  from: counts, then two exchanges
# ~ made[sort.argsort()], ==> made,

# %% wrong: results stay sorted => values -  from: counts, then two exchanges
# ~ torch.zeros_like(x).index_add(0, order // k, back * weights.flatten()[order, None] ==> (back.view(-1, k, x.shape[1]) * weights[..., None]).sum(1

# %% wrong: the weights are missing => values unweighted  from: counts, then two exchanges
# ~ (0, order // k, back * weights.flatten()[order, None]) ==> (0, order // k, back)

# %% wrong: the other placement => values other-placement unless placement=round-robin  from: with lists
# ~ ids == expert ==> ids == expert % mine * comm.size + expert // mine

# %% wrong: everything is gathered => cost too-many-bytes  from: counts, then two exchanges
# -     rows = exchange(x[order // k], send, receive)
# +     sizes = torch.zeros(ranks, dtype=torch.int64)
# +     comm.all_gather_into_tensor(sizes, torch.tensor([len(x)]))
# +     tokens = torch.zeros(sum(receive), dtype=torch.int64)
# +     comm.all_to_all_single(tokens, order // k, receive, send)
# +     starts = (sizes.cumsum(0) - sizes).repeat_interleave(torch.tensor(receive))
# +     rows = exchange(x.repeat(ranks, 1), [len(x)] * ranks, sizes.tolist())[starts + tokens]

# %% wrong: an expert for every source => cost called-often  from: with lists
# ~ expert(rows).split([len(piece) for piece in pieces]) ==> [expert(piece) for piece in pieces]

# %% wrong: the experts learn nothing => values other-gradient  from: counts, then two exchanges
# ~ expert(part) ==> expert(part).detach() + 0 * part

# %% wrong: the same number of rows for every rank => values raised  from: counts, then two exchanges
# ~ send, receive = counts.view(ranks, n).sum(1).tolist(), arriving.view ==> send = receive = counts.view

# %% wrong: nothing moves on one rank => generality -  from: counts, then two exchanges
#       n, k, ranks, flat = len(experts), ids.shape[1], comm.size, ids.flatten()
# +     if ranks == 1:
# +         return x

# %% wrong: copies of weight zero stay at home => generality -  from: counts, then two exchanges
# -     counts = torch.bincount(slot, minlength=ranks * n)
# +     order = order[weights.flatten()[order] != 0]
# +     counts = torch.bincount(slot[order], minlength=ranks * n)

# %% wrong: a width of four => generality ~  from: counts, then two exchanges
# ~ torch.zeros_like(x) ==> torch.zeros(len(x), 4)

# %% wrong: counts in eight bits => generality ~  from: counts, then two exchanges
# ~ minlength=ranks * n) ==> minlength=ranks * n).to(torch.int8)
# ~ repeat_interleave(arriving) ==> repeat_interleave(arriving.long())

# %% half: an idle rank does not exchange => 9.6  from: an idle rank does not exchange

# %% half: a rank without rows leaves the graph => 9.6  from: a rank without rows leaves the graph
"""
