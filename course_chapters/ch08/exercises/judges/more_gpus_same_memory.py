from course_chapters.ch08.exercises.more_gpus_same_memory import CAUSES
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, hidden, oracle, shown
from course_grader.judging.diagnoses import diagnosis_fault, numbered
from course_lib.estimate import memory
from course_lib.parallel.sharding import gathered_peak

FINE = "as it should"
WORDS = (*CAUSES, FINE)
NOISE = 0.02
SHOWN = ("replicated optimizer", "kept after forward", "activations", "allocator", "one giant unit")
LETTERS = "BCF"  # conventions of the traces, their gradients added up
NOT_SHARDED = {"gradients": "whole gradients", "optimizer": "replicated optimizer"}  # part -> cause

_GATHERED = "As much is gathered as the whole model. How many gathers is that, for so many units and micro-batches?"
_HINTS = {
    "replicated optimizer": "Compare `optimizer` in the first and the last run: does it fall as the ranks rise?",
    "whole gradients": "Compare `gradients` in the first and the last run: do they fall as the ranks rise?",
    "one giant unit": _GATHERED,
    "kept after forward": _GATHERED,
    "small group": "Weights, gradients and optimizer: none of the three falls, although each is only a part of "
    "the model's.",
    "activations": "Everything that can be sharded falls. What is the largest part of the last run?",
    "allocator": "Add up the parts of the last run, and compare the sum with what is reserved.",
    FINE: "Compare the last run with the first: how much of it fell, and how much should have?",
}
Sizes = tuple[float, int, int]  # parameters, units, ranks of the first run


def trace(
    cause: str, rng: Random, sizes: Sizes, runs: int = 3, letter: str = "B", *, also: str = "", share: float = 0.0
) -> dict[str, object]:
    """Measurements of a training run with this fault on increasing numbers of ranks.

    `also` is a second fault, which keeps less memory; `share` the activations beside the first run's state.
    """
    params, units, first = sizes
    faults = (cause, also)

    def state(stage: int, ranks: int) -> dict[str, float]:
        """Bytes on a rank; everything but weights and gradients is the optimizer's."""
        weights, grads, *rest = memory.zero_by_bucket(params, stage, ranks, letter).values()
        return {"weights": weights, "gradients": grads, "optimizer": sum(rest)}

    micro = rng.choice((4, 8, 16) if cause == "one giant unit" else (1, 2, 4))
    share = share or (rng.uniform(2.5, 4.0) if cause == "activations" else 0.02 if cause == FINE else 0.15)
    activations = share * memory.zero_bytes(params, 3, first, letter)
    slack = rng.uniform(1.04, 1.10)
    rows: list[dict[str, float]] = []
    for ranks in (first << step for step in range(runs)):
        held, whole = state(3, first if cause == "small group" else ranks), state(0, ranks)
        held |= {name: whole[name] for name, fault in NOT_SHARDED.items() if fault in faults}
        held["gathered"] = float(gathered_peak([0, *[round(params / units)] * units], ranks, 2))
        held["activations"] = activations
        gathers = 2 * units
        if "one giant unit" in faults or "kept after forward" in faults:
            held["gathered"] = 2 * params
            gathers = units if "kept after forward" in faults else rng.choice((1, 2))
        noisy = {name: value * rng.uniform(1 - NOISE, 1 + NOISE) for name, value in held.items()}
        taken = sum(noisy.values()) * slack
        if cause == "allocator":
            taken = rows[0]["reserved"] * rng.uniform(0.93, 0.99) if rows else taken * 1.25
        rows.append({"ranks": ranks, **noisy, "reserved": max(taken, sum(noisy.values())), "gathers": gathers * micro})
    return {"params": params, "units": units, "micro_batches": micro, "runs": rows}


def _cases(params: Params, rng: Random) -> list[Case]:
    own = params["params"], params["units"], params["ranks"]

    def drawn(cause: str, share: float = 0.0) -> dict[str, object]:
        sizes = ((30e9, 96), (70e9, 80)) if cause == FINE else ((1.5e9, 24), (8e9, 32), (30e9, 48), (70e9, 80))
        size, units = rng.choice(sizes)
        first, runs = (rng.choice((2, 4)), 3) if cause == FINE else (rng.choice((4, 8, 16)), rng.choice((3, 4)))
        return trace(cause, rng, (size, units, first), runs, rng.choice(LETTERS), share=share)

    given = [(trace(cause, rng, own, 4 if cause == "allocator" else 3), cause) for cause in SHOWN]
    turned = [(drawn(cause), cause) for cause in (*SHOWN[1:], SHOWN[0])]  # so that the shown words alone earn nothing
    others = [(drawn(cause), cause) for cause in rng.sample(WORDS, len(WORDS))]
    causes = [cause for cause in WORDS if cause not in ("activations", FINE)]
    mixed = [(drawn(cause, share=0.24), cause) for cause in rng.sample(causes, 4)]
    late = trace("activations", rng, (8e9, 32, 4), 4, share=0.8)  # activations are the most in the last run alone
    others.append((late, "activations"))
    pairs = (("replicated optimizer", "whole gradients"), ("replicated optimizer", "kept after forward"))
    both = [(trace(cause, rng, (8e9, 32, 4), also=also), cause) for cause, also in pairs]
    both.append((trace("allocator", rng, (8e9, 32, 4), also="whole gradients"), "allocator"))
    return [
        *numbered(shown, "trace {}", "values:trace-{}", given),
        *numbered(hidden, "a trace of another training ({})", "values:trace-{}", turned),
        *numbered(hidden, "another trace ({})", "generality:other", others),
        *numbered(hidden, "a trace with two faults ({})", "generality:mixed", both),
        *numbered(hidden, "a trace with more activations ({})", "generality:mixed", mixed),
    ]


