"""Judge of audit-moe: audit: what do experts cost and save?"""

import math

from course_chapters.ch12.exercises.audit_moe import CAUSES, ITEMS
from course_grader.judging import Mistake
from course_grader.judging.audit import audit, right, wrong
from course_lib.estimate import facts

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

ANSWERS = r'''import math


# %% right: worked
def audit_moe() -> dict[str, tuple[float, str, str]]:
    """{"id": (number, "right" or "wrong", cause)} for every statement."""
    ### BEGIN SOLUTION
    fine = ("right", "as printed")
    return {
        "mixtral-14b": (12.88, "wrong", "shared parts twice"),
        "mixtral-same-cost": (46.7 / 12.9, "wrong", "compute alone"),
        "deepseek-37b": (100 * 37.55 / 671.0, *fine),
        "alltoall-twice": (4, "wrong", "forward alone"),
        "dbrx-65x": (math.comb(16, 4) / math.comb(8, 2), *fine),
        "router-bound": (8 * 0.0005 / 0.001, *fine),
        "half-per-rank": (math.sqrt(20 + 100), "wrong", "parts averaged"),
        "ep-times": (8, *fine),
    }
    ### END SOLUTION

# %% right: from the facts
def audit_moe():
    from course_lib.estimate import facts

    ok, mixtral, deepseek = ("right", "as printed"), facts.model("mixtral-8x7b"), facts.model("deepseek-v3")
    return {
        "mixtral-14b": [float(mixtral.active_params) / 1e9, "Wrong", "Shared parts twice"],
        "mixtral-same-cost": [float(mixtral.params) / 12.9e9, "wrong", "compute alone"],
        "deepseek-37b": [100 * float(deepseek.active_params) / float(deepseek.params), *ok],
        "alltoall-twice": (4, "wrong", "forward alone"),
        "dbrx-65x": (65, *ok),
        "router-bound": (4, *ok),
        "half-per-rank": [math.hypot(20**0.5, 10.0), "wrong", "parts averaged"],
        "ep-times": (8, *ok),
    }


# %% wrong: everything is right => values -
# ~ return { ==> return _right({
# -     }
# +     })
# + def _right(found):
# +     return {name: (number, "right", "as printed") for name, (number, _, _) in found.items()}
# %% wrong: everything is wrong => values -
# ~ return { ==> return _wrong({
# -     }
# +     })
# + def _wrong(found):
# +     return {name: (number, "wrong", cause.replace("as printed", "another k")) for name, (number, _, cause) in found.items()}
# %% wrong: the printed numbers => values as-printed
# ~ (12.88, "wrong", "shared parts twice") ==> (14, *fine)
# ~ (46.7 / 12.9, "wrong", "compute alone") ==> (1, *fine)
# ~ (4, "wrong", "forward alone") ==> (2, *fine)
# ~ (math.sqrt(20 + 100), "wrong", "parts averaged") ==> (7.236, *fine)
# %% wrong: eight whole models => values eight-models
# ~ 46.7 / 12.9 ==> 56 / 12.9
# %% wrong: the share of the experts => values experts
# ~ (100 * 37.55 / 671.0, *fine) ==> (3.125, "wrong", "another k")
# %% wrong: norms added => values sum-of-norms
# ~ math.sqrt(20 + 100) ==> math.sqrt(20) + math.sqrt(100)
# %% wrong: the loss of one layer => values one-layer
# ~ (8 * 0.0005 / 0.001, *fine) ==> (0.5, "wrong", "another k")
# %% wrong: another cause => values wrong-cause
# ~ "forward alone" ==> "compute alone"
# %% wrong: a fraction => values fraction
# ~ 100 * 37.55 ==> 37.55
# %% wrong: left as it is => not-answered
#       fine = ("right", "as printed")
# +     raise NotImplementedError
# %% half: one statement is missing => 7
# ~ "dbrx-65x": ==> "dbrx":
'''
