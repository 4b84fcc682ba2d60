from course_grader.judging import EXACT, Case, Column, Judging, Params, Random, Worked, shares, shown, table
from course_grader.judging.random_inputs import draw_rows, each_changed, generality, plain

right = Worked("kv-cache-bytes")

_GROUPED = (
    "{layers} layers, {kv_heads} of {heads} heads with keys, {size} numbers of {number:g} bytes, {tokens:,} tokens"
)
_WINDOWED = "{layers} layers, 1 in {every} keeps all of {tokens:,} tokens, the others {window:,}"
_LATENT = "{layers} layers, a latent of {latent} and {rope} numbers, {tokens:,} tokens"


def _byte_cases(params: Params, rng: Random) -> list[Case]:
    kv = draw_rows(rng, 6, range(4, 90), (32, 48, 64), (1, 2, 4, 8, 16), (64, 96, 128), (2, 1, 0.5), range(100, 9000))
    windows = (12, 24, 36, 48), (2, 3, 4, 6), (1, 4, 8), (64, 128), (2, 1, 0.5), range(3000, 9000), range(128, 2900)
    window = draw_rows(rng, 6, *windows)
    short = [(12, 3, 2, 64, 2, tokens, 512) for tokens in (1, 511, 512, 513)]
    short += [(8, 1, 2, 64, 1, 700, 512), (6, 6, 1, 32, 2, 900, 1)]
    latents = draw_rows(rng, 5, range(4, 70), (256, 512, 768), (32, 64), (2, 1), range(100, 9000))
    kv += each_changed((20, 64, 2, 72, 2, 77), (21, 128, 64, 128, 0.28125, 200_000))
    window += each_changed((12, 3, 2, 64, 2, 700, 512), (24, 2, 32, 72, 0.28125, 200_000, 600))
    latents += each_changed((27, 512, 64, 2, 4000), (60, 256, 128, 0.28125, 200_000))
    own = *(params[name] for name in ("layers", "heads", "kv", "size")), 2, params["tokens"]
    return [
        shown(params["model"], "values:grouped", 0, [own]),
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
    verdicts=table(
        Column("grouped", "bytes", words=right.words(0, _GROUPED), rel=EXACT),
        Column("windows", "bytes", words=right.words(1, _WINDOWED), rel=EXACT),
        Column("latent", "bytes", words=right.words(2, _LATENT), rel=EXACT),
        right=right,
    ),
    why="""Attention reads a key and a value of each earlier token, in each layer and for each KV head. Query heads need
no cache: a query is used once. Grouped-query attention divides the cache by the query heads that share a key, a window
bounds it, and a latent vector replaces all heads' keys and values.""",
    pytorch="`model.config.num_key_value_heads` of a Hugging Face model; `DynamicCache` and `StaticCache` hold "
    "these tensors.",
)

ANSWERS = r'''# %% right: worked
def kv_bytes(layers: int, heads: int, kv_heads: int, size: int, number: float, tokens: int) -> float:
    """Bytes of the keys and values of one sequence."""
    return 2 * layers * kv_heads * size * number * tokens


def windowed_bytes(layers: int, every: int, kv_heads: int, size: int, number: float, tokens: int, window: int) -> float:
    """The same where only every `every`-th layer keeps more than the last `window` tokens."""
    whole = layers // every
    return 2 * kv_heads * size * number * (whole * tokens + (layers - whole) * min(tokens, window))


def latent_bytes(layers: int, latent: int, rope: int, number: float, tokens: int) -> float:
    """Bytes of the latent vectors of one sequence."""
    return layers * (latent + rope) * number * tokens
# %% right: layer by layer, a float
# ~ 2 * layers * kv_heads * size * number * tokens ==> layers * kv_heads * size * tokens * 2 * float(number)
# ~ (whole * tokens + (layers - whole) * min(tokens, window))
# ~~ ==> sum(min(window, tokens) if layer % every else tokens for layer in range(layers))
# %% wrong: query heads => values
# > this counts a key and a value for each query head; several query heads share one KV head.
# ~ 2 * layers * kv_heads ==> 2 * layers * heads
# %% wrong: keys only => values
# > this is either keys or values; both are kept.
# ~ 2 * layers * kv_heads ==> layers * kv_heads
# %% wrong: keys only in the windows => values keys-only
# ~ 2 * kv_heads * size ==> kv_heads * size
# %% wrong: one token => values
# > these are the bytes of one token.
# ~ kv_heads * size * number * tokens ==> kv_heads * size * number
# %% wrong: two bytes => values
# > this counts two bytes per number, whatever `number` says.
# ~ kv_heads * size * number * tokens ==> kv_heads * size * 2 * tokens
# %% wrong: at least one byte => values
# > a number may take less than one byte.
# ~ kv_heads * size * number * tokens ==> kv_heads * size * max(1, number) * tokens
# %% wrong: a latent in two bytes => values two-bytes
# ~ (latent + rope) * number ==> (latent + rope) * 2
# %% wrong: always a window => generality
# > a sequence shorter than the window fills only part of it.
# ~ min(tokens, window) ==> window
# %% wrong: all windowed => values
# > some layers keep all tokens.
# ~ whole * tokens + (layers - whole) ==> layers
# %% wrong: swapped => values
# > every `every`-th layer keeps all tokens, and the others keep the window.
# ~ whole * tokens + (layers - whole) ==> (layers - whole) * tokens + whole
# %% wrong: every as a number of layers => values
# > one layer in `every` keeps all tokens; here `every` layers do.
# ~ whole = layers // every ==> whole = every
# %% wrong: none windowed => values
# > all layers keep all tokens here; most keep the window only.
# ~ whole * tokens + (layers - whole) * min(tokens, window) ==> layers * tokens
# %% wrong: keys and values => values
# > keys and values come from the same vector, which is kept once.
# ~ return layers * (latent ==> return 2 * layers * (latent
# %% wrong: one rope for all layers => values
# > each layer keeps its own `rope` numbers.
# ~ layers * (latent + rope) ==> (layers * latent + rope)
# %% wrong: no rope => values
# > the `rope` numbers are kept, too.
# ~ (latent + rope) ==> latent
# %% wrong: the example => values only-the-example
# ~ return 2 * layers * kv_heads * size * number * tokens ==> return 2684354560
# ~ return 2 * kv_heads * size * number * (whole * tokens + (layers - whole) * min(tokens, window)) ==> return 436207616
# ~ return layers * (latent + rope) * number * tokens ==> return 287834112
# %% half: no window => 3  from: none windowed
'''
