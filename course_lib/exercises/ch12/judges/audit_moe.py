"""Judge of audit-moe: audit: what do experts cost and save?"""

import math

from course_lib import facts
from course_lib.exercises.ch12.audit_moe import CAUSES, ITEMS
from course_lib.judging import Mistake
from course_lib.judging.audit import audit, right, wrong

_MIXTRAL, _DEEPSEEK = facts.model("mixtral-8x7b"), facts.model("deepseek-v3")
_EXPERTS = 3 * _MIXTRAL.hidden * _MIXTRAL.expert_ffn * _MIXTRAL.layers * _MIXTRAL.top_k / 1e9  # billions, of one token

KEYS = {
    "mixtral-14b": wrong(
        float(_MIXTRAL.active_params) / 1e9,
        "shared parts twice",
        Mistake("as-printed", 14.0, "that is twice a 7B model; how often does a token pass through attention?"),
        Mistake("experts-alone", _EXPERTS, "these are the two experts alone."),
        Mistake("total", float(_MIXTRAL.params) / 1e9, "these are all parameters; a token uses two experts of eight."),
    ),
    "mixtral-same-cost": wrong(
        float(_MIXTRAL.params / _MIXTRAL.active_params),
        "compute alone",
        Mistake("as-printed", 1.0, "any expert may be chosen next; which weights must be in memory?"),
        Mistake("eight-models", 56 / 12.9, "8 times 7B counts the shared parts eight times."),
    ),
    "deepseek-37b": right(
        100 * float(_DEEPSEEK.active_params / _DEEPSEEK.params),
        Mistake(
            "experts",
            100 * 8 / 256,
            "this is the share of the experts; attention and the shared expert are always used.",
        ),
        Mistake("fraction", float(_DEEPSEEK.active_params / _DEEPSEEK.params), "this is a fraction of 1, not percent."),
    ),
    "alltoall-twice": wrong(
        4.0,
        "forward alone",
        Mistake("as-printed", 2.0, "gradients travel the same ways back."),
        Mistake("with-counts", 5.0, "the exchange of counts moves no rows."),
    ),
    "dbrx-65x": right(
        math.comb(16, 4) / math.comb(8, 2),
        Mistake("ordered", math.perm(16, 4) / math.perm(8, 2), "the order of the experts does not matter."),
        Mistake("alone", math.comb(16, 4), "this is DBRX's number; divide by Mixtral's."),
    ),
    "router-bound": right(
        8 * 0.0005 / 0.001,
        Mistake("one-layer", 0.5, "this is one layer."),
        Mistake("times-experts", 16.0, "E · Σ f · P is 1 for a balanced router, not E."),
    ),
    "half-per-rank": wrong(
        math.sqrt(120),
        "parts averaged",
        Mistake("as-printed", 7.236, "this is the mean of √20 and √100; what adds up?"),
        Mistake("sum-of-norms", math.sqrt(20) + math.sqrt(100), "norms do not add up; squares do."),
        Mistake("squared", 120.0, "take the root."),
    ),
    "ep-times": right(
        8.0,
        Mistake("copies", 4.0, "this is the number of replicas, by which they were divided."),
        Mistake("all", 32.0, "they were divided by the replicas at least."),
    ),
}


JUDGING = audit(
    ITEMS,
    KEYS,
    CAUSES,
    why="""A token passes through attention once, so two experts of a “7B” cost less than 14B. All experts must be in memory, since any of
them may be chosen next. A training step exchanges rows four times per layer. Squares of disjoint parts add up; their norms do not. DeepSeek-V3's
share, DBRX's combinations, the bound of the loss and the factor of the gradients are right.""",
    pytorch="`torch.nn.utils.get_total_norm` adds up squares over a DTensor's mesh; parameters outside that mesh are the caller's task.",
)

ANSWERS = r"""OK = ("right", "as printed")
GOOD = {
    "mixtral-14b": (12.9, "wrong", "shared parts twice"),
    "mixtral-same-cost": (3.62, "wrong", "compute alone"),
    "deepseek-37b": (5.6, *OK),
    "alltoall-twice": (4, "wrong", "forward alone"),
    "dbrx-65x": (65, *OK),
    "router-bound": (4, *OK),
    "half-per-rank": (10.95, "wrong", "parts averaged"),
    "ep-times": (8, *OK),
}


# %% right: by hand
def audit_moe():
    return GOOD


# %% right: from the facts  from: by hand
# -     return GOOD
# +     from math import comb, hypot
# +     from course_lib import facts
# +     mixtral, deepseek = facts.model("mixtral-8x7b"), facts.model("deepseek-v3")
# +     return GOOD | {
# +         "mixtral-14b": [float(mixtral.active_params) / 1e9, "Wrong", "Shared parts twice"],
# +         "mixtral-same-cost": [float(mixtral.params) / 12.9e9, "wrong", "compute alone"],
# +         "deepseek-37b": [100 * float(deepseek.active_params) / float(deepseek.params), *OK],
# +         "dbrx-65x": [comb(16, 4) / comb(8, 2), *OK],
# +         "half-per-rank": [hypot(20**0.5, 10.0), "wrong", "parts averaged"],
# +     }

# %% wrong: everything is right => values -  from: by hand
# ~ GOOD ==> {name: (number, *OK) for name, (number, _, _) in GOOD.items()}

# %% wrong: everything is wrong => values -  from: by hand
# ~ GOOD ==> {name: (number, "wrong", cause.replace("as printed", "another k")) for name, (number, _, cause) in GOOD.items()}

# %% wrong: the printed numbers => values as-printed  from: by hand
# ~ GOOD ==> {name: (number, *OK) for name, number in zip(GOOD, (14, 1, 5.51, 2, 65, 4, 7.236, 8))}

# %% wrong: eight whole models => values eight-models  from: by hand
# ~ GOOD ==> GOOD | {"mixtral-same-cost": (4.34, "wrong", "compute alone")}

# %% wrong: the share of the experts => values experts  from: by hand
# ~ GOOD ==> GOOD | {"deepseek-37b": (3.125, "wrong", "another k")}

# %% wrong: norms added => values sum-of-norms  from: by hand
# ~ GOOD ==> GOOD | {"half-per-rank": (14.47, "wrong", "parts averaged")}

# %% wrong: the loss of one layer => values one-layer  from: by hand
# ~ GOOD ==> GOOD | {"router-bound": (0.5, "wrong", "another k")}

# %% wrong: another cause => values wrong-cause  from: by hand
# ~ GOOD ==> GOOD | {"alltoall-twice": (4, "wrong", "compute alone")}

# %% wrong: a fraction => values fraction  from: by hand
# ~ GOOD ==> GOOD | {"deepseek-37b": (0.056, *OK)}

# %% wrong: left as it is => not-answered  from: by hand
# ~ return GOOD ==> raise NotImplementedError

# %% half: one statement is missing => 7  from: by hand
# ~ GOOD ==> {name: answer for name, answer in GOOD.items() if name != "dbrx-65x"}
"""
