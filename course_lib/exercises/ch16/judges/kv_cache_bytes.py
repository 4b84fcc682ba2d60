"""Judge of kv-cache-bytes: bytes of the KV cache."""

import random

from course_lib.exercises.ch16.judges.shared import kv_bytes
from course_lib.judging import Judging, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import EXACT, Column, shares, table
from course_lib.judging.draws import draw_rows, each_changed, generality, plain
from course_lib.judging.mistakes import mistakes, scaled
from course_lib.records import Case


def windowed(layers: int, every: int, kv_heads: int, size: int, number: float, tokens: int, window: int) -> float:
    """The same where only every `every`-th layer keeps more than the last `window` tokens."""
    whole = layers // every
    return 2 * kv_heads * size * number * (whole * tokens + (layers - whole) * min(tokens, window))


def latent(layers: int, width: int, rope: int, number: float, tokens: int) -> float:
    """Bytes of the latent vectors of one sequence."""
    return layers * (width + rope) * number * tokens


KV = Column(
    part="grouped",
    unit="bytes",
    want=kv_bytes,
    words=lambda la, q, kv, s, b, t: (
        f"{la} layers, {kv} of {q} heads with keys, {s} numbers of {b:g} bytes, {t:,} tokens"
    ),
    rel=EXACT,
    mistakes=mistakes(
        {
            "query-heads": lambda la, q, kv, *row: kv_bytes(la, q, q, *row),
            "keys-only": scaled(kv_bytes, 0.5),
            "one-token": lambda *row: kv_bytes(*row[:5], 1),
            "two-bytes": lambda la, q, kv, s, b, t: kv_bytes(la, q, kv, s, 2, t),
        },
        {
            "query-heads": "this is a key and a value for each query head; several of them share one.",
            "keys-only": "this is either keys or values; both are kept.",
            "one-token": "these are the bytes of one token.",
            "two-bytes": "this takes two bytes a number, whatever `number` says.",
        },
    ),
)

