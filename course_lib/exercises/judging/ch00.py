"""Chapter 00's judge: whose tensor came back, what moved and between whom, in what order, and for how many ranks."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from course_lib import compute, facts, memory
from course_lib.cluster.kernel import Adversary
from course_lib.exercises.ch00 import PROPERTIES
from course_lib.exercises.judging import DrillKey, Judging, Mistake, Params, describe
from course_lib.exercises.numbers.ch00 import ROUTES
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import DAY, GB

STRICT = Adversary(depth=0, order="stream")
# How unkind a machine may be within what the semantics allow: buffers or none, bytes that move early or late.
ADVERSARIES = tuple(Adversary(depth=depth, late=late) for depth in (0, 1, math.inf) for late in (False, True))[1:]

Fault = tuple[str, str]  # a mistake's name, or "", and what to say


def _coin(rng: random.Random) -> torch.Generator:
    return torch.Generator().manual_seed(rng.randrange(2**31))


def _nbytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _shape_text(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} in shape {tuple(tensor.shape)}"


def _same(got: Any, want: Tensor) -> bool:
    return (isinstance(got, Tensor) and got.dtype == want.dtype and got.shape == want.shape
            and torch.equal(got, want))  # fmt: skip


def _not_like(got: Any, want: Tensor, rank: int) -> Fault | None:
    """What is wrong with the kind, dtype or shape of a rank's result."""
    if got is None:
        return "returned-none", f"Rank {rank} returned None: is a `return` missing on its path?"
    if not isinstance(got, Tensor):
        return "not-a-tensor", f"Rank {rank} returned {describe(got)}; return the tensor."
    if got.dtype != want.dtype or got.shape != want.shape:
        return "another-kind", (f"Rank {rank} returned {_shape_text(got)}, where {_shape_text(want)} was to come. "
                                "Receive into a tensor of the same shape and dtype.")  # fmt: skip
    return None


# --- two ranks wait ---------------------------------------------------------------------------


