import math
from collections.abc import Sequence

import torch
from torch import Tensor

from course_chapters.ch08.exercises.probes import WEIGHED
from course_chapters.ch08.exercises.work import STATE, Weights
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Weighed, Worked, Wrong, oracle
from course_grader.judging.cases import hidden, shown
from course_grader.judging.gradients import alike, gradients_fault
from course_grader.judging.ranks import LATE, STREAM_LATE, on_ranks
from course_grader.judging.tensors import coin_of
from course_grader.judging.traffic import Meter

right = Worked("own-and-tell")
SLACK = 1024  # bytes of state for padding


def _shapes(layers: int, width: int) -> list[tuple[int, ...]]:
    """Large matrices and small vectors in turn, as in a transformer."""
    shapes: list[tuple[int, ...]] = [(3 * width, width)]
    for layer in range(layers):
        shapes += [(width,), (width + layer, width), (width + layer,), (width, width + layer)]
    return [*shapes, (width,)]


def _cases(params: Params, rng: Random) -> list[Case]:
    coin, layers, width = coin_of(rng), params["layers"], params["width"]

    def data(shapes: Sequence[Sequence[int]], optimizer: str = "adamw", **more: Sequence[int]) -> tuple[object, ...]:
        """The description of the weights, and the gradients of two steps."""
        sizes = [list(shape) for shape in shapes]
        spec = {"seed": rng.randrange(2**31), "shapes": sizes, "optimizer": optimizer, **more}
        frozen = more.get("frozen", ())

        def gradients() -> list[Tensor | None]:
            return [None if at in frozen else torch.randn(size, generator=coin) for at, size in enumerate(sizes)]

        return spec, [gradients(), gradients()]

    stack = _shapes(layers, width)
    while sum(map(math.prod, stack)) % 4 == 0:  # the first case has four ranks: a flat row must need padding there
        stack[-1] = (stack[-1][0] + 1,)
    other = _shapes(layers - 1, width + 1)
    large = [*[(60, 40)] * 8, *[(4,)] * 8]
    odd: list[tuple[int, ...]] = [(4, 3), (), (2, 2, 2)]
    m = "momentum"
    return [
        shown("four ranks, AdamW", "values:weights", *data(stack), ranks=4),
        hidden("three ranks, other weights", "values:weights", *data(other, m), ranks=3),
        hidden("two ranks, large and small in turn", "cost:share", *data([(40, 12), (3,)] * 5), ranks=2),
        hidden("four ranks, large ones first", "cost:share", *data(large), ranks=4),
        hidden("one rank alone", "generality:ranks", *data(stack[:4]), ranks=1),
        hidden("nine ranks, three tensors", "generality:ranks", *data([(5, 7), (3,), (9, 2)], m), ranks=9),
        hidden("the first and the last are one", "generality:lists", *data(stack[:7], tied=[0]), ranks=3),
        hidden("some are frozen", "generality:lists", *data(stack[:9], frozen=[1, 3, 6], tied=[3]), ranks=3),
        hidden("a number without a dimension", "generality:lists", *data(odd, m), ranks=2),
        hidden("three ranks, momentum", "protocol:in-flight", *data(stack[:6], m), ranks=3, adversary=LATE),
        hidden("three ranks, strict streams", "protocol:in-flight", *data(stack[:6]), ranks=3, adversary=STREAM_LATE),
    ]


def _weights_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    wants, given = ([row["weights"] for row in rows] for rows in (right.value(case), outcome.value))
    if None in given:
        lead = f"Rank {given.index(None)}: "
        return Wrong("no-step", f"{lead}return an object with a method `step`.", lead, ("weights",))
    fault = gradients_fault(case, given, wants.__getitem__, what="tensor", where=("weights",))
    return fault or (None if case.kind in ("values", "cost") else _silent(case, outcome.meter))


def _volumes(case: Case) -> tuple[list[int], int, int]:
    """The bytes of each tensor that is trained, the ranks and the steps."""
    spec, steps = case.args
    return [tensor.nbytes for tensor in Weights(**spec).tensors if tensor.requires_grad], case.ranks or 1, len(steps)