WINDOW = Column(
    part="windows",
    unit="bytes",
    want=windowed,
    words=lambda la, e, kv, s, b, t, w: f"{la} layers, 1 in {e} keeps all of {t:,} tokens, the others {w:,}",
    rel=EXACT,
    mistakes=mistakes(
        {
            "always-a-window": lambda la, e, kv, s, b, t, w: 2 * kv * s * b * (la // e * t + (la - la // e) * w),
            "all-windowed": lambda la, e, kv, s, b, t, w: 2 * kv * s * b * la * min(t, w),
            "swapped": lambda la, e, kv, s, b, t, w: 2 * kv * s * b * ((la - la // e) * t + la // e * min(t, w)),
            "keys-only": scaled(windowed, 0.5),
        },
        {
            "always-a-window": "a sequence shorter than the window fills only part of it.",
            "all-windowed": "some layers keep all tokens.",
            "swapped": "every `every`-th layer keeps all tokens, and the others keep the window.",
            "keys-only": "this is either keys or values; both are kept.",
        },
    ),
)

LATENT = Column(
    part="latent",
    unit="bytes",
    want=latent,
    words=lambda la, w, r, b, t: f"{la} layers, a latent of {w} and {r} numbers, {t:,} tokens",
    rel=EXACT,
    mistakes=mistakes(
        {
            "two-bytes": lambda la, w, r, b, t: latent(la, w, r, 2, t),
            "keys-and-values": scaled(latent, 2),
            "no-rope": lambda la, w, r, *row: latent(la, w, 0, *row),
        },
        {
            "two-bytes": "this takes two bytes a number, whatever `number` says.",
            "keys-and-values": "keys and values come from the same vector, which is kept once.",
            "no-rope": "the `rope` numbers are kept, too.",
        },
    ),
)


def _byte_cases(params: Params, rng: random.Random) -> list[Case]:
    kv = draw_rows(rng, 6, range(4, 90), (32, 48, 64), (1, 2, 4, 8, 16), (64, 96, 128), (2, 1, 0.5), range(100, 9000))
    window = draw_rows(
        rng, 6, (12, 24, 36, 48), (2, 3, 4, 6), (1, 4, 8), (64, 128), (2, 1, 0.5), range(3000, 9000), range(128, 2900)
    )
    short = [(12, 3, 2, 64, 2, tokens, 512) for tokens in (1, 511, 512, 513)] + [
        (8, 1, 2, 64, 1, 700, 512),
        (6, 6, 1, 32, 2, 900, 1),
    ]
    latents = draw_rows(rng, 5, range(4, 70), (256, 512, 768), (32, 64), (2, 1), range(100, 9000))
    kv += each_changed((20, 64, 2, 72, 2, 77), (21, 128, 64, 128, 0.28125, 200_000))
    window += each_changed((12, 3, 2, 64, 2, 700, 512), (24, 2, 32, 72, 0.28125, 200_000, 600))
    latents += each_changed((27, 512, 64, 2, 4000), (60, 256, 128, 0.28125, 200_000))
    return [
        shown(
            params["model"],
            "values:grouped",
            0,
            [(params["layers"], params["heads"], params["kv"], params["size"], 2, params["tokens"])],
        ),
        shown("every sixth layer keeps all tokens", "values:windows", 1, [(48, 6, 8, 128, 2, 8192, 1024)]),
        shown("a latent vector", "values:latent", 2, [(61, 512, 64, 2, 4096)]),
        plain("grouped", 0, "other models", [*kv, (20, 16, 16, 64, 2, 77), (3, 8, 1, 128, 0.5, 1)]),
        plain("windows", 1, "other models", window),
        plain("latent", 2, "other models", latents),
        generality("windows", 1, "sequences around the window's length", short),
    ]


JUDGING = Judging(
    shares=shares(grouped=(0.5, 0), windows=(0.125, 0.125), latent=(0.25, 0)),
    cases=_byte_cases,
    verdicts=table(KV, WINDOW, LATENT),
    why="""Attention reads a key and a value of each earlier token, in each layer and for each KV head. Query heads need no cache: a query is used once. Grouped-query attention
divides the cache by the query heads that share a key, a window bounds it, and a latent vector replaces all heads' keys and values.""",
    pytorch="`model.config.num_key_value_heads` of a Hugging Face model; `DynamicCache` and `StaticCache` hold these tensors.",
)

ANSWERS = r"""# %% right: as written
def kv_bytes(layers, heads, kv_heads, size, number, tokens):
    return 2 * layers * kv_heads * size * number * tokens


def windowed_bytes(layers, every, kv_heads, size, number, tokens, window):
    whole = layers // every
    kept = whole * tokens + (layers - whole) * min(tokens, window)
    return 2 * kv_heads * size * number * kept


def latent_bytes(layers, latent, rope, number, tokens):
    return layers * (latent + rope) * number * tokens


# %% right: layer by layer, a float  from: as written
# ~ return 2 * layers * kv_heads * size * number * tokens ==> return layers * kv_heads * size * tokens * 2 * float(number)
# -     whole = layers // every
# -     kept = whole * tokens + (layers - whole) * min(tokens, window)
# +     kept = sum(min(window, tokens) if layer % every else tokens for layer in range(layers))

# %% wrong: query heads => values query-heads  from: as written
# ~ layers * kv_heads * size ==> layers * heads * size

# %% wrong: keys without values => values keys-only  from: as written
# ~ 2 * layers ==> layers

# %% wrong: one token => values one-token  from: as written
# ~ size * number * tokens ==> size * number

# %% wrong: two bytes each => values two-bytes  from: as written
# ~ size * number * tokens ==> size * 2 * tokens

# %% wrong: the window is always full => generality always-a-window  from: as written
# ~ min(tokens, window) ==> window

# %% wrong: all layers have a window => values all-windowed  from: as written
# ~ whole * tokens + (layers - whole) ==> layers

# %% wrong: the wrong layers keep everything => values swapped  from: as written
# ~ whole * tokens + (layers - whole) ==> (layers - whole) * tokens + whole

# %% wrong: latent keys and values => values keys-and-values  from: as written
# ~ return layers * (latent + rope) * number * tokens ==> return 2 * layers * (latent + rope) * number * tokens

# %% wrong: a latent in two bytes => values two-bytes  from: as written
# ~ (latent + rope) * number * tokens ==> (latent + rope) * 2 * tokens

# %% wrong: the example => values only-the-example  from: as written
# ~ return 2 * layers * kv_heads * size * number * tokens ==> return 2684354560
# ~ return 2 * kv_heads * size * number * kept ==> return 436207616
# ~ return layers * (latent + rope) * number * tokens ==> return 287834112

# %% wrong: remembers bytes a token by layers and heads => values -  from: as written
# ~ heads, kv_heads, size, number, tokens): ==> heads, kv_heads, size, number, tokens, kept={}):
# ~ return 2 * layers * kv_heads * size * number * tokens ==> return tokens * kept.setdefault((layers, heads, kv_heads, size), 2 * layers * kv_heads * size * number)

# %% wrong: left as it is => not-answered  from: as written
# ~ return 2 * layers * kv_heads * size * number * tokens ==> raise NotImplementedError

# %% half: no window => 3  from: as written
# ~ whole * tokens + (layers - whole) * min(tokens, window) ==> layers * tokens
"""
