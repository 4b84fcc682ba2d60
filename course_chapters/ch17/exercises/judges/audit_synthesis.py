"""Judge of audit-synthesis: audit: would you sign this plan?"""

from course_chapters.ch17.exercises.audit_synthesis import CAUSES, ITEMS
from course_grader.judging import Mistake
from course_grader.judging.audit import audit, right, wrong
from course_lib.estimate import facts
from course_lib.estimate.units import BILLION, DAY, TFLOP

_PEAK = float(facts.device("H100 SXM").dense_flops)
_LLAMA_FULL = 6 * 405 * BILLION * 15e12 / (24_576 * _PEAK) / DAY
_INSIDE, _ACROSS = 3 * 7 / 8, 2 * 3071 / 3072 / 8


def _megatron_days(tokens: float, parameters: float, gpus: int, reached: float) -> float:
    """Days of a run that recomputes every layer: 8 FLOPs for each parameter and token."""
    return 8 * tokens * parameters / (gpus * reached) / DAY


_GPT3 = _megatron_days(300 * BILLION, 175 * BILLION, 1024, 140 * TFLOP)
_TRILLION = _megatron_days(450 * BILLION, 1000 * BILLION, 3072, 163 * TFLOP)

KEYS = {
    "fsdp-table-three": wrong(
        1.5,
        "collectives for bytes",
        Mistake("as-printed", 3.0, "three collectives against one; how many bytes does each of them send?"),
        Mistake("upside-down", 1 / 1.5, "this is data parallelism over FSDP."),
        Mistake("kept", 1.0, "the weights are gathered for the forward pass and again for the backward pass."),
    ),
    "gpt3-34-days": right(
        _GPT3,
        Mistake("six", 0.75 * _GPT3, "this run recomputes: 8 FLOPs for each parameter and token, as in brackets."),
    ),
    "hsdp-third-across": wrong(
        _INSIDE / _ACROSS,
        "whole for a shard",
        Mistake("as-printed", 3.0, "this sends the whole model across. What does one rank average with its copies?"),
        Mistake("no-all-reduce", 2 * _INSIDE / _ACROSS, "an all-reduce sends the shard twice."),
        Mistake("upside-down", _ACROSS / _INSIDE, "this is across over inside."),
    ),
    "deepseek-3.7-days": right(180e3 / 2048 / 24, Mistake("hours", 180e3 / 2048, "these are hours.")),
    "llama3-17-days": wrong(
        _LLAMA_FULL / 0.4,
        "full speed",
        Mistake("as-printed", _LLAMA_FULL, "this is at 100 % of the peak. What else does the statement name?"),
        Mistake("multiplied", _LLAMA_FULL * 0.4, "a lower utilization makes it longer."),
    ),
    "llama3-compute": right(
        6 * 405 * BILLION * 15.6e12, Mistake("two", 2 * 405 * BILLION * 15.6e12, "forward and backward are 6 FLOPs.")
    ),
    "forty-percent-burns-sixty": wrong(
        1 - 0.40 / 0.50,
        "another baseline",
        Mistake("as-printed", 0.60, "that is against 100 % of the peak, which no run reaches."),
        Mistake("points", 0.10, "these are percentage points of the peak, not a share of the money."),
        Mistake("extra", 0.50 / 0.40 - 1, "this is the extra work for the same money, not the money lost."),
    ),
    "trillion-84-days": right(
        _TRILLION,
        Mistake("six", 0.75 * _TRILLION, "this run recomputes: 8 FLOPs for each parameter and token, as in brackets."),
    ),
}


JUDGING = audit(
    ITEMS,
    KEYS,
    CAUSES,
    why=f"""Four habits catch these. Count bytes, not collectives: an all-reduce is two of them, so FSDP sends {KEYS["fsdp-table-three"].number:g} times what data
parallelism sends. Ask whose bytes: across servers, HSDP sends a shard, a {KEYS["hsdp-third-across"].number:.3g}th of its traffic inside. Ask at which utilization: the run takes
{KEYS["llama3-17-days"].number:.3g} days at the rate that the statement names. And ask compared with what: nobody can buy 100 % of a peak.""",
    pytorch="`CommDebugMode` counts collectives; `torch.profiler` shows how long each took, and so how many bytes it can have moved.",
)

ANSWERS = r"""OK = ("right", "as printed")
GOOD = {
    "fsdp-table-three": (1.5, "wrong", "collectives for bytes"),
    "gpt3-34-days": (33.9, *OK),
    "hsdp-third-across": (10.5, "wrong", "whole for a shard"),
    "deepseek-3.7-days": (3.66, *OK),
    "llama3-17-days": (43.4, "wrong", "full speed"),
    "llama3-compute": (3.79e25, *OK),
    "forty-percent-burns-sixty": (0.2, "wrong", "another baseline"),
    "trillion-84-days": (83.2, *OK),
}


# %% right: by hand
def audit_synthesis():
    return GOOD


# %% right: by formula  from: by hand
# -     return GOOD
# +     def days(flops, gpus, reached):
# +         return flops / (gpus * reached) / 86400
# +     return GOOD | {
# +         "gpt3-34-days": [days(8 * 300e9 * 175e9, 1024, 140e12), "Right", "As printed"],
# +         "llama3-17-days": [days(3.645e25, 24576, 0.4 * 989e12), "wrong", "full speed"],
# +         "trillion-84-days": [days(8 * 450e9 * 1e12, 3072, 163e12), *OK],
# +         "deepseek-3.7-days": [180e3 / 2048 / 24, *OK],
# +     }

# %% wrong: everything is right => values -  from: by hand
# ~ GOOD ==> {name: (number, *OK) for name, (number, _, _) in GOOD.items()}


# %% wrong: everything is wrong => values -  from: by hand
# ~ GOOD ==> {name: (number, "wrong", "full speed" if why == OK[1] else why) for name, (number, _, why) in GOOD.items()}


# %% wrong: the printed numbers => values as-printed  from: by hand
# ~ GOOD ==> {name: (number, *OK) for name, number in zip(GOOD, (3, 34, 3, 3.7, 17, 3.8e25, 0.6, 84))}

# %% wrong: six FLOPs where it recomputes => values six  from: by hand
# ~ GOOD ==> GOOD | {"gpt3-34-days": (25.4, "wrong", "full speed")}

# %% wrong: another cause => values wrong-cause  from: by hand
# ~ GOOD ==> GOOD | {"forty-percent-burns-sixty": (0.2, "wrong", "full speed")}

# %% wrong: left as it is => not-answered  from: by hand
# ~ return GOOD ==> raise NotImplementedError


# %% half: one statement is missing => 7  from: by hand
# ~ GOOD ==> {name: answer for name, answer in GOOD.items() if name != "llama3-compute"}
"""
