from course_chapters.ch20.exercises.audit_cluster import CAUSES, ITEMS
from course_grader.judging import Worked
from course_grader.judging.audit import audit

JUDGING = audit(
    ITEMS,
    Worked("audit-cluster"),
    CAUSES,
    why="""27.5 GWh are the 39.3 million GPU-hours of all Llama 3.1 models. Llama 2 70B took 688 MWh; 400 is the power
of its GPUs in watts. GPU-hours have the number of GPUs in them, so seven GPUs must not be multiplied again. The tonnes
of two models on the same grid are in the ratio of their GPU-hours.""",
    pytorch="`nvidia-smi --query-gpu=power.draw` and NVML's energy counter measure what a run really takes.",
)

ANSWERS = r'''# %% right: worked
def audit_cluster() -> dict[str, tuple[float, str, str]]:
    """(number, "right" or "wrong", cause) of each statement, by id."""
    ### BEGIN SOLUTION
    right = "right", "as printed"
    return {
        "llama31-energy": (30.84e6 * 700 / 1e6, "wrong", "more models than it names"),
        "bloom-kwh": (1_082_990 * 0.4, *right),
        "llama2-400-mwh": (1_720_320 * 400 / 1e6, "wrong", "watts for megawatt-hours"),
        "llama2-70b-co2": (31.22 * 1_720_320 / 184_320, *right),
        "card-1416-kwh": (377.8 * 0.350 * 1.53, "wrong", "GPUs counted twice"),
        "dgx-years": (3.7 * 365 * 24 * 10.2, *right),
        "diloco-500": (500, *right),
    }
    ### END SOLUTION

# %% right: by hand, lists, other letters
# ~ (30.84e6 * 700 / 1e6, "wrong", "more models than it names") ==> [21_600, "Wrong", "more models than it names"]
# ~ 1_082_990 * 0.4 ==> 433_000
# ~ (377.8 * 0.350 * 1.53, "wrong", "GPUs counted twice") ==> [202, "wrong", "gpus counted twice"]
# %% wrong: the whole family => values as-printed
# > take the GPU-hours of the model that the statement names.
# ~ 30.84e6 * 700 / 1e6 ==> 39.3e6 * 700 / 1e6
# %% wrong: seven GPUs again => values as-printed
# > the GPU-hours are those of all GPUs together.
# ~ 377.8 * 0.350 * 1.53 ==> 7 * 377.8 * 0.350 * 1.53
# %% wrong: without the building => values
# > the statement includes the building: multiply by its PUE.
# ~ 377.8 * 0.350 * 1.53 ==> 377.8 * 0.350
# %% wrong: megawatt-hours in kilowatt-hours => values other-unit
# ~ 1_720_320 * 400 / 1e6 ==> 1_720_320 * 400 / 1e3
# %% wrong: everything is right => values wrong-verdict
# ~ return { ==> found = {
#       }
# +     return {name: (number, *right) for name, (number, _, _) in found.items()}
# %% wrong: another cause => values wrong-cause
# ~ "wrong", "GPUs counted twice" ==> "wrong", "cooling left out"
# %% wrong: left as it is => not-answered
# ~ right = "right", "as printed" ==> raise NotImplementedError
'''
