from course_chapters.ch17.exercises.audit_synthesis import CAUSES, ITEMS
from course_grader.judging import Worked
from course_grader.judging.audit import audit
from course_lib.estimate import compute, facts
from course_lib.estimate.units import BILLION, DAY

_LLAMA = compute.train_seconds(405 * BILLION, 15e12, facts.device("H100 SXM").dense_flops, 0.4, 24_576) / DAY
_INSIDE_OVER_ACROSS = 3 * 7 / 8 / (2 * 3071 / 3072 / 8)

JUDGING = audit(
    ITEMS,
    Worked("audit-synthesis"),
    CAUSES,
    why=f"""Four habits catch these. Count bytes, not collectives: an all-reduce is two of them, so FSDP sends {3 / 2:g}
times what data parallelism sends. Ask whose bytes: across servers, HSDP sends a shard, a {_INSIDE_OVER_ACROSS:.3g}th of
its traffic inside. Ask at which utilization: the run takes {_LLAMA:.3g} days at the rate that the statement names. And
ask compared with what: nobody can buy 100 % of a peak.""",
    pytorch="`CommDebugMode` counts collectives; `torch.profiler` shows how long each took, so how many bytes it can "
    "have moved.",
)

ANSWERS = r'''# %% right: worked
def audit_synthesis() -> dict[str, tuple[float, str, str]]:
    """{id: (number, "right" or "wrong", cause)} for every statement."""

    def days(flops: float, gpus: int, reached: float) -> float:
        return flops / (gpus * reached) / 86_400

    right = ("right", "as printed")
    return {
        "fsdp-table-three": (3 / 2, "wrong", "collectives for bytes"),
        "gpt3-34-days": (days(8 * 300e9 * 175e9, 1024, 140e12), *right),
        "hsdp-third-across": (3 * 7 / 8 / (2 / 8), "wrong", "whole for a shard"),
        "deepseek-3.7-days": (180e3 / 2048 / 24, *right),
        "llama3-17-days": (days(3.645e25, 24_576, 0.4 * 989e12), "wrong", "full speed"),
        "llama3-compute": (6 * 405e9 * 15.6e12, *right),
        "forty-percent-burns-sixty": (1 - 0.4 / 0.5, "wrong", "another baseline"),
        "trillion-84-days": (days(8 * 450e9 * 1e12, 3072, 163e12), *right),
    }
# %% right: by hand, lists, capitals
# ~ (days(8 * 300e9 * 175e9, 1024, 140e12), *right) ==> [33.9, "Right", "As printed"]
# ~ (180e3 / 2048 / 24, ==> (3.66,
# ~ days(3.645e25, 24_576, 0.4 * 989e12) ==> 43.4
# ~ 6 * 405e9 * 15.6e12 ==> 3.79e25
# ~ days(8 * 450e9 * 1e12, 3072, 163e12) ==> 83.2
# %% wrong: three collectives => values as-printed
# > three collectives against one; how many bytes does each of them send?
# ~ 3 / 2, "wrong" ==> 3, "wrong"
# %% wrong: the whole model across => values as-printed
# > this sends the whole model across. What does one rank average with its copies?
# ~ 3 * 7 / 8 / (2 / 8) ==> 3
# %% wrong: at full speed => values as-printed
# > this is at 100 % of the peak. What else does the statement name?
# ~ 0.4 * 989e12 ==> 989e12
# %% wrong: against the whole peak => values as-printed
# > that is against 100 % of the peak, which no run reaches.
# ~ 1 - 0.4 / 0.5 ==> 0.6
# %% wrong: the printed numbers => values blind
# ~ return { ==> printed = {
#       }
# +     return {name: (number, *right) for name, number in zip(printed, (3, 34, 3, 3.7, 17, 3.8e25, 0.6, 84))}
# %% wrong: upside down => values
# > this is the reciprocal; which of the two is over the other?
# ~ 3 / 2, "wrong" ==> 2 / 3, "wrong"
# ~ 3 * 7 / 8 / (2 / 8) ==> 2 / 8 / (3 * 7 / 8)
# %% wrong: kept => values
# > the weights are gathered for the forward pass and again for the backward pass.
# ~ 3 / 2, "wrong" ==> 1, "wrong"
# %% wrong: no all-reduce => values
# > an all-reduce sends the shard twice.
# ~ 3 * 7 / 8 / (2 / 8) ==> 3 * 7 / 8 / (1 / 8)
# %% wrong: six FLOPs where it recomputes => values six
# > this run recomputes: 8 FLOPs for each parameter and token, as in brackets.
# ~ 8 * 300e9 ==> 6 * 300e9
# ~ 8 * 450e9 ==> 6 * 450e9
# %% wrong: hours => values
# > these are hours.
# ~ 2048 / 24 ==> 2048
# %% wrong: multiplied => values
# > a lower utilization makes it longer.
# ~ 0.4 * 989e12), ==> 989e12) * 0.4,
# %% wrong: two FLOPs => values two
# > forward and backward are 6 FLOPs.
# ~ 6 * 405e9 ==> 2 * 405e9
# %% wrong: points => values
# > these are percentage points of the peak, not a share of the money.
# ~ 1 - 0.4 / 0.5 ==> 0.5 - 0.4
# %% wrong: extra => values
# > this is the extra work for the same money, not the money lost.
# ~ 1 - 0.4 / 0.5 ==> 0.5 / 0.4 - 1
# %% wrong: everything is right => values wrong-verdict
# ~ return { ==> found = {
#       }
# +     return {name: (number, *right) for name, (number, _, _) in found.items()}
# %% wrong: everything is wrong => values wrong-verdict
# ~ return { ==> found = {
#       }
# +     return {name: (row[0], "wrong", "full speed" if row[1] == "right" else row[2]) for name, row in found.items()}
# %% wrong: another cause => values wrong-cause
# ~ "another baseline" ==> "full speed"
# %% wrong: left as it is => not-answered
# ~ right = ("right", "as printed") ==> raise NotImplementedError
# %% half: one statement is missing => 7
# -         "llama3-compute": (6 * 405e9 * 15.6e12, *right),
'''
