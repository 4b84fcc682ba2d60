import statistics


# %% right: step by step
def honest_mfu(run):
    steps = {}
    for row in run["rows"]:
        steps[row["step"]] = max(row["seconds"], steps.get(row["step"], 0.0))
    timed = sorted(seconds for step, seconds in steps.items() if step >= run["warm_up"])
    n, middle = len(timed), statistics.median(timed)
    rate = run["model_flops_per_token"] * run["tokens_per_step"] / run["ranks"] / run["dense_flops"][run["dtype"]]
    if run["warm_up"] < 1:
        return "no warm-up"
    if n < 5:
        return "too few steps"
    if sum(timed) < 0.9 * run["wall_seconds"]:
        return "clock did not wait"
    if timed[9 * n // 10] > 3 * timed[n // 10]:
        return "not steady"
    if rate / middle > 1.02:
        return "above the roof"
    return rate / middle, rate / timed[9 * n // 10], rate / timed[n // 10]


# %% right: rates in an array
def honest_mfu(run):
    import numpy as np

    clock = np.zeros((1 + max(row["step"] for row in run["rows"]), 1 + max(row["rank"] for row in run["rows"])))
    for row in run["rows"]:
        clock[row["step"], row["rank"]] = row["seconds"]
    t = np.sort(clock.max(1)[run["warm_up"] :])
    n = len(t)
    per_device = run["tokens_per_step"] / run["ranks"] * run["model_flops_per_token"] / run["dense_flops"][run["dtype"]]
    used = per_device / np.array([np.median(t), t[9 * n // 10], t[n // 10]])
    reasons = {
        "no warm-up": run["warm_up"] <= 0,
        "too few steps": n <= 4,
        "clock did not wait": t.sum() / run["wall_seconds"] < 0.9,
        "not steady": t[n * 9 // 10] / t[n // 10] > 3,
        "above the roof": used[0] > 1.02,
    }
    return next((why for why, holds in reasons.items() if holds), used.tolist())


# %% wrong: with the warm-up => values warm-up-counted  from: step by step
# ~ return rate / middle ==> return rate / statistics.median(steps.values())

# %% wrong: the mean step => values mean  from: step by step
# ~ return rate / middle ==> return rate / statistics.fmean(timed)

# %% wrong: the lower of the two in the middle => values low-median  from: step by step
# ~ return rate / middle ==> return rate / statistics.median_low(timed)

# %% wrong: the log of rank 0 => values first-rank  from: step by step
#           return "above the roof"
# +     timed = sorted(row["seconds"] for row in run["rows"] if row["rank"] == 0 and row["step"] >= run["warm_up"])
# +     middle = statistics.median(timed)

# %% wrong: the mean of the ranks => values mean-rank  from: step by step
#           return "above the roof"
# +     steps = {step: [row["seconds"] for row in run["rows"] if row["step"] == step] for step in steps}
# +     timed = sorted(statistics.fmean(ranks) for step, ranks in steps.items() if step >= run["warm_up"])
# +     middle = statistics.median(timed)

# %% wrong: the first rank to be through => values fastest-rank  from: the mean of the ranks
# ~ statistics.fmean(ranks) ==> min(ranks)

# %% wrong: the sparse peak => values sparse-peak  from: step by step
#           return "above the roof"
# +     rate *= run["dense_flops"][run["dtype"]] / run["sparse_flops"][run["dtype"]]

# %% wrong: what the hardware computes => values recomputed  from: step by step
#           return "above the roof"
# +     rate *= run["hardware_flops_per_token"] / run["model_flops_per_token"]

# %% wrong: one device's peak for all tokens => values one-device  from: step by step
#           return "above the roof"
# +     rate *= run["ranks"]

# %% wrong: divided by the ranks twice => values ranks-twice  from: one device's peak for all tokens
# ~ rate *= ==> rate /=

# %% wrong: in per cent => values percent  from: one device's peak for all tokens
# ~ rate *= run["ranks"] ==> rate *= 100

# %% wrong: whatever comes out => values accepts-clock-did-not-wait  from: step by step
# ~ sum(timed) < 0.9 * run["wall_seconds"] ==> False

# %% wrong: shaky runs pass => values accepts-not-steady  from: step by step
# ~ timed[9 * n // 10] > 3 * timed[n // 10] ==> False

# %% wrong: above the roof is fine => values accepts-above-the-roof  from: step by step
# ~ rate / middle > 1.02 ==> False

# %% wrong: nothing is refused => values accepts-no-warm-up  from: step by step
#       rate = run["model_flops_per_token"] * run["tokens_per_step"] / run["ranks"] / run["dense_flops"][run["dtype"]]
# +     return rate / middle, rate / timed[9 * n // 10], rate / timed[n // 10]

# %% wrong: the roof is asked first => generality other-reason  from: step by step
#       rate = run["model_flops_per_token"] * run["tokens_per_step"] / run["ranks"] / run["dense_flops"][run["dtype"]]
# +     if rate / middle > 1.02:
# +         return "above the roof"

# %% wrong: too few steps before the warm-up => generality other-reason  from: step by step
# ~ if run["warm_up"] < 1: ==> if run["warm_up"] < 1 and n >= 5:

# %% wrong: steadiness before the clock => generality other-reason  from: step by step
# ~ 0.9 * run["wall_seconds"] ==> 0.9 * run["wall_seconds"] and timed[9 * n // 10] <= 3 * timed[n // 10]

# %% wrong: the fast end above the roof => generality refuses-sound  from: step by step
# ~ if rate / middle > 1.02 ==> if rate / timed[n // 10] > 1.02

# %% wrong: five steps are too few => generality refuses-sound  from: step by step
# ~ if n < 5 ==> if n < 6

# %% wrong: None for a refusal => values returned-none  from: step by step
# ~ return "not steady" ==> return None

# %% wrong: low and high exchanged => values turned-round  from: step by step
# ~ rate / timed[9 * n // 10], rate / timed[n // 10] ==> rate / timed[n // 10], rate / timed[9 * n // 10]

# %% wrong: the slowest and the fastest step => values extremes  from: step by step
# ~ rate / timed[9 * n // 10], rate / timed[n // 10] ==> rate / timed[-1], rate / timed[0]

# %% wrong: everything is refused => values refuses-sound  from: step by step
# ~ return rate / middle, rate / timed[9 * n // 10], rate / timed[n // 10] ==> return "not steady"

# %% wrong: always bf16 => generality other-dtype  from: step by step
#   def honest_mfu(run):
# +     run = run | {"dtype": "bfloat16" if "bfloat16" in run["dense_flops"] else run["dtype"]}

# %% wrong: one number => values wrong-shape  from: step by step
# ~ return rate / middle, rate / timed[9 * n // 10], rate / timed[n // 10] ==> return rate / middle
