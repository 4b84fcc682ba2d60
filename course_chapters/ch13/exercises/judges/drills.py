"""Answers to chapter 13's drills."""

from course_grader.judging import Times, drill_key

DRILLS = {
    "replicas-of-a-mesh": drill_key(
        lambda p: p["gpus"] / (p["tp"] * p["cp"] * p["pp"]),
        "{{gpus}} / ({{tp}} · {{cp}} · {{pp}}) = {{answer}}.",
        (lambda p: p["gpus"] / (p["tp"] * p["pp"]), "cp has ranks of its own."),
        (lambda p: p["gpus"] / (p["tp"] * p["cp"]), "pp is a factor as well."),
    ),
    "stride-of-an-axis": drill_key(
        lambda p: p["pp"] * p["tp"],
        "All axes that change faster: {{pp}} · {{tp}} = {{answer}}.",
        (lambda p: p["tp"], "That is the stride of pp."),
        (1, "That is the stride of the fastest axis."),
    ),
    "groups-of-an-axis": drill_key(
        lambda p: p["gpus"] / p["tp"],
        "Every rank is in one group of {{tp}}: {{gpus}} / {{tp}} = {{answer}}.",
        (lambda p: p["tp"], "That is the size of a group."),
    ),
    "coordinate-of-a-rank": drill_key(
        lambda p: p["rank"] // p["tp"] % p["pp"],
        "{{rank}} // {{tp}} % {{pp}} = {{answer}}.",
        (lambda p: p["rank"] // p["tp"], "Take the remainder by the size of the axis."),
        (lambda p: p["rank"] % p["tp"], "That is the tp coordinate."),
    ),
    "sequences-of-a-step": drill_key(
        lambda p: p["dp"] * p["count"] * p["micro"],
        "{{dp}} · {{count}} · {{micro}} = {{answer}}; cp cuts sequences and adds none.",
        (lambda p: p["dp"] * p["cp"] * p["count"] * p["micro"], "The cp ranks share sequences."),
        (lambda p: p["count"] * p["micro"], "That is one replica."),
    ),
    "two-share-an-adapter": drill_key(
        lambda p: 2 * p["first"] / p["rate"],
        "It has half of the rate until it ends: 2 · {{first}} / {{rate}} = {{answer}} s.",
        (Times(0.5), "It shares the adapter."),
        (lambda p: (p["first"] + p["second"]) / p["rate"], "That is when the longer one ends."),
    ),
    "who-waits": drill_key(
        lambda p: p["tp"] * p["dp"],
        "All ranks with the same pp coordinate: {{tp}} · {{dp}} = {{answer}}.",
        (lambda p: p["tp"] + p["dp"] - 1, "Stuck ranks keep their own groups waiting."),
        (lambda p: p["tp"] * p["dp"] * p["pp"], "No operation runs along pp here."),
        (lambda p: p["tp"], "That is after the first all-reduce."),
    ),
    "state-on-a-mesh": drill_key(
        lambda p: 16 * p["billions"] / (p["tp"] * p["pp"] * p["dp"]),
        "16 · {{billions}} / ({{tp}} · {{pp}} · {{dp}}) = {{answer}} GB.",
        (lambda p: 16 * p["billions"] / (p["tp"] * p["pp"]), "ZeRO-3 shards it over dp too."),
        (lambda p: 16 * p["billions"] / p["dp"], "tp and pp cut the state as well."),
    ),
}
