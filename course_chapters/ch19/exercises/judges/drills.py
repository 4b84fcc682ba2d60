"""Answers to chapter 19's drills."""

from course_grader.judging import Mistake, Times, drill_key
from course_lib.estimate.units import GB

DRILLS = {
    "lora-parameters": drill_key(
        lambda p: p["rank"] * (p["wide"] + p["high"]),
        "{{rank}} · ({{wide:int}} + {{high:int}}) = {{answer}}.",
        Mistake("whole", lambda p: p["wide"] * p["high"], "That is the whole matrix."),
        Mistake("one-adapter", lambda p: p["rank"] * p["wide"], "That is one of the two adapters."),
    ),
    "group-advantage": drill_key(
        lambda p: 1 - p["good"] / p["size"],
        "1 − {{good}} / {{size}} = {{answer}}.",
        Mistake("mean", lambda p: p["good"] / p["size"], "That is the mean of the group; subtract it from the reward."),
    ),
    "sync-seconds": drill_key(
        lambda p: 2 * p["params"] / p["tp"] / (p["rate"] * GB),
        "2 · {{params:count}} bytes / {{tp}} / ({{rate}} GB/s) = {{answer}} s.",
        Mistake("whole-model", Times(lambda p: p["tp"]), "Each GPU receives only its part."),
        Mistake("one-byte", Times(0.5), "A weight has 2 bytes."),
    ),
    "frozen-bytes": drill_key(
        lambda p: 2 * p["params"] / p["gpus"] / GB,
        "2 · {{params:count}} bytes / {{gpus}} = {{answer}} GB.",
        Mistake("trained", Times(8), "A frozen model has no gradients and no optimizer state."),
        Mistake("not-sharded", Times(lambda p: p["gpus"]), "That is the whole reference."),
    ),
    "tail-idle": drill_key(
        lambda p: 100 * (1 - p["mean"] / p["most"]),
        "1 − {{mean:int}} / {{most:int}} = {{answer}} %.",
        Mistake("busy", lambda p: 100 * p["mean"] / p["most"], "That is the busy share."),
    ),
    "rollouts-ahead": drill_key(
        lambda p: (p["version"] + p["bound"] + 1) * p["batch"],
        "({{version}} + {{bound}} + 1) · {{batch}} = {{answer}}.",
        Mistake(
            "batch-less", lambda p: (p["version"] + p["bound"]) * p["batch"], "Versions count from 0: one batch more."
        ),
    ),
    "one-step-off": drill_key(
        lambda p: max(p["generate"], p["train"]),
        "max({{generate}}, {{train}}) = {{answer}} s.",
        Mistake("in-turn", lambda p: p["generate"] + p["train"], "Both sides work at the same time."),
    ),
    "generation-speedup": drill_key(
        lambda p: 1 / (1 - p["share"] / 100 + p["share"] / 100 / p["times"]),
        "1 / (1 − {{share}} % + {{share}} % / {{times}}) = {{answer}}.",
        Mistake("all-of-it", lambda p: p["times"], "The rest of the step takes as long as before."),
    ),
}
