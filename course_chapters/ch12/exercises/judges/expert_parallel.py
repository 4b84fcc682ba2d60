import random
from collections.abc import Sequence

from course_chapters.ch12.exercises.judges.layer import Given, Layer, choose, draw, layer_faults
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Verdict, Worked, Wrong, hidden, judged, shown
from course_grader.judging.tensors import coin_of
from course_grader.judging.traffic import Meter, bytes_fault

right = Worked("expert-parallel")


def owner(placement: str, expert: int, ranks: int, each: int) -> tuple[int, int]:
    """The rank of an expert, and its place on that rank."""
    return divmod(expert, each) if placement == "blocks" else (expert % ranks, expert // ranks)


def _parallel_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, placement = coin_of(rng), params["placement"]

    def data(
        tokens: Sequence[int], each: int, k: int, only: Sequence[tuple[int, int]] = (), width: int = 4
    ) -> tuple[Given, ...]:
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


def parallel_faults(case: Case, results: Sequence[Layer]) -> dict[str, Fault | None]:
    """What is wrong with outputs, gradients and calls, on the first rank that has such a fault."""
    found: dict[str, Fault | None] = {"output": None}
    for rank, (got, want) in enumerate(zip(results, right.value(case), strict=True)):
        for part, fault in layer_faults(got, want, ordered=False).items():
            if fault and not found.get(part):
                lead = f"rank {rank}: "
                found[part] = Wrong(fault[0], lead + fault[1], lead, (part,))
    return found


def least_bytes(placement: str, case: Case) -> list[int]:
    """Bytes that each rank sends, forward and backward, if a token crosses once to each rank and its results are added
    up there.

    No answer can do with less.
    """
    given = case.per_rank or ()
    ranks, each, size = len(given), len(given[0][3]), given[0][0].shape[1] * 4
    table = [[0] * ranks for _ in given]
    for rank, (_, ids, *_rest) in enumerate(given):
        for token in ids.tolist():
            for peer in {owner(placement, expert, ranks, each)[0] for expert in token} - {rank}:
                table[rank][peer] += 1
    return [2 * size * sum(table[rank][peer] + table[peer][rank] for peer in range(ranks)) for rank in range(ranks)]


def _bytes_fault(placement: str, case: Case, meter: Meter) -> Fault | None:
    """More than the copies out and back, forward and backward, and a count for every expert elsewhere."""
    most, needs = right.outcome(case).meter["bytes_sent"], "its copies and counts, forward and backward, are"
    return bytes_fault(meter, most, needs, least_bytes(placement, case))


def _parallel_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    faults = parallel_faults(case, outcome.value)
    own, graph, calls = faults["output"], faults.get("gradients"), faults.get("calls")
    cost = _bytes_fault(params["placement"], case, outcome.meter)
    if case.part == "output":
        return judged(case, own, ("values", "gradients", graph), ("cost", "bytes", cost or calls), named=True)
    found = {"gradients": own or graph, "bytes": own or cost or calls}
    return judged(case, found.get(case.part, own or graph or calls or cost), named=True)


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
    why="""Counts travel first, because a rank cannot receive rows without knowing how many. Then copies go out and
results come back along the same routes. A rank whose experts got nothing still holds a piece of the graph, an empty
one: without it, the others wait in the backward pass.""",
    pytorch="torchtitan's `ExpertParallel` does the same with `all_to_all_single_autograd`; DeepEP replaces both "
    "exchanges by its own kernels.",
)

