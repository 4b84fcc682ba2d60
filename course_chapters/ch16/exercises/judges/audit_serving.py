from course_chapters.ch16.exercises.audit_serving import CAUSES, ITEMS
from course_grader.judging import Worked
from course_grader.judging.audit import audit
from course_lib.estimate.units import GB, KB, MB
from course_lib.operate.serving import kv_bytes_per_token

_TOKEN, _ALL_HEADS = kv_bytes_per_token("llama3-70b"), kv_bytes_per_token("llama3-70b", kind="MHA")

JUDGING = audit(
    ITEMS,
    Worked("audit-serving"),
    CAUSES,
    why=f"""Llama 3 70B keeps {_TOKEN / KB:.0f} kB a token, because only its 8 KV heads have keys and values. At
131,072 tokens that is {2**17 * _TOKEN / GB:.1f} GB; with 64 heads it would be {2**17 * _ALL_HEADS / GB:.0f}. At 4,096
tokens it is {4096 * _TOKEN / MB:,.0f} MB, and 168 MB is the share of one of eight GPUs. A step with four drafted
tokens yields {sum(0.8**count for count in range(5)):.2f} tokens and costs 1.4 steps. Fifty tokens per second are
180,000 in an hour, so a million take more than five hours.""",
    pytorch="`vllm serve` prints the tokens that its cache holds, from which the first four follow.",
)

ANSWERS = r'''# %% right: worked
def audit_serving() -> dict[str, tuple[float, str, str]]:
    """(number, "right" or "wrong", cause) of each statement, by id."""
    token = 2 * 80 * 8 * 128 * 2  # bytes of Llama 3 70B: 8 KV heads of 128 numbers in 80 layers, 16 bits
    kept = sum(0.8**count for count in range(5))  # tokens of a step with four guesses
    right = "right", "as printed"
    return {
        "opt-13b-token": (2 * 40 * 5120 * 2 / 1e3, *right),
        "llama-70b-128k": (token * 131_072 / 1e9, "wrong", "query heads"),
        "llama-70b-1m": (token * 1e6 / 1e9, *right),
        "llama-70b-4k": (token * 4096 / 1e6, "wrong", "one GPU's share"),
        "draft-four": (kept / (1 + 4 * 0.1), "wrong", "no token of its own"),
        "h200-70b-usd": (2.6 / (140 * 3600) * 1e6, *right),
        "h100-spot-usd": (2.5 / (50 * 3600) * 1e6, "wrong", "decimal point"),
        "deepseek-day-cost": (226.75 * 8 * 2 * 24, *right),
    }
# %% right: by hand, lists, other letters
# ~ (2 * 40 * 5120 * 2 / 1e3, *right) ==> [819.2, "Right", "As printed"]
# ~ (token * 131_072 / 1e9, "wrong", "query heads") ==> [42.9, "wrong", "Query heads"]
# ~ token * 1e6 / 1e9 ==> 328
# ~ token * 4096 / 1e6 ==> 1342
# ~ kept / (1 + 4 * 0.1) ==> 2.40
# ~ 2.6 / (140 * 3600) * 1e6 ==> 5.16
# ~ 2.5 / (50 * 3600) * 1e6 ==> 13.9
# ~ 226.75 * 8 * 2 * 24 ==> 87072
# %% wrong: keys only => values
# > both a key and a value are kept.
# ~ 2 * 80 * ==> 80 *
# ~ (2 * 40 * ==> (40 *
# %% wrong: a key for each query head => values query-heads
# > this has a key for each query head; the model has 8 KV heads.
# ~ 80 * 8 * ==> 80 * 64 *
# %% wrong: 160 MB => values as-printed
# > recompute it with all 8 KV heads.
# ~ token * 4096 / 1e6 ==> 160
# %% wrong: a speedup of 1.687 => values as-printed
# > count the tokens of a step again: which one comes even if every drafted token is rejected?
# ~ kept / (1 + 4 * 0.1) ==> 1.687
# %% wrong: 14 cents => values as-printed
# > multiply it out: dollars per hour over tokens per hour.
# ~ 2.5 / (50 * 3600) * 1e6 ==> 0.14
# %% wrong: guesses are free => values free-guesses
# > the drafted tokens cost time, too.
# ~ kept / (1 + 4 * 0.1) ==> kept
# %% wrong: per second => values
# > the price is for an hour, the speed for a second.
# ~ (140 * 3600) ==> 140
# %% wrong: one GPU a node => values one-gpu-a-node
# > a node has eight GPUs.
# ~ 226.75 * 8 ==> 226.75
# %% wrong: one hour => values
# > this is the cost of one hour.
# ~ 2 * 24 ==> 2
'''
