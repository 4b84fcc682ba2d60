"""Judge of write-checkpointing: write activation checkpointing."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from course_chapters.ch02.exercises.block import Layer, Segment, counted
from course_chapters.ch02.exercises.probes import as_streams, net_of, pass_bytes, pass_through, plain_call
from course_grader.exercises.values import same_lists
from course_grader.judging import Fault, Judging, Mistake, Params, Weighed, first, judged, matching, verdict
from course_grader.judging.cases import hidden, shown
from course_grader.judging.tensors import all_close, close, tensor_fault
from course_grader.records import Case, Outcome, Verdict
from course_lib.estimate.units import KiB

Spec = Mapping[str, Any]
RANDOM_STATE = 8 * KiB  # bytes of the CPU generator's state, and a little


def plain(spec: Spec) -> dict[str, Any]:
    """The same net without any checkpoint."""
    with torch.random.fork_rng(devices=[]), torch.set_grad_enabled(spec.get("grad", True)):
        return pass_through(plain_call, spec)


def replay(
    spec: Spec, first: float = 0.0, again: float = 0.0, by_layer: bool = False, restore: bool = True
) -> tuple[list[Tensor], list[list[Tensor | None]]]:
    """The output and all gradients if each segment is recomputed once, with the second shift in place of the first.

    `by_layer`: recompute each layer from its own input instead of each segment from its input.
    """
    with torch.random.fork_rng(devices=[]):
        segments, given = net_of(spec)
        split = [segment.layers if by_layer and isinstance(segment, Segment) else [segment] for segment in segments]
        units = [unit for parts in split for unit in parts]
        layers = counted(segments)
        torch.manual_seed(spec["seed"] + 1)
        kept, streams = [], [x.detach() for x in given]
        _shift(layers, first)
        with torch.no_grad():
            for unit in units:
                kept.append((torch.get_rng_state(), streams))
                streams = as_streams(unit(*streams))
        weights = [torch.linspace(0.5, 1.5, x.numel()).view_as(x) for x in streams]
        _shift(layers, again)
        for unit, (state, inputs) in zip(reversed(units), reversed(kept), strict=True):
            if restore:
                torch.set_rng_state(state)
            inputs = [x.detach().requires_grad_(x.is_floating_point()) for x in inputs]
            out = as_streams(unit(*inputs))
            torch.autograd.backward(out, weights)
            weights = [x.grad for x in inputs if x.is_floating_point()]
        return streams, [[p.grad for p in segment.parameters() if p.requires_grad] for segment in segments]


def _shift(layers: Sequence[Layer], value: float) -> None:
    for layer in layers:
        layer.shifts, layer.calls = (value,), 0


def flat(gradients: Sequence[Sequence[Tensor | None]]) -> list[Tensor | None]:
    """The gradients of all segments in one list."""
    return [each for segment in gradients for each in segment]


def call_fault(spec: Spec, shifts: Sequence[float], gradients: Sequence[Sequence[Tensor | None]]) -> Fault | None:
    """None if the gradients came from exactly one second call of each segment, else which calls they came from."""
    first, again, third, fourth = shifts
    got = flat(gradients)
    if all_close(got, flat(replay(spec, first, again)[1])):
        return None
    known = (
        Mistake("nothing-recomputed", (first, first), "nothing was recomputed; activations were kept."),
        Mistake("recomputed-twice", (first, third), "every segment was recomputed twice."),
        Mistake("recomputed-twice", (first, fourth), "every segment was recomputed three times."),
        Mistake("called-twice-forward", (again, third), "every segment was called twice in the forward pass."),
        Mistake("per-layer", (first, again, True), "every layer was recomputed from its own input, which was kept."),
    )
    otherwise = "the gradients do not come from one second call of each segment on the input of its first call."
    found = matching(known, (), lambda shifts: all_close(got, flat(replay(spec, *shifts)[1])))
    return found or ("not-the-second-call", otherwise)


def _output_fault(value: Mapping[str, Any], want: Mapping[str, Any]) -> Fault | None:
    got, right = value["output"], want["output"]
    if len(got) != len(right):
        return "wrong-shape", f"checkpoint(…) returned {len(got)} tensors; `function` returns {len(right)}."
    return first(*(tensor_fault("The output of the forward pass", *pair) for pair in zip(got, right, strict=True)))


def _gradient_fault(value: Mapping[str, Any], want: Mapping[str, Any]) -> Fault | None:
    """The first fault of the gradients, counted from the output; None if there is none."""
    if value["graph"] is not True:
        return "no-graph", "the output requires no gradient. Was it computed under `no_grad`?"
    got, right = value["gradients"], want["gradients"]
    if [len(each) for each in (*got, value["input_gradients"])] != [len(e) for e in (*right, want["input_gradients"])]:
        return "no-results", "Some gradients did not come back."
    for segment in reversed(range(len(got))):
        for mine, wanted in zip(got[segment], right[segment], strict=True):
            twice = Mistake("scaled", 2 * wanted, "twice the right one. Is something added to `.grad` twice?")
            fault = tensor_fault(f"A gradient in segment {segment}", mine, wanted, [twice])
            if fault and (mine is None or not mine.any()):
                return "gradient-stops", f"segment {segment} got no gradient; each segment must pass one to its input."
            if fault:
                return fault
    for mine, wanted in zip(value["input_gradients"], want["input_gradients"], strict=True):
        if wanted is not None and (fault := tensor_fault("The gradient of the net's input", mine, wanted)):
            return ("gradient-stops", "the net's input got no gradient.") if mine is None else fault
    return None


def _memory_fault(spec: Spec, value: Mapping[str, Any]) -> Fault | None:
    least, most, peak = limits(spec)
    if value["graph"] is not True:
        return "no-graph", "no bytes were measured, because the output of checkpoint(…) requires no gradient."
    if value["kept"] < least:
        return "too-few-bytes", "Fewer bytes are alive after the forward pass than the segments' outputs take."
    if value["kept"] > most:
        return "kept-inside", (
            f"{value['kept'] / KiB:,.0f} KiB are alive between the passes; the segments' inputs and outputs and the generator's "
            f"states take at most {most / KiB:,.0f} KiB. Something inside the segments is kept."
        )
    if not least <= value["peak"] <= peak:
        used, room = value["peak"] / KiB, peak / KiB
        return "peak", f"The peak is {used:,.0f} KiB; one segment at a time needs less than {room:,.0f} KiB."
    return None


def limits(spec: Spec) -> tuple[float, float, float]:
    """Least and most bytes between the passes, and most at the peak."""
    tensor, count = 4 * spec["rows"] * spec["width"] * spec["streams"], len(spec["depths"])
    return 0.9 * count * tensor, (2 * count + 1) * tensor + count * RANDOM_STATE, 0.9 * _plain_peak(json.dumps(spec))


@cache
def _plain_peak(spec: str) -> int:
    with torch.random.fork_rng(devices=[]):
        return pass_bytes(plain_call, json.loads(spec))["peak"]


def _random_fault(spec: Spec, shifts: Sequence[float], value: Mapping[str, Any]) -> Fault | None:
    want = plain(spec)
    if fault := _output_fault(value, want):
        own_seed = "the forward pass drops other elements than a plain call does; do not set the generator before it."
        return ("own-seed", own_seed) if fault[0] == "other-numbers" else fault
    if value["graph"] is not True:
        return "no-graph", "no gradient at all."
    got = flat(value["gradients"])
    if not all_close(got, flat(want["gradients"])):
        message = "with dropout, the gradients are wrong"
        if all_close(got, flat(replay(spec, restore=False)[1])):
            message = "the second call of a segment dropped other elements than the first"
        return "random-not-restored", f"{message}: draw the masks from the generator's state at the first call."
    if not close(value["random"], want["random"], 1e-6):
        return "stream-moved", "numbers drawn after the backward pass differ; restore the generator after recomputing."
    fault = call_fault(spec, shifts, value["moved"])
    return fault if fault and fault[0] == "nothing-recomputed" else None


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    (spec, shifts, measured), value = case.args, outcome.value
    if case.part == "random":
        return judged(case, _random_fault(spec, shifts, value))
    want = plain(spec)
    output = _output_fault(value, want)
    if not spec.get("grad", True):
        called: Fault = ("called-for-nothing", "without gradients, call each segment exactly once.")
        return judged(case, output or (None if same_lists(value["calls"], want["calls"]) else called))
    gradients = output or _gradient_fault(value, want)
    again = gradients or (call_fault(spec, shifts, value["moved"]) if shifts else None)
    if case.kind == "generality":
        if again and again[0] == "no-graph":
            again = "anchor-missing", "no input requires a gradient, but the parameters inside need theirs."
        return judged(case, again)
    if again and again[0] == "nothing-recomputed":
        gradients = again  # right values, but a plain call has them too
    faults = {"output": output, "gradients": gradients, "recompute": again}
    found = [verdict("values", part, case, fault) for part, fault in faults.items()]
    return [*found, verdict("cost", "memory", case, output or _memory_fault(spec, value))] if measured else found


def spec_of(rng: random.Random, streams: int, depths: list[int], **more: Any) -> dict[str, Any]:
    """A net's description."""
    usual = {"width": 32, "rows": 8, "depths": depths, "dropout": 0.0, "streams": streams, "input_grad": True}
    return {"seed": rng.randrange(2**31), **usual, **more}