ANSWERS = r'''# %% right: worked
placement = params("expert-parallel").placement  # leave as is: "blocks" or "round-robin"


def expert_parallel(comm, x, ids, weights, experts, exchange) -> torch.Tensor:
    """(tokens, width): the layer's output for this rank's tokens; each rank holds len(experts) experts."""
    n, k, ranks, flat = len(experts), ids.shape[1], comm.size, ids.flatten()
    slot = (flat % ranks) * n + flat // ranks if placement == "round-robin" else flat  # rank · n + place on the rank
    order = slot.argsort(stable=True)
    counts = torch.bincount(slot, minlength=ranks * n)
    arriving = torch.empty_like(counts)
    comm.all_to_all_single(arriving, counts)
    send, receive = counts.view(ranks, n).sum(1).tolist(), arriving.view(ranks, n).sum(1).tolist()
    rows = exchange(x[order // k], send, receive)  # sorted by source, and by expert within a source
    sort = torch.arange(n).repeat(ranks).repeat_interleave(arriving).argsort(stable=True)
    parts = rows[sort].split(arriving.view(ranks, n).sum(0).tolist())
    made = torch.cat([expert(part) if len(part) else part for expert, part in zip(experts, parts, strict=True)])
    back = exchange(made[sort.argsort()], receive, send)
    return x.new_zeros(x.shape).index_add(0, order // k, back * weights.flatten()[order, None])
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
# %% wrong: arriving rows cut as they come => values
# > the arriving rows are sorted by source; they must be sorted by expert before each expert gets its own.
# ~ sort = torch.arange(n).repeat(ranks).repeat_interleave(arriving).argsort(stable=True)
# ~~ ==> sort = torch.arange(len(rows))
# %% wrong: leaves the graph => generality
# > a rank whose experts got no rows returns fresh zeros, so it takes no part in the backward exchange, and the others
# > wait.
# -     made = torch.cat([expert(part) if len(part) else part for expert, part in zip(experts, parts, strict=True)])
# +     filled = [expert(part) for expert, part in zip(experts, parts) if len(part)]
# +     made = torch.cat(filled) if filled else torch.zeros(0, x.shape[1])
# %% wrong: stays away => generality
# > a rank without rows to send and receive skips the exchanges, and the others wait for it.
# ~ (x[order // k], send, receive) ==> (x[order // k], send, receive) if sum(send) + sum(receive) else x[order // k]
# ~ (made[sort.argsort()], receive, send) ==> (made[sort.argsort()], receive, send) if sum(send) + sum(receive) else
# ~~ made
# %% wrong: unsorted arrivals => values
# > what arrives is split as if it were sorted by expert; it is sorted by source, and by expert within each source.
# ~ rows[sort].split ==> rows.split
# %% wrong: sent back sorted => values
# > the results go back sorted by expert; a source expects them in the order in which its rows arrived.
# ~ made[sort.argsort()], ==> made,
# %% wrong: still sorted => values
# > the results are in the order in which the copies were sent; each belongs to the row of its token.
# ~ x.new_zeros(x.shape).index_add(0, order // k, back * weights.flatten()[order, None])
# ~~ ==> (back.view(-1, k, x.shape[1]) * weights[..., None]).sum(1)
# %% wrong: still sorted, weights too => values still-sorted
# ~ x.new_zeros(x.shape).index_add(0, order // k, back * weights.flatten()[order, None])
# ~~ ==> (back * weights.flatten()[order, None]).view(-1, k, x.shape[1]).sum(1)
# %% wrong: weights of other copies => values
# > the results come back sorted, and are multiplied by the weights in the order of the tokens.
# ~ weights.flatten()[order, None] ==> weights.flatten()[:, None]
# %% wrong: overwritten => values
# > a token's results overwrite each other, and only the last one is left; add them up.
# ~ index_add ==> index_copy
# %% wrong: unweighted => values
# > the weights are missing.
# ~ back * weights.flatten()[order, None] ==> back
# %% wrong: other placement => values other-placement unless placement=round-robin
# > the experts are taken to be placed round-robin; each rank holds a block of consecutive numbers.
# ~ params("expert-parallel").placement ==> "round-robin"
# %% wrong: everything is gathered => cost too-many-bytes
# -     rows = exchange(x[order // k], send, receive)  # sorted by source, and by expert within a source
# +     sizes = torch.zeros(ranks, dtype=torch.int64)
# +     comm.all_gather_into_tensor(sizes, torch.tensor([len(x)]))
# +     tokens = torch.zeros(sum(receive), dtype=torch.int64)
# +     comm.all_to_all_single(tokens, order // k, receive, send)
# +     starts = (sizes.cumsum(0) - sizes).repeat_interleave(torch.tensor(receive))
# +     rows = exchange(x.repeat(ranks, 1), [len(x)] * ranks, sizes.tolist())[starts + tokens]
# %% wrong: an expert for every source => cost called-often
# ~ rows[sort].split(arriving.view(ranks, n).sum(0).tolist()) ==> rows.split(arriving.tolist())
# ~ zip(experts, parts, strict=True) ==> zip(experts * ranks, parts)
# ~ made[sort.argsort()] ==> made
# %% wrong: detached experts => values
# > the experts' results are detached, so nothing flows back into their weights.
# ~ expert(part) if len(part) ==> expert(part).detach() + 0 * part if len(part)
# %% wrong: the same number of rows for every rank => values raised
# ~ send, receive = counts.view(ranks, n).sum(1).tolist(), arriving.view ==> send = receive = counts.view
# %% wrong: nothing moves on one rank => generality other-numbers
#       n, k, ranks, flat = len(experts), ids.shape[1], comm.size, ids.flatten()
# +     if ranks == 1:
# +         return x
# %% wrong: weight zero stays home => generality
# > copies of weight 0 are not sent. Their weights have a gradient all the same.
# -     counts = torch.bincount(slot, minlength=ranks * n)
# +     order = order[weights.flatten()[order] != 0]
# +     counts = torch.bincount(slot[order], minlength=ranks * n)
# %% wrong: a width of four => generality ~
# ~ x.new_zeros(x.shape) ==> torch.zeros(len(x), 4)
# %% wrong: counts in eight bits => generality ~
# ~ minlength=ranks * n) ==> minlength=ranks * n).to(torch.int8)
# ~ repeat_interleave(arriving) ==> repeat_interleave(arriving.long())
# %% half: an idle rank does not exchange => 9.6  from: stays away
# %% half: a rank without rows leaves the graph => 9.6  from: leaves the graph
'''
