"""Cards of chapter 16 on the bytes of the KV cache: how many there are, and what is lost with fewer bits."""

from course_lib.exercises import Card, Worth
from course_lib.exercises.drilling import pick
from course_lib.exercises.probes import kept_rows, rows
from course_lib.exercises.returns import Number, Rows, Tensor, TupleOf

_MODELS = (
    {"model": "Llama 3 8B", "layers": 32, "heads": 32, "kv": 8, "size": 128},
    {"model": "Qwen2.5 32B", "layers": 64, "heads": 40, "kv": 8, "size": 128},
    {"model": "Llama 3 405B", "layers": 126, "heads": 128, "kv": 8, "size": 128},
)


KV_CACHE_BYTES = Card(
    id="kv-cache-bytes",
    chapter="16",
    title="Bytes of the KV cache",
    text="""The KV cache decides how many requests fit on a GPU. Write three functions that return its bytes for **one** sequence:

- `kv_bytes(layers, heads, kv_heads, size, number, tokens)`: `heads` query heads and `kv_heads` key and value heads of `size` numbers each, in every layer;
  a number takes `number` bytes, which may be less than 1. The sequence has `tokens` tokens.
- `windowed_bytes(layers, every, kv_heads, size, number, tokens, window)`: every `every`-th layer keeps all tokens. The others attend to the last `window`
  tokens only, and keep no more than those. `layers` is a multiple of `every`.
- `latent_bytes(layers, latent, rope, number, tokens)`: multi-head latent attention keeps one vector of `latent` numbers and one of `rope` numbers for each
  token and layer, from which keys and values of all heads are computed.

For example, {{model}} has {{layers}} layers, {{heads}} query heads and {{kv}} KV heads of {{size}} numbers; a sequence has {{tokens:int}} tokens in BF16.""",
    **Worth(points=4, minutes=5, difficulty=1, importance=5),
    hints=(
        "Which tensors does attention read of an earlier token? Which heads have them?",
        "A key and a value, `size` numbers each, for each KV head and layer. How many layers of the second function keep all tokens?",
        "`2 * layers * kv_heads * size * number * tokens`; `layers // every` layers with `tokens` and the rest with `min(tokens, window)`; "
        "`layers * (latent + rope) * number * tokens`.",
    ),
    answers=("kv_bytes", "windowed_bytes", "latent_bytes"),
    allowed="plain Python; the library's count is switched off.",
    hides=("serving.kv_cache:kv_bytes", "serving.kv_cache:kv_bytes_per_token", "serving.kv_cache:kv_numbers_per_token"),
    params={"model": "Llama 3 70B", "layers": 80, "heads": 64, "kv": 8, "size": 128, "tokens": 8192},
    vary=lambda draw: {**draw.choice(_MODELS), "tokens": draw.choice((2048, 4096, 16384, 32768))},
    probe=rows,
    returns=Rows(Number("bytes"), Number("bytes"), Number("bytes")),
)

QUANTIZE_KV = Card(
    id="quantize-kv",
    chapter="16",
    title="A KV cache of few bits",
    text="""Write a function that quantizes a KV cache and one that restores it. Keys have a few channels with large numbers, the same ones for all tokens; values do not.
So keys are quantized by channel and values by token, and one function can do both.

- `quantize(x, bits, dim)` returns `(codes, scale, low)`. Numbers of `x` that differ only in their index along `dim` form a group. `low` is the least number of
  each group, `scale` its largest minus its least number, divided by the largest code 2^bits − 1. A number's code is its distance from `low` in units of
  `scale`, rounded to the nearest whole number.
- `restore(codes, scale, low)` returns the numbers that the codes stand for.
- `codes` has the shape of `x` and dtype `torch.uint8`; `scale` and `low` have the dtype of `x` and size 1 along `dim`. `bits` is 1 to 8; the shown case has {{bits}}.
- Each number comes back with an error of at most half a `scale`. A group of equal numbers comes back exactly.
- `x` may have any number of dimensions and stays as it is; `dim` may be negative.""",
    **Worth(points=6, minutes=15, difficulty=2, importance=3),
    kind="more",
    hints=(
        "Which dimension do the numbers of one key channel differ in? What do `amin` and `amax` return with `keepdim=True`?",
        "A group of equal numbers has scale 0. What must its codes be, and what may they not be divided by?",
        "`low = x.amin(dim, keepdim=True)`; `scale = (x.amax(dim, keepdim=True) - low) / (2**bits - 1)`; `codes = ((x - low) / torch.where(scale > 0, scale, 1)).round()`.",
    ),
    answers=("quantize", "restore"),
    allowed="torch; the library's quantization is switched off.",
    hides=("serving.cache_bits:quantize", "serving.cache_bits:dequantize"),
    params={"bits": 4},
    vary=pick(bits=(2, 3, 5, 6)),
    probe=kept_rows,
    returns=Rows(TupleOf({"codes": Tensor(), "scale": Tensor(), "low": Tensor()}), Tensor()),
)
