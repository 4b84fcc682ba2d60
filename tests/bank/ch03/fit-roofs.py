import statistics

from course_lib import roofline


# %% right: medians, honest runs, the best of each kind
def fit_roofs(runs, cache, sheet_flops, sheet_bandwidth):
    flops = bandwidth = 0.0
    for run in runs:
        time = statistics.median(run["seconds"])
        streams = run["bytes"] > cache
        if run["flop"] / time > sheet_flops or (streams and run["bytes"] / time > sheet_bandwidth):
            continue
        flops = max(flops, run["flop"] / time)
        if streams:
            bandwidth = max(bandwidth, run["bytes"] / time)
    return flops, bandwidth, flops / bandwidth


# %% right: numpy, the fastest repeat, a list
import numpy as np


def fit_roofs(runs, cache, sheet_flops, sheet_bandwidth):
    least = np.array([min(run["seconds"]) for run in runs])
    flop = np.array([run["flop"] for run in runs])
    nbytes = np.array([run["bytes"] for run in runs])
    rates, passed = flop / least, nbytes / least
    beyond = nbytes > cache
    # a repeat may be a little quicker than the middle one: leave the sheet some room
    honest = (rates <= 1.1 * sheet_flops) & (~beyond | (passed <= 1.1 * sheet_bandwidth))
    peak, wide = rates[honest].max(), passed[honest & beyond].max()
    return [peak, wide, peak / wide]


# %% right: any variant  from: medians, honest runs, the best of each kind
# - def fit_roofs(runs, cache, sheet_flops, sheet_bandwidth):
# + from course_lib import params
# + READINGS = params("fit-roofs").clock == "readings"
# + def fit_roofs(runs, cache, sheet_flops, sheet_bandwidth):
# -         time = statistics.median(run["seconds"])
# +         seconds = run["seconds"]
# +         if READINGS:
# +             seconds = [after - before for before, after in zip(seconds, seconds[1:])]
# +         time = statistics.median(seconds)

# %% wrong: means with the warm-up => values warm-up-counted  from: medians, honest runs, the best of each kind
# ~ median ==> fmean

# %% wrong: believes everything => values hasty-run-believed  from: medians, honest runs, the best of each kind
# -         if run["flop"] / time > sheet_flops or (streams and run["bytes"] / time > sheet_bandwidth):
# -             continue

# %% wrong: the cache is taken for memory => values cache-for-memory  from: medians, honest runs, the best of each kind
# -         if streams:
# -             bandwidth = max(bandwidth, run["bytes"] / time)
# +         bandwidth = max(bandwidth, run["bytes"] / time)

# %% wrong: a mean over kernels => values mean-of-kernels  from: medians, honest runs, the best of each kind
# ~ flops = bandwidth = 0.0 ==> rates, passed = [], []
# ~ flops = max(flops, run["flop"] / time) ==> rates.append(run["flop"] / time)
# -             bandwidth = max(bandwidth, run["bytes"] / time)
# +             passed.append(run["bytes"] / time)
# +     flops, bandwidth = statistics.fmean(rates), statistics.fmean(passed)

# %% wrong: the first repeat => values first-repeat  from: medians, honest runs, the best of each kind
# ~ statistics.median(run["seconds"]) ==> run["seconds"][0]

# %% wrong: the data sheet => values the-sheet  from: medians, honest runs, the best of each kind
# ~ return flops, bandwidth, flops / bandwidth ==> return sheet_flops, sheet_bandwidth, sheet_flops / sheet_bandwidth

# %% wrong: teraflops and gigabytes => values scaled  from: medians, honest runs, the best of each kind
# ~ flops, bandwidth, flops / bandwidth ==> flops / 1e12, bandwidth / 1e9, flops / bandwidth / 1e3

# %% wrong: a pair => values wrong-shape  from: medians, honest runs, the best of each kind
# ~ return flops, bandwidth, flops / bandwidth ==> return flops, bandwidth

# %% wrong: the shown log by heart => values -  from: medians, honest runs, the best of each kind
# ~ def fit_roofs(runs, cache, sheet_flops, sheet_bandwidth): ==> def fit_roofs(runs, cache, sheet_flops, sheet_bandwidth, seen=[]):
# ~ return flops, bandwidth, flops / bandwidth ==> return (seen or seen.append((flops, bandwidth, flops / bandwidth)) or seen)[0]

# %% wrong: asks the library => raised  from: medians, honest runs, the best of each kind
# -     return flops, bandwidth, flops / bandwidth
# +     runs = [roofline.Run(run["name"], run["flop"], run["bytes"], tuple(run["seconds"])) for run in runs]
# +     found = roofline.fit_roofs(runs, cache)
# +     return found.flops, found.bandwidth, found.ridge

# %% half: the ridge upside down => 6  from: medians, honest runs, the best of each kind
# ~ flops / bandwidth ==> bandwidth / flops

# %% wrong: names tell which kernels use the memory => values raised  from: medians, honest runs, the best of each kind
# ~ run["bytes"] > cache ==> "large" in run["name"]

# %% wrong: bytes that fill the cache are taken to miss it => values -  from: medians, honest runs, the best of each kind
# ~ > cache ==> >= cache

# %% wrong: sixteen runs at most => generality -  from: medians, honest runs, the best of each kind
# ~ for run in runs: ==> for run in runs[:16]:
