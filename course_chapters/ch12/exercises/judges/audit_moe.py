from course_chapters.ch12.exercises.audit_moe import CAUSES, ITEMS
from course_grader.judging import Worked
from course_grader.judging.audit import audit

JUDGING = audit(
    ITEMS,
    Worked("audit-moe"),
    CAUSES,
    why="""A token passes through attention once, so two experts of a “7B” cost less than 14B. All experts must be in
memory, since any of them may be chosen next. A training step exchanges rows four times per layer. Squares of disjoint
parts add up; their norms do not. DeepSeek-V3's share, DBRX's combinations, the bound of the loss and the factor of the
gradients are right.""",
    pytorch="`torch.nn.utils.get_total_norm` adds up squares over a DTensor's mesh; parameters outside that mesh are "
    "the caller's task.",
)

ANSWERS = r'''# %% right: worked
def audit_moe() -> dict[str, tuple[float, str, str]]:
    """{"id": (number, "right" or "wrong", cause)} for every statement."""
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
# %% wrong: everything is right => values wrong-verdict
# ~ return { ==> return _right({
# -     }
# +     })
# + def _right(found):
# +     return {name: (number, "right", "as printed") for name, (number, _, _) in found.items()}
# %% wrong: everything is wrong => values wrong-verdict
# ~ return { ==> return _wrong({
# -     }
# +     })
# + def _wrong(found):
# +     return {name: (number, "wrong", cause.replace("as printed", "another k")) for name, (number, _, cause) in
# ~~ found.items()}
# %% wrong: the printed numbers => values blind
# ~ (12.88, "wrong", "shared parts twice") ==> (14, *fine)
# ~ (46.7 / 12.9, "wrong", "compute alone") ==> (1, *fine)
# ~ (4, "wrong", "forward alone") ==> (2, *fine)
# ~ (math.sqrt(20 + 100), "wrong", "parts averaged") ==> (7.236, *fine)
# %% wrong: twice 7B => values as-printed
# > that is twice a 7B model; how often does a token pass through attention?
# ~ 12.88 ==> 14
# %% wrong: experts alone => values
# > these are the two experts alone.
# ~ 12.88 ==> 3 * 4096 * 14_336 * 32 * 2 / 1e9
# %% wrong: all parameters => values total
# > these are all parameters; a token uses two experts of eight.
# ~ 12.88 ==> 46.7
# %% wrong: memory of the chosen experts => values as-printed
# > any expert may be chosen next; which weights must be in memory?
# ~ 46.7 / 12.9 ==> 1
# %% wrong: eight whole models => values eight-models
# > 8 times 7B counts the shared parts eight times.
# ~ 46.7 / 12.9 ==> 56 / 12.9
# %% wrong: the share of the experts => values experts
# > this is the share of the experts; attention and the shared expert are always used.
# ~ (100 * 37.55 / 671.0, *fine) ==> (3.125, "wrong", "another k")
# %% wrong: a fraction => values fraction
# > this is a fraction of 1, not percent.
# ~ 100 * 37.55 ==> 37.55
# %% wrong: no backward pass => values as-printed
# > gradients make the same exchanges in the backward pass.
# ~ (4, "wrong" ==> (2, "wrong"
# %% wrong: with counts => values
# > the exchange of counts moves no rows.
# ~ (4, "wrong" ==> (5, "wrong"
# %% wrong: ordered => values
# > the order of the experts does not matter.
# ~ math.comb(16, 4) / math.comb(8, 2) ==> math.perm(16, 4) / math.perm(8, 2)
# %% wrong: DBRX alone => values alone
# > this is DBRX's number; divide by Mixtral's.
# ~ math.comb(16, 4) / math.comb(8, 2) ==> math.comb(16, 4)
# %% wrong: the loss of one layer => values one-layer
# > this is one layer.
# ~ (8 * 0.0005 / 0.001, *fine) ==> (0.5, "wrong", "another k")
# %% wrong: times the experts => values times-experts
# > E · Σ c · P is 1 for a balanced router, not E.
# ~ 8 * 0.0005 / 0.001 ==> 16
# %% wrong: the mean of the norms => values as-printed
# > this is the mean of √20 and √100; what adds up?
# ~ math.sqrt(20 + 100) ==> (math.sqrt(20) + math.sqrt(100)) / 2
# %% wrong: norms added => values sum-of-norms
# > norms do not add up; squares do.
# ~ math.sqrt(20 + 100) ==> math.sqrt(20) + math.sqrt(100)
# %% wrong: squared => values
# > take the root.
# ~ math.sqrt(20 + 100) ==> 20 + 100
# %% wrong: replicas => values copies
# > this is the number of replicas, by which they were already divided.
# ~ (8, *fine) ==> (4, *fine)
# %% wrong: all ranks => values all
# > they were already divided by the number of replicas.
# ~ (8, *fine) ==> (32, *fine)
# %% wrong: another cause => values wrong-cause
# ~ "forward alone" ==> "compute alone"
# %% wrong: left as it is => not-answered
#       fine = ("right", "as printed")
# +     raise NotImplementedError
# %% half: one statement is missing => 7
# ~ "dbrx-65x": ==> "dbrx":
'''