def _silent(case: Case, meter: Meter) -> Fault | None:
    told = "No byte was sent: every rank steps everything and keeps all of the state."
    return None if case.ranks == 1 or any(meter["bytes_sent"]) else ("nothing-sent", told)


def _bytes_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    sizes, n, count = _volumes(case)
    sent, needed = sum(outcome.meter["bytes_sent"]), (n - 1) * sum(sizes) * count
    if sent <= 1.02 * needed + 4 * n * (n - 1) * len(sizes) * count:  # padding
        return _silent(case, outcome.meter)
    told = f"{sent:,} bytes were sent; sending each new weight to {n - 1} other ranks once takes {needed:,}."
    return "too-many-bytes", told


def _share_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    """A rank that received so little that it must have updated more than its share itself."""
    sizes, n, count = _volumes(case)
    total, most, got = sum(sizes), sum(sizes) / n + max(sizes), min(outcome.meter["bytes_received"]) / count
    if n == 1 or got >= 0.99 * (total - most):
        return _silent(case, outcome.meter)
    own = f"A rank received {got:,.0f} bytes a step, so it stepped {1 - got / total:.0%} itself"
    limit = f"a fair share and the largest tensor are {most / total:.0%}"
    return _silent(case, outcome.meter) or ("unfair-share", f"{own}; {limit}. Balance bytes, not numbers of tensors.")


def _state_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    sizes, n, _ = _volumes(case)
    copies, kept = STATE[case.args[0]["optimizer"]], max(row["kept"] for row in outcome.value)
    most, whole = copies * (sum(sizes) / n + max(sizes)), copies * sum(sizes)
    if kept <= most + SLACK:
        return None
    told = f"A rank's optimizers keep {kept:,} bytes of state, of {whole:,} in all"
    return "state-too-large", f"{told}; a fair share and the largest tensor have {most:,.0f}."


def _weighed(params: Params, rng: Random) -> Weighed:
    """1.1 MB of weights on four ranks, with 24 times as much state: a rank may hold 6 times the weights, 9 with one
    more tensor, but not 24.

    There is also room for weights, gradients and three flat rows, twice.
    """
    coin, ranks, count = coin_of(rng), 4, 8

    def case(name: str, width: int) -> Case:
        spec = {"seed": rng.randrange(2**31), "shapes": [[width, width]] * count, "optimizer": "paces"}
        spec[WEIGHED] = torch.randint(width * width, (32,), generator=coin)
        table = torch.randn(250, generator=coin)
        return hidden(name, "cost:state", spec, [table], ranks=ranks, seconds=30.0)

    def done(outcome: Outcome) -> bool:
        stepped = on_ranks(outcome, right.value(large), alike)
        return stepped and not any(sent(params, large, outcome) for sent in (_bytes_fault, _share_fault))

    width = 184
    large, size = case("four ranks, 1.1 MB of weights with 26 MB of state", width), count * width * width * 4
    most = ranks * (STATE["paces"] * (1 / ranks + 1 / count) + 2 * 5) * size
    return Weighed(case=large, warm=case("four ranks, small weights", 8), most=most, done=done, shares=("cost:state",))


JUDGING = Judging(
    shares="values:weights 0.2, cost:bytes 0.2, cost:share 0.15, cost:state 0.2, generality:ranks 0.1, "
    "generality:lists 0.1, protocol:in-flight 0.05",
    point=("cost:share", "cost:state"),
    measured_by_worker=("cost:state",),
    weighed=_weighed,
    cases=_cases,
    verdicts=oracle(
        _weights_fault, {"cost:bytes": _bytes_fault, "cost:share": _share_fault, "cost:state": _state_fault}
    ),
    why="""After the average every rank has all gradients, so any rank can step any tensor. The one that does needs the
moments; the others need only the result: state falls by N for one broadcast. Balancing bytes, the largest tensor first,
keeps every rank within a tensor of the mean. ZeRO itself saves the broadcast as well: it reduces gradients to their
owners and gathers weights.""",
    pytorch="`torch.distributed.optim.ZeroRedundancyOptimizer` does this, largest first; DeepSpeed and Megatron cut a "
    "flat row instead.",
)

