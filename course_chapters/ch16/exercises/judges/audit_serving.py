"""Judge of audit-serving: audit: what was printed about serving."""

from course_chapters.ch16.exercises.audit_serving import CAUSES, ITEMS
from course_chapters.ch16.exercises.judges.shared import kv_bytes
from course_grader.judging import Mistake
from course_grader.judging.audit import audit, right, wrong
from course_lib.estimate.units import GB, HOUR, KB, MB

_LAYERS, _HEADS, _KV, _SIZE = 80, 64, 8, 128  # Llama 3 70B


def _cache(tokens: int, kv: int = _KV) -> float:
    """Bytes of one sequence of Llama 3 70B in 16 bits."""
    return kv_bytes(_LAYERS, _HEADS, kv, _SIZE, 2, tokens)


def _query_heads(tokens: int, unit: float) -> Mistake:
    said = "this has a key for each query head; the model has 8 KV heads."
    return Mistake("query-heads", _cache(tokens, _HEADS) / unit, said)


def _usd(hourly: float, speed: float) -> float:
    """Dollars for a million tokens of a GPU that is always busy."""
    return hourly / HOUR / speed * 1e6


_OPT = kv_bytes(40, 40, 40, 128, 2, 1)
_LONG, _MILLION, _SHORT = 131_072, 1_000_000, 4096
_KEPT = sum(0.8**each for each in range(5))  # tokens of a step with four guesses
_DAY = 226.75 * 8 * 2 * 24

KEYS = {
    "opt-13b-token": right(_OPT / KB, Mistake("keys-only", _OPT / KB / 2, "both a key and a value are kept.")),
    "llama-70b-128k": wrong(
        _cache(_LONG) / GB,
        "query heads",
        Mistake("as-printed", 340.0, "recompute it with the KV heads of the model."),
        _query_heads(_LONG, GB),
    ),
    "llama-70b-1m": right(
        _cache(_MILLION) / GB,
        _query_heads(_MILLION, GB),
        Mistake("keys-only", _cache(_MILLION) / GB / 2, "both a key and a value are kept."),
    ),
    "llama-70b-4k": wrong(
        _cache(_SHORT) / MB,
        "one GPU's share",
        Mistake("as-printed", 160.0, "recompute it with all 8 KV heads."),
        _query_heads(_SHORT, MB),
    ),
    "draft-four": wrong(
        _KEPT / 1.4,
        "no token of its own",
        Mistake("as-printed", 1.687, "count the tokens of a step again: which one comes even if no guess is kept?"),
        Mistake("free-guesses", _KEPT, "the guesses cost time, too."),
    ),
    "h200-70b-usd": right(
        _usd(2.60, 140),
        Mistake("per-second", _usd(2.60, 140) * 3600, "the price is for an hour, the speed for a second."),
    ),
    "h100-spot-usd": wrong(
        _usd(2.50, 50),
        "decimal point",
        Mistake("as-printed", 0.14, "multiply it out: dollars per hour over tokens per hour."),
    ),
    "deepseek-day-cost": right(
        _DAY,
        Mistake("one-gpu-a-node", _DAY / 8, "a node has eight GPUs."),
        Mistake("one-hour", _DAY / 24, "this is an hour."),
    ),
}


JUDGING = audit(
    ITEMS,
    KEYS,
    CAUSES,
    why=f"""Llama 3 70B keeps {_cache(1) / KB:.0f} kB a token, because only its 8 KV heads have keys and values. At 131,072 tokens that is {_cache(_LONG) / GB:.1f} GB; with 64 heads it
would be {_cache(_LONG, _HEADS) / GB:.0f}. At 4,096 tokens it is {_cache(_SHORT) / MB:,.0f} MB, and 168 MB is the share of one of eight GPUs. A step with four guesses brings {_KEPT:.2f} tokens and
costs 1.4 steps. Fifty tokens per second are 180,000 in an hour, so a million take more than five hours.""",
    pytorch="`vllm serve` prints the tokens that its cache holds, from which the first four follow.",
)

ANSWERS = r"""OK = ("right", "as printed")
GOOD = {
    "opt-13b-token": (819.2, *OK),
    "llama-70b-128k": (42.9, "wrong", "query heads"),
    "llama-70b-1m": (328, *OK),
    "llama-70b-4k": (1342, "wrong", "one GPU's share"),
    "draft-four": (2.40, "wrong", "no token of its own"),
    "h200-70b-usd": (5.16, *OK),
    "h100-spot-usd": (13.9, "wrong", "decimal point"),
    "deepseek-day-cost": (87072, *OK),
}


# %% right: by hand
def audit_serving():
    return GOOD


# %% right: by formula, lists, other letters  from: by hand
# -     return GOOD
# +     token = 2 * 80 * 8 * 128 * 2
# +     return GOOD | {
# +         "opt-13b-token": [2 * 40 * 5120 * 2 / 1e3, "Right", "As printed"],
# +         "llama-70b-128k": [token * 2**17 / 1e9, "wrong", "Query heads"],
# +         "draft-four": [(1 - 0.8**5) / (1 - 0.8) / (1 + 4 * 0.1), "wrong", "no token of its own"],
# +         "h100-spot-usd": [2.5 / (50 * 3600) * 1e6, "wrong", "decimal point"],
# +     }

# %% wrong: everything is right => values -  from: by hand
# ~ GOOD ==> {name: (number, *OK) for name, (number, _, _) in GOOD.items()}

# %% wrong: everything is wrong => values -  from: by hand
# ~ GOOD ==> {name: (number, "wrong", "query heads" if (judgment, cause) == OK else cause) for name, (number, judgment, cause) in GOOD.items()}

# %% wrong: the printed numbers => values as-printed  from: by hand
# ~ GOOD ==> {name: (number, *OK) for name, number in zip(GOOD, (800, 340, 320, 160, 1.687, 5.16, 0.14, 87072))}

# %% wrong: a key for each query head => values query-heads  from: by hand
# ~ GOOD ==> GOOD | {"llama-70b-1m": (2621, "wrong", "query heads")}

# %% wrong: guesses are free => values free-guesses  from: by hand
# ~ GOOD ==> GOOD | {"draft-four": (3.36, "wrong", "no token of its own")}

# %% wrong: one GPU a node => values one-gpu-a-node  from: by hand
# ~ GOOD ==> GOOD | {"deepseek-day-cost": (10884, "wrong", "always busy")}

# %% wrong: another cause => values wrong-cause  from: by hand
# ~ GOOD ==> GOOD | {"llama-70b-4k": (1342, "wrong", "query heads")}

# %% wrong: left as it is => not-answered  from: by hand
# ~ return GOOD ==> raise NotImplementedError

# %% half: one statement is missing => 7  from: by hand
# ~ GOOD ==> {name: answer for name, answer in GOOD.items() if name != "h200-70b-usd"}
"""
