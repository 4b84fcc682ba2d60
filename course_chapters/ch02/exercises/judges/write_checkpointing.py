import json
import random
from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor

from course_chapters.ch02.exercises.probes import pass_bytes, plain_call
from course_grader.exercises.values import same_lists
from course_grader.judging import Fault, Judging, Params, Weighed, Worked, Wrong, hidden, judged, shown, verdict
from course_grader.judging.tensors import all_close, close, tensor_fault
from course_grader.records import Case, Outcome, Verdict
from course_lib.estimate.units import KiB

Spec = Mapping[str, Any]
Value = Mapping[str, Any]  # what the probe brings back
RANDOM_STATE = 8 * KiB  # bytes of the CPU generator's state, and a little
NO_GRAPH = Wrong("no-graph", "the output requires no gradient. Was it computed under `no_grad`?", where=("graph",))
right = Worked("write-checkpointing")


def flat(tensors: Any) -> list[Tensor | None]:
    """The tensors of nested lists, in order."""
    return [each for part in tensors for each in flat(part)] if type(tensors) in (list, tuple) else [tensors]


def _call_fault(value: Value, want: Value) -> Fault | None:
    """None if the gradients came from exactly one second call of each segment."""
    moved = flat(value["moved"])
    if all_close(moved, flat(want["moved"])):
        return None
    if all_close(moved, flat(want["gradients"])):  # of the first calls, which add nothing
        return "nothing-recomputed", "nothing was recomputed; activations were kept."
    otherwise = "the gradients do not come from one second call of each segment on the input of its first call."
    return Wrong("not-the-second-call", otherwise, where=("moved",))


def _tensors_fault(part: str, what: str, value: Value, want: Value) -> Fault | None:
    """The last tensor of a part of the result that is not the right one: faults come from the output's side."""
    got, right = flat(value[part]), flat(want[part])
    if len(got) != len(right):
        return "wrong-shape", f"{what}: {len(got)} tensors came back, and not {len(right)}."
    for mine, wanted in zip(reversed(got), reversed(right), strict=True):
        if mine is None and wanted is not None:
            return Wrong("no-gradient", f"{what} is None.", f"{what}: ", (part,))
        if wanted is not None and (fault := tensor_fault(what, mine, wanted)):
            return Wrong(*fault)._replace(where=(part,))
    return None


def _output_fault(value: Value, want: Value) -> Fault | None:
    return _tensors_fault("output", "The output of the forward pass", value, want)


def _gradient_fault(value: Value, want: Value) -> Fault | None:
    if value["graph"] is not True:
        return NO_GRAPH
    own = _tensors_fault("gradients", "A gradient of the parameters", value, want)
    return own or _tensors_fault("input_gradients", "The gradient of the net's input", value, want)


