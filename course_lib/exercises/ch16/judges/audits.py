"""Key of chapter 16's audit: the truth about each statement, and the number that each known mistake leads to."""

from course_lib.exercises.ch16.cards.audits import CAUSES, ITEMS
from course_lib.exercises.ch16.judges.memory import kv_bytes
from course_lib.judging import Mistake
from course_lib.judging.audit import audit, right, wrong
from course_lib.units import GB, HOUR, KB, MB

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

AUDITS = {
    "audit-serving": audit(
        ITEMS,
        KEYS,
        CAUSES,
        why=f"""Llama 3 70B keeps {_cache(1) / KB:.0f} kB a token, because only its 8 KV heads have keys and values. At 131,072 tokens that is {_cache(_LONG) / GB:.1f} GB; with 64 heads it
would be {_cache(_LONG, _HEADS) / GB:.0f}. At 4,096 tokens it is {_cache(_SHORT) / MB:,.0f} MB, and 168 MB is the share of one of eight GPUs. A step with four guesses brings {_KEPT:.2f} tokens and
costs 1.4 steps. Fifty tokens per second are 180,000 in an hour, so a million take more than five hours.""",
        pytorch="`vllm serve` prints the tokens that its cache holds, from which the first four follow.",
    )
}
