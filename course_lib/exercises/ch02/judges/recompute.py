"""Judge of activation checkpointing: gradients, which call they came from, the generator before and after, bytes.

Which call a gradient came from shows in its value: in a second pass the n-th call of every layer adds a shift of its own,
so a gradient that was made from kept activations, from the second call or from the third is another one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch02.block import Layer, Segment, counted
from course_lib.exercises.ch02.judges.tensors import all_close, bytes_between, close, measured, tensor_fault
from course_lib.exercises.ch02.probes import net_of, pass_bytes, pass_through, plain_call
from course_lib.exercises.values import same_lists
from course_lib.judging import Fault, Judging, Params, Weighed, verdict
from course_lib.judging.cases import hidden, shown
from course_lib.records import Case, Outcome, Verdict

Spec = Mapping[str, Any]
KIB = 1024
RANDOM_STATE = 8 * KIB  # bytes of the CPU generator's state, and a little


def plain(spec: Spec) -> dict[str, Any]:
    """The same net without any checkpoint."""
    with torch.random.fork_rng(devices=[]):
        if not spec.get("grad", True):
            with torch.no_grad():
                return pass_through(plain_call, spec)
        return pass_through(plain_call, spec)


def replay(
    spec: Spec, first: float, again: float, by_layer: bool = False, restore: bool = True
) -> list[list[Tensor | None]]:
    """The gradients of every segment's parameters where each is computed a second time, with another shift.

    `by_layer`: every layer again from its own input, instead of every segment from its.
    """
    with torch.random.fork_rng(devices=[]):
        segments, given = net_of(spec)
        units = [each for segment in segments for each in _units(segment, by_layer)]
        layers = counted(segments)
        torch.manual_seed(spec["seed"] + 1)
        kept, streams = [], tuple(x.detach() for x in given)
        _shift(layers, first)
        with torch.no_grad():
            for unit in units:
                kept.append((torch.get_rng_state(), streams))
                streams = _tuple(unit(*streams))
        weights = [torch.linspace(0.5, 1.5, x.numel()).view_as(x) for x in streams]
        _shift(layers, again)
        for unit, (state, inputs) in zip(reversed(units), reversed(kept), strict=True):
            if restore:
                torch.set_rng_state(state)
            inputs = tuple(x.detach().requires_grad_(x.is_floating_point()) for x in inputs)
            out = _tuple(unit(*inputs))
            torch.autograd.backward(out, weights)
            weights = [x.grad for x in inputs if x.is_floating_point()]
        return [[p.grad for p in segment.parameters() if p.requires_grad] for segment in segments]


def _units(segment: Any, by_layer: bool) -> list[Any]:
    return list(segment.layers) if by_layer and isinstance(segment, Segment) else [segment]


def _tuple(out: Any) -> tuple[Tensor, ...]:
    return out if isinstance(out, tuple) else (out,)


def _shift(layers: Sequence[Layer], value: float) -> None:
    for layer in layers:
        layer.shifts, layer.calls = (value,), 0


def flat(gradients: Any) -> list[Any] | None:
    """The gradients of all segments in one list; None where they are no such lists."""
    if type(gradients) is not list or not all(type(each) is list for each in gradients):
        return None
    return [each for segment in gradients for each in segment]


def made_by(spec: Spec, shifts: Sequence[float], gradients: Any) -> str:
    """Which computation these gradients came from, by name: "again" is right; "" where it is none that is known."""
    got = flat(gradients)
    if got is None:
        return ""
    first, again, third, fourth = shifts
    known: tuple[tuple[str, Callable[[], Any]], ...] = (
        ("again", lambda: replay(spec, first, again)),
        ("kept", lambda: replay(spec, first, first)),
        ("twice", lambda: replay(spec, first, third)),
        ("three times", lambda: replay(spec, first, fourth)),
        ("twice forward", lambda: replay(spec, again, third)),
        ("by layer", lambda: replay(spec, first, again, by_layer=True)),
    )
    return next((name for name, wanted in known if all_close(got, flat(wanted()) or [])), "")


_NOT_ONCE = {
    "kept": (
        "nothing-recomputed",
        "nothing was computed a second time: these gradients were made from activations that had been kept.",
    ),
    "twice": (
        "recomputed-twice",
        "every segment was computed three times: once forward, and twice more in the backward pass.",
    ),
    "three times": ("recomputed-twice", "every segment was computed four times: once is enough in the backward pass."),
    "twice forward": (
        "called-twice-forward",
        "every segment was called twice in the forward pass; the second call belongs to the backward pass.",
    ),
    "by layer": (
        "per-layer",
        "every layer was computed again from an input of its own: then all of those inputs had to be kept.",
    ),
}


def _gone(value: Any) -> Fault | None:
    """What is wrong with a pass before its numbers are looked at."""
    if type(value) is not dict:
        return "no-result", "Nothing came back from the pass."
    if type(value.get("returned")) is str:
        return "not-a-tensor", f"checkpoint(…) returned {value['returned']}: return what the function returned."
    return None


def _output_fault(spec: Spec, value: Any, want: Mapping[str, Any]) -> Fault | None:
    if fault := _gone(value):
        return fault
    got = value.get("output")
    if type(got) is not list or len(got) != len(want["output"]):
        return (
            "no-result",
            f"checkpoint(…) must return {'a pair of tensors' if spec['streams'] == 2 else 'one tensor'}.",
        )
    for mine, right in zip(got, want["output"], strict=True):
        if fault := tensor_fault(mine, right, "The output of the forward pass"):
            return fault
    return None


def _gradient_fault(value: Mapping[str, Any], want: Mapping[str, Any]) -> Fault | None:
    """What is wrong with the gradients, the first one counted from the output."""
    if value.get("no_graph") is not False:
        return "no-graph", (
            "the output of checkpoint(…) needs no gradient: with everything under `no_grad` autograd has nothing to "
            "call in the backward pass."
        )
    got, inputs = value.get("gradients"), value.get("input_gradients")
    if flat(got) is None or len(got) != len(want["gradients"]) or type(inputs) is not list:
        return "no-result", "No gradients came back."
    if len(inputs) != len(want["input_gradients"]) or any(
        len(a) != len(b) for a, b in zip(got, want["gradients"], strict=True)
    ):
        return "no-result", "Some gradients did not come back."
    for index in reversed(range(len(got))):
        for mine, right in zip(got[index], want["gradients"][index], strict=True):
            fault = tensor_fault(mine, right, f"A gradient in segment {index}")
            if fault and (mine is None or (isinstance(mine, Tensor) and mine.dtype == right.dtype and not mine.any())):
                return (
                    "gradient-stops",
                    f"segment {index} got no gradient: what comes in at a segment's output must leave at its input.",
                )
            if fault and fault[0] == "scaled":
                return "scaled", f"{fault[1]} Is something added into `.grad` more than once?"
            if fault:
                return fault
    for mine, right in zip(inputs, want["input_gradients"], strict=True):
        if right is not None and (fault := tensor_fault(mine, right, "The gradient of the net's input")):
            return ("gradient-stops", "the net's input got no gradient.") if mine is None else fault
    return None


def _moved_fault(spec: Spec, shifts: Sequence[float], value: Mapping[str, Any]) -> Fault | None:
    """Whether every segment was computed again, and exactly once, told from the second pass."""
    moved = value.get("moved")
    if type(moved) is not dict:
        return "no-result", "The second pass did not come back."
    how = made_by(spec, shifts, moved.get("gradients"))
    if how == "again":
        return None
    return _NOT_ONCE.get(
        how,
        (
            "not-the-second-call",
            "the gradients do not belong to one second call of each segment on the input of its first.",
        ),
    )


def _memory_fault(spec: Spec, value: Mapping[str, Any]) -> Fault | None:
    found, least, most, peak = value.get("bytes"), *limits(spec)
    if type(found) is not dict:
        return "no-result", "No bytes came back."
    kept = bytes_between(found.get("kept"), least, most)
    if kept == "missing":
        return "no-result", "No bytes came back."
    if kept == "low":
        return "too-few-bytes", "Fewer bytes are alive after the forward pass than the segments' outputs have."
    if kept:
        return "kept-inside", (
            f"{found['kept'] / KIB:,.0f} KiB are alive between the passes; inputs and outputs of the segments and the "
            f"generator's states are {most / KIB:,.0f} KiB at most. Something holds on to what is inside."
        )
    if bytes_between(found.get("peak"), least, peak):
        top = found.get("peak")
        said = f"{top / KIB:,.0f}" if measured(top) else "no number of"
        return "peak", f"{said} KiB at the peak; one segment at a time needs less than {peak / KIB:,.0f} KiB."
    return None


@cache
def _limits(spec: tuple[tuple[str, Any], ...]) -> tuple[float, float, float]:
    given = dict(spec)
    with torch.random.fork_rng(devices=[]):
        full = pass_bytes(plain_call, given)
    tensor = 4 * given["rows"] * given["width"] * given["streams"]
    count = len(given["depths"])
    return 0.9 * count * tensor, (2 * count + 1) * tensor + count * RANDOM_STATE, 0.9 * full["peak"]


def limits(spec: Spec) -> tuple[float, float, float]:
    """Least and most bytes between the passes, and most at the peak."""
    return _limits(tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in spec.items()))


def _random_fault(spec: Spec, shifts: Sequence[float], value: Any, want: Mapping[str, Any]) -> Fault | None:
    if fault := _output_fault(spec, value, want) or (
        ("no-graph", "no gradient at all.") if value.get("no_graph") is not False else None
    ):
        return (
            fault
            if fault[0] != ""
            else (
                "own-seed",
                "the forward pass drops other elements than a plain call does: leave the generator as it is.",
            )
        )
    got, right = flat(value.get("gradients")), flat(want["gradients"])
    if got is None or not all_close(got, right or []):
        unlike = got is not None and all_close(got, flat(replay(spec, 0.0, 0.0, restore=False)) or [])
        told = (
            "the second run of a segment dropped other elements than the first"
            if unlike
            else "with dropout, the gradients are wrong"
        )
        return "random-not-restored", f"{told}: its masks come from the generator's state at the first run."
    if not close(value.get("random"), want["random"], 1e-6):
        return "stream-moved", (
            "the numbers drawn after the backward pass are not those that would have come: computing again must leave "
            "the generator where it was."
        )
    moved = value.get("moved")
    if type(moved) is not dict or made_by(spec, shifts, moved.get("gradients")) == "kept":
        return _NOT_ONCE["kept"]
    return None


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    spec, shifts, measured = case.args
    value, want = outcome.value, plain(spec)
    if case.part == "random":
        return [verdict("values", "random", case, _random_fault(spec, shifts, value, want))]
    if not spec.get("grad", True):
        fault = _output_fault(spec, value, want)
        if not fault and not same_lists(value.get("calls"), want["calls"]):
            fault = "called-for-nothing", "without gradients, a segment is called once and that is all."
        return [verdict(case.kind, case.part, case, fault)]
    output = _output_fault(spec, value, want)
    gradients = output or _gradient_fault(value, want)
    if gradients and gradients[0] == "no-graph" and case.kind == "generality":
        gradients = (
            "anchor-missing",
            ("no input needs a gradient, so autograd sees nothing to come back to; the parameters inside do need one."),
        )
    again = gradients or _moved_fault(spec, shifts, value)
    if case.kind == "generality":
        return [verdict("generality", case.part, case, again)]
    if again and again[0] == "nothing-recomputed":
        gradients = again  # right ones, but a plain call has them too
    found = [
        verdict("values", "output", case, output),
        verdict("values", "gradients", case, gradients),
        verdict("values", "recompute", case, again),
    ]
    return [*found, verdict("cost", "memory", case, output or _memory_fault(spec, value))] if measured else found


def spec_of(rng: random.Random, streams: int, depths: list[int], **more: Any) -> dict[str, Any]:
    """A net's description."""
    return {
        "seed": rng.randrange(2**31),
        "width": 32,
        "rows": 8,
        "depths": depths,
        "dropout": 0.0,
        "streams": streams,
        "input_grad": True,
        **more,
    }