def _memory_fault(spec: Spec, value: Value) -> Fault | None:
    least, most, peak = limits(spec)
    if value["graph"] is not True:
        return NO_GRAPH
    if value["kept"] < least:
        return "too-few-bytes", "Fewer bytes are alive after the forward pass than the segments' outputs take."
    if value["kept"] > most:
        return "kept-inside", (
            f"{value['kept'] / KiB:,.0f} KiB are alive between the passes; the segments' inputs and outputs and the "
            f"generator's states take at most {most / KiB:,.0f} KiB. Something inside the segments is kept."
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


def _random_fault(value: Value, want: Value) -> Fault | None:
    if fault := _output_fault(value, want):
        own_seed = "the forward pass drops other elements than a plain call does; do not set the generator before it."
        return ("own-seed", own_seed) if fault[0] == "other-numbers" else fault
    if value["graph"] is not True:
        return NO_GRAPH
    if not all_close(flat(value["gradients"]), flat(want["gradients"])):
        told = "with dropout, the gradients are wrong. Do both calls of a segment drop the same elements?"
        return Wrong("wrong-with-dropout", told, where=("gradients",))
    if not close(value["random"], want["random"], 1e-6):
        return "stream-moved", "numbers drawn after the backward pass differ; restore the generator after recomputing."
    fault = _call_fault(value, want)
    return fault if fault and fault[0] == "nothing-recomputed" else None


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    (spec, shifts, measured), value, want = case.args, outcome.value, right.value(case)
    if case.part == "random":
        return judged(case, _random_fault(value, want))
    output = _output_fault(value, want)
    if not spec.get("grad", True):
        called: Fault = ("called-for-nothing", "without gradients, call each segment exactly once.")
        return judged(case, output or (None if same_lists(value["calls"], want["calls"]) else called))
    gradients = output or _gradient_fault(value, want)
    again = gradients or (_call_fault(value, want) if shifts else None)
    if case.kind == "generality":
        return judged(case, again)
    if again and again[0] == "nothing-recomputed":
        gradients = again  # right values, but a plain call has them too
    faults = {"output": output, "gradients": gradients, "recompute": again}
    found = [verdict("values", part, case, fault) for part, fault in faults.items()]
    return [*found, verdict("cost", "memory", case, output or _memory_fault(spec, value))] if measured else found


def spec_of(rng: random.Random, streams: int, depths: list[int], **more: object) -> Spec:
    usual = {"width": 32, "rows": 8, "depths": depths, "dropout": 0.0, "streams": streams, "input_grad": True}
    return {"seed": rng.randrange(2**31), **usual, **more}


def _cases(params: Params, rng: random.Random) -> list[Case]:
    streams = params["streams"]

    def shifts() -> list[float]:
        return [0.0, *(rng.choice((-1, 1)) * value for value in rng.sample((0.4, 0.6, 0.9, 1.2, 1.5), 3))]

    def unseen(name: str, depths: list[int], **more: object) -> Case:
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
    """32 layers in 8 segments with tensors of 2 MB between them: a plain call holds about 67 of them, a right answer
    25 to 40."""
    streams = params["streams"]
    spec = spec_of(rng, streams, [4] * 8, rows=8192 // streams, width=64)
    case = hidden("32 layers in 8 segments", "cost:memory", spec, [], False, seconds=30.0)

    def done(outcome: Outcome) -> bool:
        value, want = outcome.value if type(outcome.value) is dict else {}, right.value(case)
        output, gradients = all_close(value.get("output"), want["output"]), value.get("gradients")
        return output and type(gradients) is list and all_close(flat(gradients[-1:]), flat(want["gradients"][-1:]))

    warm = hidden("a small net", "cost:memory", spec_of(rng, streams, [2, 1]), [], False, seconds=30.0)
    return Weighed(case=case, warm=warm, most=48 * 4 * 8192 * spec["width"], done=done)


JUDGING = Judging(
    point=("cost:memory",),
    shares="values:output 0.05, values:gradients 0.2, values:recompute 0.2, values:random 0.15, cost:memory 0.2, "
    "generality:inputs 0.2",
    cases=_cases,
    verdicts=_verdicts,
    why="A segment's gradient needs only its input, its parameters and its random numbers; everything inside can be "
    "recomputed. So the forward pass runs without a graph and keeps the input and the generator's state. The backward "
    "pass builds the graph of one segment, uses it and drops it. One more forward pass is a third more arithmetic. "
    "Afterwards the generator must be restored, or the next step would draw other numbers.",
    pytorch="`torch.utils.checkpoint.checkpoint(function, x, use_reentrant=False)` does the same with hooks on saved "
    "tensors. It has `preserve_rng_state=True` by default, and stops recomputing once it has the last tensor it needs.",
    measured_by_worker=("cost:memory",),
    weighed=_weighed,
)

ANSWERS = r'''# %% right: worked
def checkpoint(function, *inputs):
    """`function(*inputs)` for one input or more, keeping only these. Budget: one more call, in the backward pass."""

    class Again(torch.autograd.Function):
        @staticmethod
        def forward(ctx, anchor, *inputs):
            ctx.state = torch.get_rng_state()
            ctx.save_for_backward(*inputs)
            with torch.no_grad():
                return function(*inputs)

        @staticmethod
        def backward(ctx, *grads):
            inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
            with torch.enable_grad(), torch.random.fork_rng(devices=[]):
                torch.set_rng_state(ctx.state)
                out = function(*inputs)
            torch.autograd.backward(out, grads)
            return None, *(x.grad for x in inputs)

    return Again.apply(torch.empty(0, requires_grad=True), *inputs)
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
# -     return Again.apply(torch.empty(0, requires_grad=True), *inputs)
# +     with torch.no_grad():
# +         return function(*inputs)
# %% wrong: a plain call => values nothing-recomputed
# ~ return Again.apply(torch.empty(0, requires_grad=True), *inputs) ==> return function(*inputs)
# %% wrong: the input gets no gradient => values gradient-stops
# > only the last segment's parameters got one; each segment must pass a gradient to its input.
# ~ *(x.grad for x in inputs) ==> *(None for x in inputs)
# %% wrong: the gradient of x alone => values no-parameters
# > the parameters inside got none; the gradient of x alone is not enough.
# -             torch.autograd.backward(out, grads)
# -             return None, *(x.grad for x in inputs)
# +             wanted = [x for x in inputs if x.requires_grad]
# +             return None, *(torch.autograd.grad(out, wanted, grads) if wanted else [None] * len(inputs))
# %% wrong: the generator is not set back for the second run => values random-not-restored
# > the second call of a segment dropped other elements than the first: draw the masks from the generator's state at the
# > first call.
# -             with torch.enable_grad(), torch.random.fork_rng(devices=[]):
# -                 torch.set_rng_state(ctx.state)
# +             with torch.enable_grad():
# %% wrong: the generator stays where the second run left it => values stream-moved
# ~ torch.enable_grad(), torch.random.fork_rng(devices=[]): ==> torch.enable_grad():
# %% wrong: a seed of its own for both runs => values own-seed
# -             with torch.no_grad():
# +             with torch.no_grad(), torch.random.fork_rng(devices=[]):
# +                 torch.manual_seed(0)
# ~ torch.set_rng_state(ctx.state) ==> torch.manual_seed(0)
# %% wrong: computed twice in the backward pass => values recomputed-twice
# > every segment was recomputed more than once.
# ~ torch.set_rng_state(ctx.state) ==> function(*inputs), torch.set_rng_state(ctx.state)
# %% wrong: called once more before the pass => values called-twice-forward
# > every segment was called twice in the forward pass.
#               with torch.no_grad():
# +                 function(*inputs)
# +                 torch.set_rng_state(ctx.state)
# %% wrong: computed again for every tensor => values not-the-second-call  from: hooks on what autograd saves
# ~ if number not in made: ==> if True:
# %% wrong: layer by layer => values per-layer
# > every layer was recomputed from its own input, which was kept.
#   def checkpoint(function, *inputs):
# +     if hasattr(function, "layers"):
# +         for layer in function.layers:
# +             inputs = (checkpoint(layer, *inputs),)
# +         return inputs[0]
# %% wrong: gradients are put there and added once more => values scaled
# > twice the right one. Is something added to `.grad` twice?
#                   out = function(*inputs)
# +             torch.autograd.backward(out, grads, retain_graph=True)
# %% wrong: computed again and kept all the same => cost kept-inside
# -             with torch.no_grad():
# -                 return function(*inputs)
# +             ctx.inside = []
# +             hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: ctx.inside.append(t) or t, lambda t: t)
# +             with torch.enable_grad(), hooks:
# +                 return function(*inputs).detach()
# %% wrong: nothing happens if the input needs no gradient => generality anchor-missing
# > no input requires a gradient, but the parameters inside need theirs.
# ~ forward(ctx, anchor, *inputs) ==> forward(ctx, *inputs)
# ~ return None, *( ==> return tuple(
# ~ torch.empty(0, requires_grad=True), *inputs ==> *inputs
# %% wrong: parameters are asked of a module => generality raised
# ~ anchor, *inputs ==> x, *parameters
# ~ save_for_backward(*inputs) ==> save_for_backward(x)
# ~ return function(*inputs) ==> return function(x)
# -             torch.autograd.backward(out, grads)
# -             return None, *(x.grad for x in inputs)
# +             wanted = [each for each in (*inputs, *function.parameters()) if each.requires_grad]
# +             found = dict(zip(map(id, wanted), torch.autograd.grad(out, wanted, grads)))
# +             return tuple(found.get(id(each)) for each in (*inputs, *function.parameters()))
# ~ torch.empty(0, requires_grad=True), *inputs ==> *inputs, *function.parameters()
# %% wrong: also kept and called under no_grad without need => generality called-for-nothing
#   def checkpoint(function, *inputs):
# +     if not torch.is_grad_enabled():
# +         function(*inputs)
# %% wrong: the one that torch has => raised
# - def checkpoint(function, *inputs):
# + from torch.utils.checkpoint import checkpoint as ready
# + def checkpoint(function, *inputs):
# +     return ready(function, *inputs, use_reentrant=False)
# %% wrong: kept in half the bytes => values rounded
# -     return Again.apply(torch.empty(0, requires_grad=True), *inputs)
# +     def pack(t):
# +         return t.bfloat16() if t.dtype == torch.float32 else t
# +     def unpack(t):
# +         return t.float() if t.dtype == torch.bfloat16 else t
# +     with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
# +         return function(*inputs)
# %% wrong: the generator is set back for modules alone => generality other-numbers
# ~ torch.set_rng_state(ctx.state) ==> torch.set_rng_state(ctx.state) if isinstance(function, torch.nn.Module) else None
# %% half: right but for what it keeps => 15  from: computed again and kept all the same
# %% half: the generator is forgotten => 13.5  from: the generator is not set back for the second run
# %% half: a plain call has right outputs => 1.5  from: a plain call
'''