def partner_of(pairing: str, rank: int, ranks: int) -> int:
    """The rank that `rank` is paired with."""
    if pairing == "mirrored":
        return ranks - 1 - rank
    return (rank + ranks // 2) % ranks if pairing == "halves" else rank ^ 1


def _kinds(coin: torch.Generator) -> Mapping[str, Callable[[], Tensor]]:
    """Tensors that a repair for six floats may not expect."""
    def whole(*shape: int) -> Tensor:
        return torch.randint(-(2**40), 2**40, shape, generator=coin)

    return {
        "whole numbers of 64 bits": lambda: whole(5),
        "a transposed matrix": lambda: torch.randn(3, 4, generator=coin).T,
        "every second element of a vector": lambda: torch.randn(14, generator=coin)[::2],
        "an empty tensor": lambda: torch.randn(0, 3, generator=coin),
        "one number without a dimension": lambda: torch.randn((), generator=coin),
        "bfloat16": lambda: torch.randn(4, 2, generator=coin).to(torch.bfloat16),
        "true and false": lambda: torch.rand(9, generator=coin) < 0.5,
    }


def _exchange_cases(params: Params, rng: random.Random) -> list[Case]:
    coin = _coin(rng)

    def ranks_with(count: int) -> tuple[tuple[Tensor], ...]:
        return tuple((torch.randn(params["numbers"], generator=coin),) for _ in range(count))

    plain = [
        Case(name="two ranks", ranks=2, per_rank=ranks_with(2), part="exchange"),
        Case(name="four ranks", ranks=4, per_rank=ranks_with(4), kind="generality", part="pairs"),
        Case(name="two ranks, other data", ranks=2, per_rank=ranks_with(2), part="exchange", visible=False),
    ]
    plain += [Case(name=f"{n} ranks", ranks=n, per_rank=ranks_with(n), kind="generality", part="pairs", visible=False)
              for n in (6, 10)]  # fmt: skip
    plain += [Case(name=name, ranks=2, per_rank=((make(),), (make(),)), kind="generality", part="tensors", visible=False)
              for name, make in _kinds(coin).items()]  # fmt: skip
    unkind = [Case(name=f"two ranks, {adversary}", ranks=2, per_rank=ranks_with(2), kind="protocol", part="safe",
                   visible=False, adversary=adversary) for adversary in ADVERSARIES]  # fmt: skip
    return [*plain, *unkind, Case(name="two ranks, each pair's operations in the order of issue, as on NCCL", ranks=2,
                                  per_rank=ranks_with(2), kind="protocol", part="order", visible=False, adversary=STRICT)]


def _exchange_fault(params: Params, case: Case, results: Sequence[Any]) -> Fault | None:
    """The first rank whose tensor is not its partner's, and what it is instead."""
    given = [one for (one,) in case.per_rank]
    for rank, got in enumerate(results):
        partner = partner_of(params["pairing"], rank, len(given))
        want = given[partner]
        if _same(got, want):
            continue
        if fault := _not_like(got, want, rank):
            return fault
        if case.adversary is not None:
            return "reads-early", (f"With {case.adversary}, rank {rank} held something else than rank {partner} had sent. Before "
                                   "`wait()` returns, a tensor under way may be neither read nor written.")  # fmt: skip
        if _same(got, given[rank]):
            return "own-tensor", (f"Rank {rank} returned what it was given, not rank {partner}'s tensor. Receive into a tensor "
                                  "of its own, never into one that is still under way, and return it.")  # fmt: skip
        if params["pairing"] != "neighbours" and _same(got, given[rank ^ 1]):
            return "public-form", (f"This solves the public form of the exercise: rank {rank} has rank {rank ^ 1}'s tensor. "
                                   f"In yours the pairs are {params['pairs']}.")  # fmt: skip
        for other, theirs in enumerate(given):
            if other != rank and _same(got, theirs):
                return "wrong-partner", (f"Rank {rank} returned rank {other}'s tensor; with {len(given)} ranks its partner is "
                                         f"rank {partner}. The pairs are {params['pairs']}.")  # fmt: skip
        if want.numel() and torch.allclose(got.float(), want.float(), rtol=1e-2, atol=1e-5):
            return "rounded", (f"Rank {rank}'s result is close to rank {partner}'s tensor but not equal to it: it was added to "
                               "something, or its dtype was changed, on the way. What is sent must arrive bit for bit.")  # fmt: skip
        return "", (f"Rank {rank} should hold rank {partner}'s tensor and holds other numbers. Was anything received into the "
                    "tensor that is returned, before it is returned?")  # fmt: skip
    return None


def _exchange_cost(case: Case, meter: Mapping[str, Any]) -> Fault | None:
    """The first rank that sent more than its tensor, or received less than its partner's."""
    for rank, (mine,) in enumerate(case.per_rank):
        size, sent, received = _nbytes(mine), meter["bytes_sent"][rank], meter["bytes_received"][rank]
        if sent > size:
            times = sent / size if size else math.inf
            told = sorted({dst for src, dst, nbytes, _ in meter["pairs"] if src == rank and nbytes})
            if len(told) > 1:
                return "told-everyone", (f"Rank {rank} sent to ranks {', '.join(map(str, told))}: {times:.3g} times its tensor. "
                                         "One rank asked for it; the bytes to the others are waste.")  # fmt: skip
            return "sent-twice", (f"Rank {rank} sent {sent:,} bytes: {times:.3g} times its tensor of {size:,}. Each byte needs to "
                                  "cross once.")  # fmt: skip
        if received < size:
            return "too-few-bytes", (f"Rank {rank} received {received:,} bytes and returned a tensor of {size:,}. What a rank has "
                                     "not received it cannot know.")  # fmt: skip
    return None


def _exchange_partners(params: Params, case: Case, meter: Mapping[str, Any]) -> Fault | None:
    for src, dst, _, messages in meter["pairs"]:
        partner = partner_of(params["pairing"], src, case.ranks or 0)
        if messages and dst != partner:
            return "spoke-to-others", (f"Rank {src} sent a message to rank {dst}, though its partner is rank {partner}. A third rank "
                                       "that must answer is one more that can be late.")  # fmt: skip
    return None


def _verdict(kind: Any, part: str, case: Case, fault: Fault | None) -> Verdict:
    base = Verdict(kind=kind, part=part, ok=fault is None, case=case.name)
    return base if fault is None else replace(base, mistake=fault[0], message=fault[1])


def _exchange_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    verdicts = [_verdict(case.kind, case.part, case, _exchange_fault(params, case, outcome.value))]
    if case.adversary is None:
        verdicts.append(_verdict("cost", "bytes", case, _exchange_cost(case, outcome.meter)))
        verdicts.append(_verdict("protocol", "partner", case, _exchange_partners(params, case, outcome.meter)))
    return verdicts


# --- a token round the ring ---------------------------------------------------------------------


def _stamps(ranks: int, coin: torch.Generator, dtype: torch.dtype = torch.int64) -> tuple[tuple[Tensor], ...]:
    """Each rank's own stamp in its own slot."""
    secret = torch.randint(1, 10**6, (ranks,), generator=coin).to(dtype)
    return tuple((torch.where(torch.arange(ranks) == rank, secret, torch.zeros_like(secret)),) for rank in range(ranks))


def _token_cases(params: Params, rng: random.Random) -> list[Case]:
    coin = _coin(rng)
    n = params["ranks"]
    cases = [
        Case(name=f"{n} ranks", ranks=n, per_rank=_stamps(n, coin), part="token"),
        Case(name=f"{n} ranks, other stamps", ranks=n, per_rank=_stamps(n, coin), part="token", visible=False),
        Case(name="two ranks in 32 bits", ranks=2, per_rank=_stamps(2, coin, torch.int32), kind="generality", part="sizes",
             visible=False),
    ]  # fmt: skip
    cases += [Case(name="one rank alone" if size == 1 else f"{size} ranks", ranks=size, per_rank=_stamps(size, coin),
                   kind="generality", part="sizes", visible=False) for size in (1, 3, 8, 13)]  # fmt: skip
    return cases + [Case(name=f"{n} ranks, {adversary}", ranks=n, per_rank=_stamps(n, coin), kind="protocol", part="safe",
                         visible=False, adversary=adversary) for adversary in ADVERSARIES]  # fmt: skip


def _visited(rank: int, ranks: int, step: int) -> list[int]:
    """The ranks whose stamps a token bears when it leaves `rank`'s hands (rank 0's: when it is home)."""
    hops = ranks - 1 if rank == 0 else (rank * step) % ranks
    return [(hop * step) % ranks for hop in range(hops + 1)]


def _token(given: Sequence[Tensor], rank: int, step: int) -> Tensor:
    return torch.stack([given[each] for each in _visited(rank, len(given), step)]).sum(0).to(given[0].dtype)


def _token_fault(params: Params, case: Case, results: Sequence[Any]) -> Fault | None:
    """The first rank, in the order of the route, whose token is not what it should be, and how."""
    given = [one for (one,) in case.per_rank]
    ranks, step = len(given), params["direction"]
    if ranks > 2 and all(_same(got, _token(given, rank, -step)) for rank, got in enumerate(results)):
        name = "wrong-direction" if step == 1 else "public-form"
        lead = "" if step == 1 else "This solves the public form of the exercise. "
        return name, f"{lead}The token went round, but the other way: it shall travel {params['route']}."
    for rank in [*_visited(0, ranks, step)[1:], 0]:
        want, got = _token(given, rank, step), results[rank]
        if _same(got, want):
            continue
        if fault := _not_like(got, want, rank):
            return fault
        return _token_slip(case, given, rank, got, _visited(rank, ranks, step))
    return None


def _token_slip(case: Case, given: Sequence[Tensor], rank: int, got: Tensor, visited: list[int]) -> Fault:
    """What is wrong with one rank's token: which stamps it has too many, too few or twice."""
    if case.adversary is not None:
        return "reads-early", (f"With {case.adversary}, rank {rank}'s token is not the one that was sent. Between `isend` or `irecv` "
                               "and its `wait()`, leave the tensor alone.")  # fmt: skip
    stamp = [int(one[slot]) for slot, one in enumerate(given)]
    held = [int(each) for each in got]
    if rank == 0 and held == [int(each) for each in given[0]] and len(given) > 1:
        return "never-home", "Rank 0 returned the token as it sent it off. It has to come home: who sends to rank 0, and when?"
    if twice := [r for r in visited if held[r] == 2 * stamp[r]]:
        return "stamped-twice", f"Rank {rank}'s token bears rank {twice[0]}'s stamp twice. Each rank adds its stamp once."
    if early := [r for r in range(len(given)) if r not in visited and held[r] == stamp[r]]:
        return "knows-too-much", (f"Rank {rank}'s token bears the stamp of rank {early[0]}, which the token has not visited yet. Return "
                                  "it as it left the rank's hands.")  # fmt: skip
    if held[rank] != stamp[rank]:
        where = [slot for slot in range(len(given)) if slot != rank and held[slot] == stamp[rank]]
        note = f"; it is in slot {where[0]}" if where else ""
        return "not-stamped", f"Rank {rank}'s own stamp is missing from slot {rank} of the token it returned{note}."
    if missing := [r for r in visited if held[r] != stamp[r]]:
        return "lost-stamp", (f"Rank {rank}'s token lacks rank {missing[0]}'s stamp, though it passed there before. Add to the token "
                              "that came, and pass that one on.")  # fmt: skip
    return "", f"Rank {rank}'s token bears marks that are nobody's stamp."


def _token_cost(params: Params, case: Case, meter: Mapping[str, Any]) -> Fault | None:
    given = [one for (one,) in case.per_rank]
    ranks, size, item = len(given), _nbytes(given[0]), given[0].element_size()
    most = size if ranks > 1 else 0
    for rank in range(ranks):
        sent, received, messages = (meter[name][rank] for name in ("bytes_sent", "bytes_received", "messages_sent"))
        if sent > most or messages > bool(most):
            told = len({dst for src, dst, _, count in meter["pairs"] if src == rank and count})
            if told > 1:
                return "told-everyone", (f"Rank {rank} sent to {told} ranks. The token is one thing in one place: each rank sends it "
                                         "on once.")  # fmt: skip
            return "sent-again", (f"Rank {rank} sent {messages} messages, {sent:,} bytes; the token of {most:,} bytes leaves each rank "
                                  "once.")  # fmt: skip
        known = len(_visited(rank, ranks, params["direction"])) - 1
        if received < known * item:
            return "too-few-bytes", f"Rank {rank} bears {known} stamps of others and received {received:,} bytes: too few to know them."
    return None


def _token_route(params: Params, case: Case, meter: Mapping[str, Any]) -> Fault | None:
    for src, dst, _, messages in meter["pairs"]:
        after = (src + params["direction"]) % (case.ranks or 1)
        if messages and dst != after:
            return "not-a-neighbour", f"Rank {src} sent to rank {dst}; on the route {params['route']} it speaks to rank {after} only."
    return None


def _token_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    verdicts = [_verdict(case.kind, case.part, case, _token_fault(params, case, outcome.value))]
    if case.adversary is None:
        verdicts.append(_verdict("cost", "bytes", case, _token_cost(params, case, outcome.meter)))
        verdicts.append(_verdict("protocol", "route", case, _token_route(params, case, outcome.meter)))
    return verdicts


# --- match the cuts -----------------------------------------------------------------------------

CUTS: Mapping[str, tuple[str, str, str]] = {  # cut -> (property, what the ranks say, what to think of when it is wrong)
    "data": (PROPERTIES[2], "all_reduce", "Each rank has the gradient of its own samples. What has to happen to these?"),
    "sharded": (PROPERTIES[1], "all_gather + reduce_scatter",
                "A rank keeps a piece of each layer. What does it need just before the layer runs, and what is left after?"),
    "tensor": (PROPERTIES[4], "all_reduce", "Each rank multiplied a slice. When the slices are terms of a sum, what is missing?"),
    "pipeline": (PROPERTIES[0], "send_recv", "One rank's output is the next rank's input, and nobody else's."),
    "context": (PROPERTIES[5], "ring", "Every query must meet every key, and no rank has them all at once."),
    "expert": (PROPERTIES[3], "all_to_all", "Every rank has tokens for experts that live on every other rank."),
}  # fmt: skip
TALK = tuple(dict.fromkeys(say for _, say, _ in CUTS.values()))


def letters(params: Params) -> dict[str, str]:
    """The letter under which each cut's property stands in this variant."""
    lines = [line.removeprefix("- **").split("** ", 1) for line in params["options"].splitlines()]
    by_text = {text: letter for letter, text in lines}
    return {cut: by_text[text] for cut, (text, _, _) in CUTS.items()}


def _match_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    got = outcome.value
    if type(got) is not dict:
        name = "returned-none" if got is None else "not-a-dictionary"
        fault = (name, f"Return a dictionary with a row for each cut, not {describe(got)}.")
        return [_verdict("values", cut, case, fault) for cut in CUTS]
    rows = {cut: _row(got.get(cut)) for cut in CUTS}
    used = [row[0] for row in rows.values() if row is not None]
    want = letters(params)
    return [_verdict("values", cut, case, _match_fault(cut, rows[cut], used, want[cut], got)) for cut in CUTS]


def _row(row: Any) -> tuple[str, str] | None:
    """A row in upper and lower case as we compare it, or None where it is not a pair of texts."""
    if type(row) in (tuple, list) and len(row) == 2 and all(type(each) is str for each in row):
        return row[0].strip().upper(), "".join(row[1].lower().split())
    return None


def _match_fault(cut: str, row: tuple[str, str] | None, used: list[str], letter: str, got: Mapping[Any, Any]) -> Fault | None:
    _, say, think = CUTS[cut]
    if row is None:
        given = "is missing" if cut not in got else f"is {describe(got[cut])}"
        return "not-a-pair", f'Row "{cut}" {given}; give a pair such as ("A", "all_reduce").'
    if len(row[0]) != 1 or row[0] not in "ABCDEF":
        return "no-such-letter", f'Row "{cut}": {describe(row[0])} is none of the letters A to F.'
    if row[1] not in {"".join(each.split()) for each in TALK}:
        return "no-such-talk", f'Row "{cut}": {describe(got[cut][1])} is not on the list: {", ".join(TALK)}.'
    if used.count(row[0]) > 1:
        return "letter-twice", f"Letter {row[0]} is used {used.count(row[0])} times; each property belongs to one cut, so none of its rows counts."
    if row[0] != letter:
        return "wrong-property", f'Row "{cut}": that property is true, but it is not what makes this cut possible. What exactly is cut here?'
    if row[1] != "".join(say.split()):
        return "wrong-talk", f'Row "{cut}": the property fits, what the ranks say does not. {think}'
    return None


JUDGINGS: Mapping[str, Judging] = {
    "two-ranks-wait": Judging(
        shares={"values:exchange": 0.3, "cost:bytes": 0.2, "protocol:partner": 0.1, "protocol:safe": 0.15, "protocol:order": 0.05,
                "generality:pairs": 0.1, "generality:tensors": 0.1},
        cases=_exchange_cases,
        verdicts=_exchange_verdicts,
        why="A `send` returns when its receive has been posted. If both partners send first, neither reaches its `recv`: each "
            "waits for the other, a circle of two. It breaks as soon as one of them listens first, and the smaller rank number is "
            "something on which both agree without a word. Starting both halves at once, in one batch, breaks it too; then the "
            "tensor received into must be another one than the tensor under way, and neither is touched before `wait()`.",
        pytorch="`torch.distributed.batch_isend_irecv` starts both halves as one operation; on NCCL it becomes "
                "`ncclGroupStart … ncclGroupEnd`, which is what the thread NVIDIA/nccl #479 recommends.",
    ),
    "token-round-the-ring": Judging(
        shares={"values:token": 0.4, "cost:bytes": 0.2, "protocol:route": 0.1, "protocol:safe": 0.1, "generality:sizes": 0.2},
        cases=_token_cases,
        verdicts=_token_verdicts,
        why="Someone has to begin: if every rank received first, nobody would ever send. Rank 0 breaks the symmetry. After that the "
            "data itself keeps the order, since a rank cannot pass on what it has not received. Modulo N closes the ring for any N "
            "and either direction, and one rank alone has nobody to speak to.",
        pytorch="The ring all-reduce of NCCL is this walk with every rank starting at once, each with another piece; chapter 06 builds it.",
    ),
    "match-the-cuts": Judging(
        shares={f"values:{cut}": 1 / len(CUTS) for cut in CUTS},
        cases=lambda params, rng: (Case(name="the six cuts"),),
        verdicts=_match_verdicts,
        why="Data and tensor parallelism both leave terms of one sum on different ranks, so both end in an all-reduce. Sharding changes "
            "where state lives between uses, so a layer is gathered before use and its gradient is scattered to the owners. A pipeline "
            "only hands on what the next stage needs. Attention over a cut sequence lets every block of keys and values pass by every "
            "query. Experts receive whichever tokens chose them: something different for everybody.",
        pytorch="`DistributedDataParallel`, `fully_shard`, `parallelize_module` with DTensor, `torch.distributed.pipelining`, "
                "`context_parallel`; expert parallelism is built on `all_to_all_single`.",
    ),
}  # fmt: skip

def _symptom_slips(params: Params) -> list[Mistake]:
    return [Mistake("three-walls", 1, "Chapter 01 says which wall you meet; this symptom already names it.")]


def _h100() -> float:
    return float(facts.device("H100 SXM").dense_flops)


DRILLS: Mapping[str, DrillKey] = {
    "chapter-for-a-symptom": DrillKey(
        answer=lambda p: ROUTES[p["symptom"]][0],
        how="Chapter {{answer}} first; the failure route on the map of chapter 00 says why.",
        rel=1e-6,
        slips=_symptom_slips,
    ),
    "state-of-a-model": DrillKey(
        answer=lambda p: memory.state_bytes(p["params"], "B") / GB,
        how="2 bytes of weight, 2 of gradient, 4 of master copy and 8 of moments make 16 for each parameter: {{answer}} GB.",
        slips=lambda p: (
            Mistake("weights-only", memory.weights_bytes(p["params"], "bf16") / GB, "These are the weights alone."),
            Mistake("no-master", memory.state_bytes(p["params"], "A") / GB, "The 32-bit master copy is missing."),
        ),
    ),
    "cards-for-a-deadline": DrillKey(
        answer=lambda p: compute.devices_for_deadline(p["params"], p["tokens"], _h100(), p["mfu"], p["days"] * DAY),
        how="6 × parameters × tokens, divided by the dense peak, the MFU and the seconds, and rounded up: {{answer}}.",
        slips=lambda p: (
            Mistake("peak", compute.devices_for_deadline(p["params"], p["tokens"], _h100(), 1.0, p["days"] * DAY),
                    "This is at the full peak; the MFU is missing."),
            Mistake("sparse-peak", compute.devices_for_deadline(
                p["params"], p["tokens"], float(facts.device("H100 SXM").sparse_flops), p["mfu"], p["days"] * DAY),
                "This divides by the peak for sparse matrices; training is dense."),
        ),
    ),
    "tokens-in-a-step": DrillKey(
        answer=lambda p: p["ranks"] * p["micro"] * p["accumulate"] * p["seq"],
        how="Ranks × sequences × accumulated micro-batches × tokens in a sequence: {{answer:int}}.",
        rel=1e-6,
        slips=lambda p: (
            Mistake("per-rank", p["micro"] * p["accumulate"] * p["seq"], "This is one rank's share of the step."),
            Mistake("no-accumulation", p["ranks"] * p["micro"] * p["seq"], "The accumulated micro-batches are missing."),
            Mistake("sequences", p["ranks"] * p["micro"] * p["accumulate"], "These are sequences, not tokens."),
        ),
    ),
    "price-of-a-point": DrillKey(
        answer=lambda p: compute.points_of_mfu_usd(p["usd"], p["mfu"], 1),
        how="Cost goes as 1/MFU: the run then costs MFU/(MFU + 0.01) of what it did, and {{answer:usd}} are saved.",
        slips=lambda p: (
            Mistake("one-per-cent", p["usd"] * 0.01,
                    "One point is not one per cent: at this MFU it is more than that of what you have."),
        ),
    ),
}  # fmt: skip

__all__ = ["ADVERSARIES", "CUTS", "DRILLS", "JUDGINGS", "letters", "partner_of"]
