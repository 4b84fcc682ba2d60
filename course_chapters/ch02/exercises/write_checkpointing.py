from course_chapters.ch02.exercises.probes import checkpointing
from course_grader.exercises import Anything, Card, DictOf, ListOf, Maybe, Number, Tensor, Worth

_STREAMS = {
    1: {
        "takes": "takes one tensor `x` and returns one",
        "inputs": "If `x` needs no gradient or holds token numbers, the parameters inside still get theirs.",
        "gradient": "`x` (if it requires a gradient)",
    },
    2: {
        "takes": "takes two tensors `x` and `y` and returns a pair",
        "inputs": "If `x` and `y` need no gradient, the parameters inside still get theirs.",
        "gradient": "`x` and `y` (where they require a gradient)",
    },
}


def _net(streams: int, depths: list[int]) -> dict[str, object]:
    return {"streams": streams, **_STREAMS[streams], "depths": depths, "segments": len(depths), "layers": sum(depths)}


CARD = Card(
    title="Write activation checkpointing",
    **Worth(points=30, minutes=30, difficulty=5, importance=5),
    answers=("checkpoint",),
    text="""Write `checkpoint(function, *inputs)`: it returns what `function(*inputs)` returns but keeps nothing from
inside, and calls `function` again in the backward pass. Long sequences do not fit without it. `function` {{takes}};
it is a module or any other callable, with parameters anywhere inside.

- **Values.** {{gradient}} and all parameters inside get the gradients of a plain call. {{inputs}}
- **Once.** The backward pass calls each segment's `function` exactly once more, on the input of its first call.
- **Random numbers.** Dropout drops the same elements in both calls. Afterwards the generator is in the state it would
  have without checkpointing. Everything is on the CPU: use `torch.get_rng_state` and `torch.set_rng_state`.
- **Memory.** Between the passes only the segments' inputs and outputs are alive; at the peak, also the inside of one
  segment.
- Without gradients (`torch.no_grad`), `function` is called once.

The check runs {{layers:int}} layers in {{segments:int}} segments, where each output is the next segment's input, and
one `loss.backward()`. Every call of a layer leaves a trace in the gradients, so the check can see which call they came
from.""",
    hints=(
        "What is the least that you must keep to compute a segment again, and what calls your code at the right "
        "moment of the backward pass?",
        "A `torch.autograd.Function` has both halves. Its `forward` runs under `no_grad`; keep the input and the "
        "generator's state. Its `backward` detaches the input, runs `function` with gradients enabled, and sends the "
        "incoming gradient through that small graph. If no input needs a gradient, autograd never calls `backward`, "
        "so add an input that does.",
        "`with torch.enable_grad(): again = ctx.function(x.detach().requires_grad_())`, then "
        "`torch.autograd.backward(again, grad)` adds the parameters' gradients; return `x.grad`. Around it use "
        "`torch.random.fork_rng(devices=[])` and `torch.set_rng_state(ctx.state)`. Pass `torch.empty(0, "
        "requires_grad=True)` as an extra argument.",
    ),
    allowed="everything of torch except `torch.utils.checkpoint`.",
    returns=DictOf(
        {
            "output": ListOf(Tensor("the tensor that `function` returned"), what="stream"),
            "graph": Anything(),
            **{name: ListOf(ListOf(Maybe(Tensor()))) for name in ("gradients", "moved")},
            "input_gradients": ListOf(Maybe(Tensor())),
            "random": Tensor(),
            "calls": ListOf(Number()),
            **{name: Number("bytes") for name in ("kept", "peak")},
        }
    ),
    params=_net(1, [2, 2, 3, 2, 2, 3]),
    vary=lambda draw: _net(2, draw.choice(([2, 2, 3, 2, 2, 3], [3, 2, 2, 2, 3, 2], [2, 3, 2, 3, 2, 2]))),
    structural="streams",
    probe=checkpointing,
)
