"""Reading the requests of an untrusted worker: each is checked before it reaches the kernel."""

import math
import unicodedata
from typing import Any

import torch

from course_grader.remote_ranks import codec
from course_lib.cluster.collective import OPS, Call
from course_lib.cluster.errors import RankError, Refused
from course_lib.cluster.in_flight import ACTS, MOST, Hazard
from course_lib.cluster.kernel import Kernel
from course_lib.cluster.protocol import ANY, Request
from course_lib.model.accounting import ROLES

_POINT = {"send", "recv", "isend", "irecv"}
_COLLECTIVES = {
    "barrier",
    "new_group",
    "broadcast",
    "reduce",
    "all_reduce",
    "gather",
    "scatter",
    "all_gather",
    "all_gather_into_tensor",
    "reduce_scatter_tensor",
    "all_to_all_single",
}
_LEDGER = {"peak_bytes", "live_bytes", "peak_roles", "roles", "flops"}


def clean(text: str, most: int) -> str:
    """Text without control codes, cut to a length, because it is shown in terminals and pages."""
    kept = "".join(
        c if c == "\n" or unicodedata.category(c) not in ("Cc", "Cf", "Co", "Cs", "Cn") else "\N{REPLACEMENT CHARACTER}"
        for c in text[:most]
    )
    return kept + (" …" if len(text) > most else "")


def need(ok: bool, what: str) -> None:
    """Raise `Refused` if a rule is broken."""
    if not ok:
        raise Refused(f"The worker broke the rules: {what}.")