def _fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    return diagnosis_fault(case.name, outcome.value, case.secret, FINE, _HINTS)


JUDGING = Judging(
    point=("generality:mixed",),
    shares={f"values:trace-{number}": 0.1 for number in range(1, len(SHOWN) + 1)}
    | {"generality:other": 0.35, "generality:mixed": 0.15},
    cases=_cases,
    verdicts=oracle(_fault),
    why="""State should fall with N, and each bucket is checked by itself: one that stays is not sharded; if all stay,
the group does not grow. Two or three units should be gathered; if it is the whole model, the number of gathers says
why. The rest is not state: activations fall with the batch, and the allocator's reserve falls with less
fragmentation.""",
    pytorch="""`torch.cuda.memory_allocated` and `memory_reserved` differ by the allocator's reserve;
`torch.cuda.memory._record_memory_history` shows what allocated each block.""",
)

ANSWERS = r'''# %% right: worked
def cause(trace: dict) -> str:
    """Why memory does not fall as GPUs are added, in one of the words above."""
    first, last = trace["runs"][0], trace["runs"][-1]
    shrink = first["ranks"] / last["ranks"]
    stuck = {name: last[name] - first[name] * shrink for name in ("weights", "gradients", "optimizer")}
    if all(extra > 0.3 * first[name] for name, extra in stuck.items()):
        return "small group"
    parts = sum(last[name] for name in ("weights", "gradients", "optimizer", "gathered", "activations"))
    extra = {
        "replicated optimizer": stuck["optimizer"],
        "whole gradients": stuck["gradients"],
        "gathered": last["gathered"] - 3 * 2 * trace["params"] / trace["units"],
        "allocator": last["reserved"] - 1.15 * parts,
    }
    worst = max(extra, key=extra.get)
    if extra[worst] > 0.2 * last["reserved"]:
        if worst == "gathered":
            return "kept after forward" if last["gathers"] > 2 * trace["micro_batches"] else "one giant unit"
        return worst
    return "activations" if last["activations"] > parts / 2 else "as it should"
# %% right: ratios, one question after another
def cause(trace):
    runs = trace["runs"]
    a, z = runs[0], runs[-1]
    fall = z["ranks"] / a["ranks"]
    flat = [k for k in ("weights", "gradients", "optimizer") if a[k] / z[k] < fall**0.5]
    if len(flat) == 3:
        return "small group"
    used = z["weights"] + z["gradients"] + z["optimizer"] + z["gathered"] + z["activations"]
    words = {"optimizer": "replicated optimizer", "gradients": "whole gradients"}
    blocks = [(z[k], word) for k, word in words.items() if k in flat]
    if z["gathered"] > trace["params"]:
        per_micro = z["gathers"] // trace["micro_batches"]
        blocks.append((z["gathered"], "one giant unit" if per_micro <= 2 else "kept after forward"))
    if z["reserved"] > 1.3 * used:
        blocks.append((z["reserved"] - used, "allocator"))
    if blocks:
        return max(blocks)[1]
    return "activations" if 2 * z["activations"] > used else "as it should"
# %% wrong: one unit and kept are not told apart => values not-kept-after-forward
# ~ "kept after forward" if last["gathers"] > 2 * trace["micro_batches"] else "one giant unit" ==> "one giant unit"
# %% wrong: reserved memory is not looked at => values not-allocator
# -         "allocator": last["reserved"] - 1.15 * parts,
# ~ parts / 2 else "as it should" ==> parts / 2 else "activations"
# %% wrong: micro-batches are forgotten in the gathers => values not-one-giant-unit
# ~ last["gathers"] > 2 * trace["micro_batches"] ==> last["gathers"] > 1
# %% wrong: the five traces by heart => values not-activations
def cause(trace):
    last = trace["runs"][-1]
    if len(trace["runs"]) == 4:
        return "allocator"
    if last["activations"] > last["reserved"] / 2:
        return "activations"
    if last["optimizer"] > 10 * last["weights"]:
        return "replicated optimizer"
    return "one giant unit" if last["gathers"] < trace["units"] else "kept after forward"
# %% wrong: the first fault in a fixed order => generality not-allocator
# ~ max(extra, key=extra.get) ==> next((name for name in extra if extra[name] > 0.1 * last["reserved"]), "allocator")
# ~ extra[worst] > 0.2 ==> extra[worst] > 0.1
# %% wrong: activations of the first run => generality unnoticed
# ~ last["activations"] > parts ==> first["activations"] > first["reserved"]
# %% wrong: a small group is taken for a replicated optimizer => generality not-small-group
# ~ return "small group" ==> pass
# %% wrong: alarm where nothing is wrong => generality false-alarm
# ~ "activations" if last["activations"] > parts / 2 else "as it should" ==> "activations"
# %% wrong: another word => values no-such-word
# ~ first, last = trace["runs"][0], trace["runs"][-1] ==> return "fragmentation"
# %% wrong: reserved memory that falls a little is enough => values unnoticed
#       shrink = first["ranks"] / last["ranks"]
# +     if first["reserved"] / last["reserved"] > 1.5:
# +         return "as it should"
'''
