from course_grader.exercises import Card, Maybe, Number, Rows, Worth

_GPUS = (
    {"flops": 312e12, "bandwidth": 2.0e12},
    {"flops": 362e12, "bandwidth": 0.86e12},
    {"flops": 989e12, "bandwidth": 4.8e12},
)

CARD = Card(
    title="Seconds of a prefill and of a decode step",
    text="""Predict how long a GPU takes for a prompt and for the next token of a batch, with the roofline of
chapter 03. Write three functions. `params` is the number of parameters, each of `number` bytes; `flops` and
`bandwidth` are the GPU's FLOP/s and bytes per second. Whichever takes longer, computing or reading, sets the time.

- `prefill_seconds(params, layers, width, tokens, number, flops, bandwidth)`: one prompt of `tokens` tokens. Computing
  takes 2 FLOPs per parameter and token. In each of `layers` layers, every token also attends to **itself and all tokens
  before it**, at 4 · `width` FLOPs per pair. Only the weights are read, once.
- `decode_seconds(params, number, kv, batch, context, flops, bandwidth)`: one more token for each of `batch` requests.
  Each request has `context` tokens in the cache, at `kv` bytes per token. Computing takes 2 FLOPs per parameter and
  token. The weights are read once, and so is the whole cache.
- `ridge_batch(params, number, kv, context, flops, bandwidth)`: the smallest batch for which computing takes **at least
  as long** as reading in `decode_seconds`, or None if there is no such batch.

For example, {{params:count}} parameters of {{number}} bytes on a GPU with {{flops:tflops}} and {{bandwidth:gbps}}.""",
    **Worth(points=8, minutes=15, difficulty=2, importance=5),
    needs=("03",),
    hints=(
        "Which of the bytes are read once for all requests, and which once for each request?",
        "A prompt of n tokens has n · (n + 1) / 2 pairs. For the third function, how much longer does one more "
        "request make computing, and how much longer reading?",
        "Each further request adds `2 * params / flops` to computing and `kv * context / bandwidth` to reading. With "
        "the difference d of the two, the batch is `ceil(params * number / bandwidth / d)`, and there is none if d is "
        "not positive.",
    ),
    answers=("prefill_seconds", "decode_seconds", "ridge_batch"),
    allowed="`math` and plain Python; the library's deployments are switched off.",
    hides=("course_lib.operate.serving.speed:prefill_seconds, decode_seconds, ridge_batch",),
    params={"params": 8e9, "number": 2, "flops": 989e12, "bandwidth": 3.35e12},
    vary=lambda draw: {"params": draw.choice((3e9, 13e9, 14e9, 32e9)), **draw.choice(_GPUS)},
    returns=Rows(Number("seconds"), Number("seconds"), Maybe(Number("requests", whole=True))),
)