class RequestReader:
    """Turns frames into requests; raises `Refused` for anything that a correct worker never sends."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.ledgers: dict[int, dict[str, object]] = {}  # the worker's own claims
        self.hazards: dict[int, list[Hazard]] = {}  # these too
        self._lines: dict[str, str] = {}

    def request(self, frame: Any, rank: int) -> Request:
        """The request in a frame that rank `rank` was asked for."""
        need(type(frame) is tuple and len(frame) > 3, "a frame has its parts")
        said = frame
        if frame[2] is None:
            said = frame[0], frame[1], (), (), frame[3:]
        else:
            need(len(frame) == 5, "a frame has five parts")
        who, op, work, reads, body = said
        need(type(who) is int and who == rank, "a rank spoke out of turn")
        need(type(op) is str, "an operation is a word")
        work = self._work(work) if work != () else ()
        if op == "done":
            need(type(body) is tuple and len(body) == 3, "a result comes with its ledger and its hazards")
            if body[1] is not None:
                self.ledgers[rank] = self._ledger(body[1])
            self.hazards[rank] = self._hazards(rank, body[2])
            return Request(rank, op, data=body[0], work=work)
        if op == "raised":
            return Request(rank, op, data=self._raised(rank, body), work=work)
        need(type(body) is tuple, "a request is a tuple")
        if op in ("wait", "test"):
            need(len(body) == 2 and type(body[0]) is int, "wait and test name a call")
            request = Request(rank, op, handle=body[0], line=self._line(body[1]))
        elif op in _POINT:
            request = self._half(rank, op, body)
        elif op == "batch":
            need(0 < len(body) <= 10_000, "a batch has parts")
            parts = [self._part(rank, part) for part in body]
            request = Request(rank, op, line=parts[0].line, more=parts)
        else:
            need(op == "collective" and len(body) == 10, f"there is no operation {op!r:.40}")
            request = self._collective(rank, body)
        request.work, request.reads = work, self._renewals(rank, reads) if reads != () else ()
        return request

    def _work(self, work: Any) -> tuple[tuple[str, str, float], ...]:
        need(type(work) is tuple and len(work) <= 10_000, "work is a tuple")
        for item in work:
            need(type(item) is tuple and len(item) == 3 and type(item[2]) is float, "work is kind, label and seconds")
            need(type(item[0]) is str and type(item[1]) is str and 0 <= item[2] < 1e12, "work has a kind and a length")
        return tuple((clean(kind, 40), clean(label, 80), seconds) for kind, label, seconds in work)

    def _raised(self, rank: int, body: Any) -> RankError:
        need(
            type(body) is tuple and len(body) == 4 and all(type(text) is str for text in body), "an error is four texts"
        )
        kind, text, line, trace = body
        error = RankError(rank, clean(kind, 80), "", clean(line, 300), clean(trace, 8000))
        error.args = (clean(text, 2000),)
        return error

    def _ledger(self, ledger: Any) -> dict[str, object]:
        need(type(ledger) is dict and set(ledger) == _LEDGER, "a ledger has its entries")
        for value in ledger.values():
            entries = list(value.values()) if type(value) is dict else [value]
            need(all(type(n) is int and 0 <= n < 2**62 for n in entries), "a ledger counts")
        for name in ("peak_roles", "roles"):
            need(type(ledger[name]) is dict and set(ledger[name]) <= set(ROLES), "a ledger has roles")
        return ledger

    def _hazards(self, rank: int, hazards: Any) -> list[Hazard]:
        need(type(hazards) is tuple and len(hazards) <= MOST, "hazards are a few")
        for item in hazards:
            need(type(item) is tuple and len(item) == 6, "a hazard has its parts")
            _, act, call, *texts = item
            need(act in ACTS and type(call) is int and 0 < call < 2**31, "a hazard is of a call")
            need(all(type(text) is str for text in texts), "a hazard is in words")
        return [Hazard(rank, act, call, *(clean(text, 300) for text in texts)) for _, act, call, *texts in hazards]

    def _line(self, line: Any) -> str:
        need(type(line) is str, "a line is text")
        text = self._lines.get(line)
        if text is None:
            text = clean(line, 200)
            if len(self._lines) < 1000:
                self._lines[line] = text
        return text

    def _group(self, rank: int, group: Any) -> tuple[int, ...]:
        need(type(group) is int and 0 <= group < len(self.kernel.state.groups), "the group exists")
        need(rank in self.kernel.state.groups[group], "a rank speaks in its own groups")
        return self.kernel.state.groups[group]

    def _part(self, rank: int, part: Any) -> Request:
        need(type(part) is tuple and len(part) > 1 and part[0] in ("isend", "irecv"), "a batch is of isend and irecv")
        return self._half(rank, part[0], part[1:])

    def _half(self, rank: int, op: str, body: tuple[Any, ...]) -> Request:
        sends = op in ("send", "isend")
        need(len(body) == (5 if sends else 6), "a message has its parts")
        peer, tag, group, line = body[:4]
        members = self._group(rank, group)
        need(
            type(peer) is int and peer != rank and (peer in members or (not sends and peer == ANY)),
            "the other rank is in the group",
        )
        need(type(tag) is int and 0 <= tag < 2**31, "a tag is a small number")
        if sends:
            data = body[4]
            need(type(data) is torch.Tensor, "what is sent is a tensor")
            dtype, shape, nbytes = str(data.dtype).removeprefix("torch."), tuple(data.shape), data.nbytes
        else:
            data, nbytes = None, 0
            dtype, shape = self._meta(body[4:])
        return Request(rank, op, peer, tag, data, None, dtype, shape, nbytes, group, self._line(line))

    def _meta(self, meta: Any) -> tuple[str, tuple[int, ...]]:
        need(type(meta) is tuple and len(meta) == 2, "a buffer has a dtype and a shape")
        dtype, shape = meta
        need(type(dtype) is str and dtype in codec.DTYPES, "the dtype is known")
        need(
            type(shape) is tuple and len(shape) <= 32 and all(type(n) is int and n >= 0 for n in shape),
            "a shape is of sizes",
        )
        need(math.prod(shape) < 2**40, "a shape has a sensible size")
        return dtype, shape

    def _renewals(self, rank: int, reads: Any) -> tuple[tuple[int, torch.Tensor], ...]:
        need(type(reads) is tuple, "renewals are a tuple")
        for item in reads:
            need(type(item) is tuple and len(item) == 2 and type(item[0]) is int, "a renewal names a call")
            op = self.kernel.state.operations[rank].get(item[0])
            old = op.data if op is not None and op.send else None  # what the call sends, while in flight
            need(type(item[1]) is torch.Tensor, "a renewal is a tensor")
            if old is not None:
                need(old.dtype == item[1].dtype and old.shape == item[1].shape, "a renewal is of the same size")
        return reads

    def _collective(self, rank: int, body: tuple[Any, ...]) -> Request:
        name, reduce, root, inputs, takes, splits, ranks, async_op, group, line = body
        members = self._group(rank, group)
        need(type(name) is str and name in _COLLECTIVES and type(async_op) is bool, "the collective exists")
        need(
            type(reduce) is str and (not reduce or reduce in OPS) and type(root) is int,
            "op and root are a word and a rank",
        )
        need(root == -1 or root in members, "the root is in the group")
        need(type(inputs) is tuple and all(type(one) is torch.Tensor for one in inputs), "inputs are tensors")
        need(type(takes) is tuple and len(takes) <= len(members), "outputs are described")
        metas = tuple(self._meta(meta) for meta in takes)
        need(type(splits) is tuple and len(splits) == 2, "splits are two")
        for half in splits:
            need(type(half) is tuple and all(type(n) is int and n >= 0 for n in half), "splits are counts")
            need(len(half) == (len(members) if name == "all_to_all_single" else 0), "there is a split for every rank")
        need(
            type(ranks) is tuple and all(type(r) is int and 0 <= r < self.kernel.ranks for r in ranks),
            "groups are of ranks",
        )
        need(len(set(ranks)) == len(ranks) and (name != "new_group" or bool(ranks)), "a group names each rank once")
        gives = tuple((str(one.dtype).removeprefix("torch."), tuple(one.shape)) for one in inputs)
        call = Call(name, reduce, root, inputs, (None,) * len(metas), gives, metas, splits, ranks, async_op)
        return Request(rank, "collective", group=group, line=self._line(line), more=call)