def _cases(params: Params, rng: random.Random) -> list[Case]:
    streams = params["streams"]

    def shifts() -> list[float]:
        return [0.0, *(rng.choice((-1, 1)) * value for value in rng.sample((0.4, 0.6, 0.9, 1.2, 1.5), 3))]

    def unseen(name: str, depths: list[int], **more: Any) -> Case:
        return hidden(name, "generality:inputs", spec_of(rng, streams, depths, **more), shifts(), False)

    example = spec_of(rng, streams, list(params["depths"]), rows=256, width=64)
    words = [unseen("the first segment gets token numbers", [2], words=True)] if streams == 1 else []
    return [
        Case(name=f"{len(params['depths'])} segments", args=(example, shifts(), True)),
        shown("with dropout", "values:random", spec_of(rng, streams, [2, 1, 2], dropout=0.25), shifts(), False),
        unseen("an input that needs no gradient", [1, 2], input_grad=False),
        *words,
        unseen("functions that are no modules", [2, 2], closures=True),
        unseen("a frozen segment", [2, 1, 2], frozen=[1]),
        unseen("dropout, and unequal segments", [1, 3], dropout=0.5, width=16),
        unseen("without gradients", [2, 2], grad=False),
    ]


def _weighed(params: Params, rng: random.Random) -> Weighed:
    """32 layers in 8 segments, a tensor of 2 MB between them: a plain call holds about 67 such tensors, a right answer 25 to 40."""
    streams = params["streams"]
    spec = spec_of(rng, streams, [4] * 8, rows=8192 // streams, width=64)
    tensor = 4 * 8192 * spec["width"]

    def done(outcome: Outcome) -> bool:
        value = outcome.value if type(outcome.value) is dict else {}
        output, gradients = value.get("output"), value.get("gradients")
        want_output, want = _last(spec)
        return (
            all_close(output, want_output)
            and type(gradients) is list
            and bool(gradients)
            and all_close(gradients[-1], want)
        )

    return Weighed(
        case=hidden("32 layers in 8 segments", "cost:memory", spec, [], False, seconds=30.0),
        warm=hidden("a small net", "cost:memory", spec_of(rng, streams, [2, 1]), [], False, seconds=30.0),
        most=48 * tensor,
        done=done,
    )


def _last(spec: Spec) -> tuple[list[Tensor], list[Tensor]]:
    """The net's output and the gradients of its last segment, with no graph but that segment's."""
    with torch.random.fork_rng(devices=[]):
        segments, given = net_of(spec)
        with torch.no_grad():
            streams = tuple(x.detach() for x in given)
            for segment in segments[:-1]:
                streams = _tuple(segment(*streams))
        out = _tuple(segments[-1](*streams))
        torch.autograd.backward(out, [torch.linspace(0.5, 1.5, x.numel()).view_as(x) for x in out])
        return [x.detach() for x in out], [p.grad for p in segments[-1].parameters()]


CHECKPOINTING = Judging(
    shares="values:output 0.05, values:gradients 0.2, values:recompute 0.2, values:random 0.15, cost:memory 0.2, "
    "generality:inputs 0.2",
    cases=_cases,
    verdicts=_verdicts,
    why="A segment's gradient needs only what goes into it, its parameters and its random numbers; everything inside can be made "
    "again. So the forward pass runs without a graph and keeps the input and the generator's state; the backward pass builds the "
    "graph of one segment, uses it, and drops it. One forward pass more is a third more arithmetic in all. The generator is put "
    "back afterwards, or the next step draws other numbers than it would have.",
    pytorch="`torch.utils.checkpoint.checkpoint(function, x, use_reentrant=False)`: the same by hooks on saved tensors, with "
    "`preserve_rng_state=True` by default and early stopping once the last tensor needed is there.",
    measured_by_worker=("cost:memory",),
    weighed=_weighed,
)
