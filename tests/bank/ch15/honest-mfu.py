import statistics
from collections import defaultdict


def steps_of(run, of=max):
    steps = defaultdict(list)
    for row in sorted(run["rows"], key=lambda row: row["rank"]):
        steps[row["step"]].append(row["seconds"])
    return {step: of(ranks) for step, ranks in steps.items()}


def fraction(run, seconds, flops="model_flops_per_token", peak="dense_flops"):
    return run[flops] * run["tokens_per_step"] / seconds / run["ranks"] / run[peak][run["dtype"]]


def judged(run, of=max, middle=statistics.median, asked=("warm", "few", "waited", "steady", "roof"), **how):
    """A right answer, but for what is said."""
    found = sorted(seconds for step, seconds in steps_of(run, of).items() if step >= run["warm_up"])
    whole = sorted(seconds for step, seconds in steps_of(run).items() if step >= run["warm_up"])
    n = len(found)
    if "warm" in asked and run["warm_up"] < 1:
        return "no warm-up"
    if "few" in asked and n < 5:
        return "too few steps"
    if "waited" in asked and sum(whole) < 0.9 * run["wall_seconds"]:
        return "clock did not wait"
    if "steady" in asked and whole[9 * n // 10] > 3 * whole[n // 10]:
        return "not steady"
    if "roof" in asked and fraction(run, statistics.median(whole)) > 1.02:
        return "above the roof"
    return (
        fraction(run, middle(found), **how),
        fraction(run, found[9 * n // 10], **how),
        fraction(run, found[n // 10], **how),
    )


# %% right: step by step
def honest_mfu(run):
    steps = {}
    for row in run["rows"]:
        steps[row["step"]] = max(row["seconds"], steps.get(row["step"], 0.0))
    timed = sorted(seconds for step, seconds in steps.items() if step >= run["warm_up"])
    n = len(timed)
    if run["warm_up"] < 1:
        return "no warm-up"
    if n < 5:
        return "too few steps"
    if sum(timed) < 0.9 * run["wall_seconds"]:
        return "clock did not wait"
    if timed[9 * n // 10] > 3 * timed[n // 10]:
        return "not steady"
    work = run["model_flops_per_token"] * run["tokens_per_step"]
    peak = run["ranks"] * run["dense_flops"][run["dtype"]]
    found = tuple(work / seconds / peak for seconds in (statistics.median(timed), timed[9 * n // 10], timed[n // 10]))
    return "above the roof" if found[0] > 1.02 else found


# %% right: rates in an array
def honest_mfu(run):
    import numpy as np

    last = 1 + max(row["step"] for row in run["rows"])
    ranks = 1 + max(row["rank"] for row in run["rows"])
    clock = np.zeros((last, ranks))
    for row in run["rows"]:
        clock[row["step"], row["rank"]] = row["seconds"]
    t = np.sort(clock.max(1)[run["warm_up"] :])
    n = len(t)
    reasons = (
        (run["warm_up"] <= 0, "no warm-up"),
        (n <= 4, "too few steps"),
        (t.sum() / run["wall_seconds"] < 0.9, "clock did not wait"),
        (t[n * 9 // 10] / t[n // 10] > 3, "not steady"),
    )
    for holds, why in reasons:
        if holds:
            return why
    per_device = run["tokens_per_step"] / run["ranks"] * run["model_flops_per_token"]
    used = per_device / np.array([np.median(t), t[9 * n // 10], t[n // 10]]) / run["dense_flops"][run["dtype"]]
    return [float(each) for each in used] if used[0] <= 1.02 else "above the roof"


# %% wrong: with the warm-up => values warm-up-counted
def honest_mfu(run):
    found = judged(run)
    if isinstance(found, str):
        return found
    return (fraction(run, statistics.median(steps_of(run).values())), *found[1:])


# %% wrong: the mean step => values mean
def honest_mfu(run):
    return judged(run, middle=statistics.fmean)


# %% wrong: the log of rank 0 => values first-rank  from: the mean step
# ~ middle=statistics.fmean ==> of=lambda ranks: ranks[0]

# %% wrong: the mean of the ranks => values mean-rank  from: the mean step
# ~ middle=statistics.fmean ==> of=statistics.fmean

# %% wrong: the first rank to be through => values fastest-rank  from: the mean step
# ~ middle=statistics.fmean ==> of=min

# %% wrong: the sparse peak => values sparse-peak  from: the mean step
# ~ middle=statistics.fmean ==> peak="sparse_flops"

# %% wrong: what the hardware computes => values recomputed  from: the mean step
# ~ middle=statistics.fmean ==> flops="hardware_flops_per_token"


# %% wrong: one device's peak for all tokens => values one-device
def honest_mfu(run):
    found = judged(run)
    return found if isinstance(found, str) else tuple(each * run["ranks"] for each in found)


# %% wrong: divided by the ranks twice => values ranks-twice  from: one device's peak for all tokens
# ~ each * run ==> each / run

# %% wrong: in per cent => values percent  from: one device's peak for all tokens
# ~ each * run["ranks"] ==> 100 * each


# %% wrong: whatever comes out => values accepts-clock-did-not-wait  from: the mean step
# ~ middle=statistics.fmean ==> asked=("warm", "few", "steady", "roof")

# %% wrong: nothing is refused => values accepts-no-warm-up  from: the mean step
# ~ middle=statistics.fmean ==> asked=()

# %% wrong: above the roof is fine => values accepts-above-the-roof  from: the mean step
# ~ middle=statistics.fmean ==> asked=("warm", "few", "waited", "steady")


# %% wrong: cut off at the roof => values accepts-above-the-roof
def honest_mfu(run):
    found = judged(run, asked=("warm", "few", "waited", "steady"))
    return found if isinstance(found, str) else tuple(min(each, 1.0) for each in found)


# %% wrong: shaky runs pass => values accepts-not-steady  from: the mean step
# ~ middle=statistics.fmean ==> asked=("warm", "few", "waited", "roof")

# %% wrong: the roof is asked first => generality other-reason  from: the mean step
# -     return judged(run, middle=statistics.fmean)
# +     return "above the roof" if judged(run, asked=())[0] > 1.02 else judged(run)

# %% wrong: low and high exchanged => values turned-round  from: one device's peak for all tokens
# ~ tuple(each * run["ranks"] for each in found) ==> (found[0], found[2], found[1])


# %% wrong: the slowest and the fastest step => values extremes
def honest_mfu(run):
    found = judged(run)
    t = [seconds for step, seconds in steps_of(run).items() if step >= run["warm_up"]]
    return found if isinstance(found, str) else (found[0], fraction(run, max(t)), fraction(run, min(t)))


# %% wrong: everything is refused => values refuses-sound  from: one device's peak for all tokens
# ~ tuple(each * run["ranks"] for each in found) ==> "not steady"


# %% wrong: always bf16 => generality other-dtype
def honest_mfu(run):
    return judged(run | {"dtype": "bfloat16" if "bfloat16" in run["dense_flops"] else run["dtype"]})


# %% wrong: one number => values wrong-shape  from: one device's peak for all tokens
# ~ tuple(each * run["ranks"] for each in found) ==> found[0]

# %% wrong: None for a refusal => values returned-none  from: one device's peak for all tokens
# -     return found if isinstance(found, str) else tuple(each * run["ranks"] for each in found)
# +     return None if isinstance(found, str) else found


# %% wrong: too few steps before the warm-up => generality other-reason
def honest_mfu(run):
    few = sum(step >= run["warm_up"] for step in steps_of(run)) < 5
    return "too few steps" if few else judged(run)


# %% wrong: steadiness before the clock => generality other-reason
def honest_mfu(run):
    found = judged(run, asked=("warm", "few", "steady"))
    return found if isinstance(found, str) else judged(run)


# %% wrong: the fast end above the roof => generality refuses-sound  from: one device's peak for all tokens
# -     return found if isinstance(found, str) else tuple(each * run["ranks"] for each in found)
# +     return "above the roof" if not isinstance(found, str) and found[2] > 1.02 else found

# %% wrong: five steps are too few => generality refuses-sound  from: too few steps before the warm-up
# -     few = sum(step >= run["warm_up"] for step in steps_of(run)) < 5
# +     few = run["warm_up"] >= 1 and sum(step >= run["warm_up"] for step in steps_of(run)) < 6


# %% wrong: the lower of the two in the middle => values low-median  from: the mean step
# ~ middle=statistics.fmean ==> middle=statistics.median_low