ANSWERS = r'''from course_lib.cluster import P2POp
# %% right: worked
def shard_optimizer(comm, parameters, make):
    """An object whose step() updates this rank's share and receives the rest from its owners."""

    class Sharded:
        def __init__(self):
            load, self.owner = [0] * comm.size, {}
            kept = {id(each): each for each in parameters if each.requires_grad}.values()
            # the largest first, to the rank with the fewest bytes
            for each in sorted(kept, key=lambda one: -one.nbytes):
                self.owner[each] = load.index(min(load))
                load[self.owner[each]] += each.nbytes
            mine = [each for each, rank in self.owner.items() if rank == comm.rank]
            self.inner = make(mine) if mine else None

        def step(self):
            if self.inner:
                self.inner.step()
            for each, rank in self.owner.items():
                comm.broadcast(each.data, src=rank)

    return Sharded()
# %% right: in the order of the list, to whoever has least
# ~ sorted(kept, key=lambda one: -one.nbytes) ==> kept
# -             for each, rank in self.owner.items():
# -                 comm.broadcast(each.data, src=rank)
# +             for work in [comm.broadcast(each.data, rank, async_op=True) for each, rank in self.owner.items()]:
# +                 work.wait()
# %% right: a flat row, cut evenly
def shard_optimizer(comm, parameters, make):
    kept = [p for p in dict.fromkeys(parameters) if p.requires_grad]
    sizes = [p.numel() for p in kept]
    part = -(-sum(sizes) // comm.size)

    def flat(of):
        own = torch.cat([of(p).flatten() for p in kept])[comm.rank * part :][:part]
        return torch.cat([own, own.new_zeros(part - len(own))])

    class Flat:
        mine = torch.nn.Parameter(flat(lambda p: p.data))
        inner = make([mine])

        def step(self):
            self.mine.grad = flat(lambda p: p.grad)
            self.inner.step()
            self.mine.grad = None
            row = torch.empty(part * comm.size)
            comm.all_gather_into_tensor(row, self.mine.detach())
            for p, new in zip(kept, row[: sum(sizes)].split(sizes)):
                p.data.copy_(new.view_as(p))

    return Flat()
# %% right: messages from each owner to each other rank
# -             for each, rank in self.owner.items():
# -                 comm.broadcast(each.data, src=rank)
# +             ops = []
# +             for tag, (each, rank) in enumerate(self.owner.items()):
# +                 if rank == comm.rank:
# +                     ops += [P2POp(comm.isend, each.data, to, tag) for to in range(comm.size) if to != rank]
# +                 else:
# +                     ops.append(P2POp(comm.irecv, each.data, rank, tag))
# +             for work in comm.batch_isend_irecv(ops) if ops else ():
# +                 work.wait()
# %% wrong: the plain optimizer, as it was => cost nothing-sent
# ~ return Sharded() ==> return make([each for each in dict.fromkeys(parameters) if each.requires_grad])
# %% wrong: every rank steps everything, and owners tell it to all => cost state-too-large
# ~ mine = [each for each, rank in self.owner.items() if rank == comm.rank] ==> mine = list(self.owner)
# %% wrong: shared out by number of tensors => cost unfair-share
# ~ sorted(kept, key=lambda one: -one.nbytes) ==> kept
# ~ load.index(min(load)) ==> len(self.owner) % comm.size
# %% wrong: neighbors in the list, equally many each => cost unfair-share
# ~ sorted(kept, key=lambda one: -one.nbytes) ==> kept
#                   load[self.owner[each]] += each.nbytes
# +             many = -(-len(self.owner) // comm.size)
# +             self.owner = {each: place // many for place, each in enumerate(self.owner)}
# %% wrong: nobody is told => values not-told
# > only the rank's own tensors have changed: their owners' new values have not arrived.
# ~ comm.broadcast(each.data, src=rank) ==> pass
# %% wrong: each rank broadcasts its own only => raised
# ~ src=rank ==> src=comm.rank
# %% wrong: zeros elsewhere and an all-reduce => cost all-reduced
# > This sends as much as an all-reduce of every weight, twice what is needed: send new weights alone, once.
# -                 comm.broadcast(each.data, src=rank)
# +                 if rank != comm.rank:
# +                     each.data.zero_()
# +                 comm.all_reduce(each.data)
# %% wrong: copies are stepped, the given tensors stay => values nothing-stepped
# > no tensor has changed: nothing was stepped, or not the given tensors.
# ~ make(mine) if ==> make([torch.nn.Parameter(each.detach().clone()) for each in mine]) if
# %% wrong: an optimizer over an empty list => generality raised
# ~ make(mine) if mine else None ==> make(mine)
# %% wrong: the tied tensor is stepped twice => generality stepped-twice
# > a tensor in the list twice was stepped twice.
#               mine = [each for each, rank in self.owner.items() if rank == comm.rank]
# +             twice = [each for each in mine if sum(each is one for one in parameters) > 1]
# +             self.again = make(twice) if twice else None
#                   self.inner.step()
# +             if self.again:
# +                 self.again.step()
# %% wrong: tied and told twice => cost tied-twice
# > A tensor that is in the list twice is sent twice; once is enough.
# ~ for each, rank in self.owner.items(): ==> for each in [each for each in parameters if each.requires_grad]:
# ~ src=rank ==> src=self.owner[each]
# %% wrong: gradients averaged once more => values other-numbers
#           def step(self):
# +             for each in self.owner:
# +                 each.grad = each.grad.sign() * each.grad.square() / comm.size
# %% wrong: waits for nothing => values ~
#               load, self.owner = [0] * comm.size, {}
# +             self.works = []
#           def step(self):
# +             for work in self.works:
# +                 work.wait()
# +             self.works = []
# ~ comm.broadcast(each.data, src=rank) ==> self.works.append(comm.broadcast(each.data, src=rank, async_op=True))
# %% wrong: nothing is returned => values no-step
# ~ return Sharded() ==> Sharded()
# %% wrong: told before it is stepped => values a-step-behind
# > tensors are a step behind. First step, then send.
# -             if self.inner:
# -                 self.inner.step()
#                   comm.broadcast(each.data, src=rank)
# +             if self.inner:
# +                 self.inner.step()
# %% wrong: an optimizer made anew in every step => values fresh-state
# > each step made a new optimizer. Make it once.
# ~ self.inner = make(mine) if mine else None ==> self.mine = mine
# ~ if self.inner: ==> if self.mine:
# ~ self.inner.step() ==> make(self.mine).step()
# %% wrong: gradients go round again => cost sent-again
# > Gradients are averaged already; do not send them again.
#           def step(self):
# +             for each in self.owner:
# +                 comm.all_reduce(each.grad, op="AVG")
# %% wrong: a flat row without padding, whose last numbers are nobody's => values nobodys  from: a flat row, cut evenly
# > the last numbers have not changed. Do the parts of all ranks cover the whole row if N does not divide it?
# ~ -(-sum(sizes) // comm.size) ==> sum(sizes) // comm.size
# ~ row[: sum(sizes)] ==> torch.cat([row, torch.cat([p.data.flatten() for p in kept])[len(row) :]])
# %% wrong: frozen ones stepped with gradients of zero => generality frozen-touched
# > a frozen tensor was changed.
# ~ for each in parameters if each.requires_grad} ==> for each in parameters}
#           def step(self):
# +             for each in self.owner:
# +                 if each.grad is None:
# +                     each.grad = torch.zeros_like(each)
# %% wrong: frozen ones go round where some are tied => cost frozen-sent
# > Frozen tensors are sent as well, although they do not change.
# ~ if each.requires_grad} ==> if each.requires_grad or len(set(parameters)) < len(parameters)}
'''