def _cases(params: Params, rng: random.Random) -> list[Case]:
    streams = params["streams"]

    def shifts() -> list[float]:
        return [0.0, *(rng.choice((-1, 1)) * value for value in rng.sample((0.4, 0.6, 0.9, 1.2, 1.5), 3))]

    def unseen(name: str, depths: list[int], **more: Any) -> Case:
        return hidden(name, "generality:inputs", spec_of(rng, streams, depths, **more), shifts(), False)

    example = spec_of(rng, streams, list(params["depths"]), rows=256, width=64)
    twice = spec_of(rng, streams, [2, 1, 2], dropout=0.25, twice=True)
    words = [unseen("the first segment gets token numbers", [2], words=True)] if streams == 1 else []
    return [
        shown(f"{len(params['depths'])} segments", "values", example, shifts(), True),
        shown("with dropout", "values:random", spec_of(rng, streams, [2, 1, 2], dropout=0.25), shifts(), False),
        unseen("an input that needs no gradient", [1, 2], input_grad=False, dropout=0.25),
        *words,
        unseen("functions that are not modules", [2, 2], closures=True, dropout=0.25),
        unseen("a frozen segment", [2, 1, 2], frozen=[1], dropout=0.25),
        unseen("dropout, and unequal segments", [1, 3], dropout=0.5, width=16),
        hidden("one function for two segments", "generality:inputs", twice, [], False),
        unseen("without gradients", [2, 2], grad=False),
    ]


