from course_grader.exercises import Card, Number, Rows, Worth

_MODELS = (
    {"model": "Llama 3 8B", "layers": 32, "heads": 32, "kv": 8, "size": 128},
    {"model": "Qwen2.5 32B", "layers": 64, "heads": 40, "kv": 8, "size": 128},
    {"model": "Llama 3 405B", "layers": 126, "heads": 128, "kv": 8, "size": 128},
)


CARD = Card(
    title="Bytes of the KV cache",
    text="""The KV cache decides how many requests fit on a GPU. Write three functions that return its bytes for **one**
sequence:

- `kv_bytes(layers, heads, kv_heads, size, number, tokens)`: each of the `layers` layers has `heads` query heads
  and `kv_heads` KV heads of width `size`. A number takes `number` bytes, which may be less than 1. The sequence has
  `tokens` tokens.
- `windowed_bytes(layers, every, kv_heads, size, number, tokens, window)`: every `every`-th layer keeps all tokens. The
  others attend to the last `window` tokens only, and keep no more than those. `layers` is a multiple of `every`.
- `latent_bytes(layers, latent, rope, number, tokens)`: multi-head latent attention keeps one vector of `latent` numbers
  and one of `rope` numbers for each token and layer, from which keys and values of all heads are computed.

For example, {{model}} has {{layers}} layers, {{heads}} query heads and {{kv}} KV heads of width {{size}}; a sequence
has {{tokens:int}} tokens in BF16.""",
    **Worth(points=4, minutes=5, difficulty=1, importance=5),
    hints=(
        "Which tensors of an earlier token does attention read? Which heads have them?",
        "A key and a value, `size` numbers each, for each KV head and layer. How many layers of the second function "
        "keep all tokens?",
        "`2 * layers * kv_heads * size * number * tokens`; `layers // every` layers with `tokens` and the rest with "
        "`min(tokens, window)`; `layers * (latent + rope) * number * tokens`.",
    ),
    answers=("kv_bytes", "windowed_bytes", "latent_bytes"),
    allowed="plain Python; the library's count is switched off.",
    hides=("course_lib.operate.serving.kv_cache:kv_bytes, kv_bytes_per_token, kv_numbers_per_token",),
    params={"model": "Llama 3 70B", "layers": 80, "heads": 64, "kv": 8, "size": 128, "tokens": 8192},
    vary=lambda draw: {**draw.choice(_MODELS), "tokens": draw.choice((2048, 4096, 16384, 32768))},
    returns=Rows(Number("bytes"), Number("bytes"), Number("bytes")),
)
