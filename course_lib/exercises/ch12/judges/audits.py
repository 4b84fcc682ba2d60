"""Key of chapter 12's audit: the truth about each statement, and the number that each known mistake leads to."""

import math

from course_lib import facts
from course_lib.exercises.ch12.cards.audits import CAUSES, ITEMS
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

AUDITS = {
    "audit-moe": audit(
        ITEMS,
        KEYS,
        CAUSES,
        why="""A token passes through attention once, so two experts of a “7B” cost less than 14B. All experts must be in memory, since any of
them may be chosen next. A training step exchanges rows four times per layer. Squares of disjoint parts add up; their norms do not. DeepSeek-V3's
share, DBRX's combinations, the bound of the loss and the factor of the gradients are right.""",
        pytorch="`torch.nn.utils.get_total_norm` adds up squares over a DTensor's mesh; parameters outside that mesh are the caller's task.",
    )
}