def _weighed(params: Params, rng: random.Random) -> Weighed:
    """32 layers in 8 segments with tensors of 2 MB between them: a plain call holds about 67 such tensors, a right answer 25 to 40."""
    streams = params["streams"]
    spec = spec_of(rng, streams, [4] * 8, rows=8192 // streams, width=64)
    tensor = 4 * 8192 * spec["width"]

    def done(outcome: Outcome) -> bool:
        value = outcome.value if type(outcome.value) is dict else {}
        output, want = replay(spec)
        gradients = value.get("gradients")
        right = all_close(value.get("output"), output) and type(gradients) is list and bool(gradients)
        return right and gradients is not None and all_close(gradients[-1], want[-1])

    return Weighed(
        case=hidden("32 layers in 8 segments", "cost:memory", spec, [], False, seconds=30.0),
        warm=hidden("a small net", "cost:memory", spec_of(rng, streams, [2, 1]), [], False, seconds=30.0),
        most=48 * tensor,
        done=done,
    )


JUDGING = Judging(
    point=("cost:memory",),
    shares="values:output 0.05, values:gradients 0.2, values:recompute 0.2, values:random 0.15, cost:memory 0.2, "
    "generality:inputs 0.2",
    cases=_cases,
    verdicts=_verdicts,
    why="A segment's gradient needs only its input, its parameters and its random numbers; everything inside can be recomputed. So the "
    "forward pass runs without a graph and keeps the input and the generator's state. The backward pass builds the graph of one "
    "segment, uses it and drops it. One more forward pass is a third more arithmetic. Afterwards the generator must be restored, or the "
    "next step would draw other numbers.",
    pytorch="`torch.utils.checkpoint.checkpoint(function, x, use_reentrant=False)` does the same with hooks on saved tensors. It has "
    "`preserve_rng_state=True` by default, and stops recomputing once it has the last tensor it needs.",
    measured_by_worker=("cost:memory",),
    weighed=_weighed,
)

ANSWERS = r"""import torch


# %% right: a function of autograd with an anchor
class Again(torch.autograd.Function):
    @staticmethod
    def forward(ctx, function, anchor, *inputs):
        ctx.function, ctx.state = function, torch.get_rng_state()
        ctx.save_for_backward(*inputs)
        with torch.no_grad():
            return function(*inputs)

    @staticmethod
    def backward(ctx, *grads):
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        with torch.enable_grad(), torch.random.fork_rng(devices=[]):
            torch.set_rng_state(ctx.state)
            out = ctx.function(*inputs)
        torch.autograd.backward(out, grads)
        return None, None, *(x.grad for x in inputs)


def checkpoint(function, *inputs):
    return Again.apply(function, torch.empty(0, requires_grad=True), *inputs)


# %% right: hooks on what autograd saves
def checkpoint(function, *inputs):
    if not torch.is_grad_enabled():
        return function(*inputs)
    state, made, count = torch.get_rng_state(), {}, [0]

    def pack(tensor):
        count[0] += 1
        return count[0] - 1

    def unpack(number):
        if number not in made:
            places = iter(range(count[0]))

            def keep(tensor):
                made[next(places)] = tensor.detach()
                return tensor

            before = torch.get_rng_state()
            torch.set_rng_state(state)
            with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
                function(*[x.detach().requires_grad_(x.requires_grad) for x in inputs])
            torch.set_rng_state(before)
        return made.pop(number)

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        return function(*inputs)


# %% right: a leaf in between, and a hook on its gradient
def checkpoint(function, *inputs):
    if not torch.is_grad_enabled():
        return function(*inputs)
    state = torch.get_rng_state()
    with torch.no_grad():
        out = function(*inputs).requires_grad_()

    def again(grad):
        with torch.enable_grad(), torch.random.fork_rng(devices=[]):
            torch.set_rng_state(state)
            made = function(*inputs)
        torch.autograd.backward(made, grad)

    out.register_hook(again)
    return out


# %% wrong: everything under no_grad => values no-graph
def checkpoint(function, x):
    with torch.no_grad():
        return function(x)


# %% wrong: a plain call => values nothing-recomputed
def checkpoint(function, x):
    return function(x)


# %% wrong: the input gets no gradient => values gradient-stops  from: a function of autograd with an anchor
# ~ *(x.grad for x in inputs) ==> *(None for x in inputs)

# %% wrong: the generator is not set back for the second run => values random-not-restored  from: a function of autograd with an anchor
# -         with torch.enable_grad(), torch.random.fork_rng(devices=[]):
# -             torch.set_rng_state(ctx.state)
# +         with torch.enable_grad():

# %% wrong: the generator stays where the second run left it => values stream-moved  from: a function of autograd with an anchor
# ~ torch.enable_grad(), torch.random.fork_rng(devices=[]): ==> torch.enable_grad():

# %% wrong: a seed of its own for both runs => values own-seed  from: a function of autograd with an anchor
# -         with torch.no_grad():
# +         with torch.no_grad(), torch.random.fork_rng(devices=[]):
# +             torch.manual_seed(0)
# ~ torch.set_rng_state(ctx.state) ==> torch.manual_seed(0)

# %% wrong: computed twice in the backward pass => values recomputed-twice  from: a function of autograd with an anchor
# ~ torch.set_rng_state(ctx.state) ==> ctx.function(*inputs), torch.set_rng_state(ctx.state)

# %% wrong: called once more before the pass => values called-twice-forward  from: a function of autograd with an anchor
#           with torch.no_grad():
# +             function(*inputs)
# +             torch.set_rng_state(ctx.state)

# %% wrong: computed again for every tensor that autograd asks for => values not-the-second-call  from: hooks on what autograd saves
# ~ if number not in made: ==> if True:

# %% wrong: layer by layer => values per-layer  from: a function of autograd with an anchor
# -     return Again.apply(function, torch.empty(0, requires_grad=True), *inputs)
# +     for layer in getattr(function, "layers", [function]):
# +         inputs = (Again.apply(layer, torch.empty(0, requires_grad=True), *inputs),)
# +     return inputs[0]

# %% wrong: gradients are put there and added once more => values scaled  from: a function of autograd with an anchor
#               out = ctx.function(*inputs)
# +         torch.autograd.backward(out, grads, retain_graph=True)

# %% wrong: computed again and kept all the same => cost kept-inside  from: a function of autograd with an anchor
# -         with torch.no_grad():
# -             return function(*inputs)
# +         ctx.inside = []
# +         with (
# +             torch.autograd.graph.saved_tensors_hooks(lambda t: ctx.inside.append(t) or t, lambda t: t),
# +             torch.enable_grad(),
# +         ):
# +             return function(*inputs).detach()

# %% wrong: nothing happens if the input needs no gradient => generality anchor-missing  from: a function of autograd with an anchor
# ~ function, anchor, *inputs ==> function, *inputs
# ~ return None, None, *( ==> return None, *(
# ~ torch.empty(0, requires_grad=True), *inputs ==> *inputs

# %% wrong: parameters are asked of a module => generality raised  from: a function of autograd with an anchor
# ~ anchor, *inputs ==> x, *parameters
# ~ ctx.state = function, ==> ctx.parameters, ctx.state = function, parameters,
# ~ save_for_backward(*inputs) ==> save_for_backward(x)
# -             return function(*inputs)
# +             return function(x)
# -         torch.autograd.backward(out, grads)
# -         return None, None, *(x.grad for x in inputs)
# +         wanted = [each for each in (*inputs, *ctx.parameters) if each.requires_grad]
# +         found = dict(zip(map(id, wanted), torch.autograd.grad(out, wanted, grads)))
# +         return None, *(found.get(id(each)) for each in (*inputs, *ctx.parameters))
# ~ torch.empty(0, requires_grad=True), *inputs ==> *inputs, *function.parameters()

# %% wrong: also kept and called under no_grad without need => generality called-for-nothing  from: a function of autograd with an anchor
#   def checkpoint(function, *inputs):
# +     if not torch.is_grad_enabled():
# +         function(*inputs)

# %% wrong: the one that torch has => raised  from: a plain call
# - def checkpoint(function, x):
# + from torch.utils.checkpoint import checkpoint as ready
# + def checkpoint(function, x):
# ~ function(x) ==> ready(function, x, use_reentrant=False)

# %% wrong: kept in half the bytes => values -  from: everything under no_grad
# -     with torch.no_grad():
# +     def pack(t):
# +         return t.bfloat16() if t.dtype == torch.float32 else t
# +     def unpack(t):
# +         return t.float() if t.dtype == torch.bfloat16 else t
# +     with torch.autograd.graph.saved_tensors_hooks(pack, unpack):


# %% wrong: the graph is kept inside => values nothing-recomputed  from: a function of autograd with an anchor
# -         with torch.no_grad():
# -             return function(*inputs)
# +         ctx.inputs = [x.detach().requires_grad_(x.requires_grad) for x in inputs]
# +         with torch.enable_grad():
# +             ctx.out = function(*ctx.inputs)
# +         return ctx.out.detach()
# -         inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
# -         with torch.enable_grad(), torch.random.fork_rng(devices=[]):
# -             torch.set_rng_state(ctx.state)
# -             out = ctx.function(*inputs)
# +         inputs, out = ctx.inputs, ctx.out

# %% half: right but for what it keeps => 15  from: computed again and kept all the same

# %% half: the generator is forgotten => 13.5  from: the generator is not set back for the second run

# %% half: a plain call has right outputs => 1.5  from: a plain call

# %% wrong: the generator is set back for modules alone => generality other-numbers  from: a function of autograd with an anchor
# ~ torch.set_rng_state(ctx.state) ==> torch.set_rng_state(ctx.state) if isinstance(ctx.function, torch.nn.Module) else None
"""
