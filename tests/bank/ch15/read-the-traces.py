import math
from statistics import median


# %% right: rates first, then ratios of norms
def first_wrong(rates, planned):
    pairs = enumerate(zip(rates, planned))
    return next((step for step, (had, meant) in pairs if not math.isclose(had, meant, rel_tol=1e-6)), None)


def cause(trace):
    rates, planned, norms, limit, resumed = (trace[name] for name in ("rates", "planned", "norms", "limit", "resumed"))
    at, last = first_wrong(rates, planned), len(rates) - 1
    if at is not None:

        def follows(place):
            return first_wrong(rates[at:], [planned[min(max(place(i), 0), last)] for i in range(at, last + 1)]) is None

        if resumed is not None and follows(lambda i: i - resumed):
            return "warm-up again"
        return "one step off" if follows(lambda i: i - 1) or follows(lambda i: i + 1) else "stepped too often"
    if max(norms) < 1e-3 * limit:
        return "vanishes"
    if not all(map(math.isfinite, norms)) or max(norms) > 100 * norms[0]:
        return "explodes"
    if median(norms[-5:]) > 10 * norms[0]:
        return "not zeroed"
    if max(norms) > 5 * median(norms):
        return "bad batch"
    return "always clipped" if min(norms) > limit else "sound"


# %% right: the shift is looked for, norms by other ratios  from: rates first, then ratios of norms
def first_wrong(rates, planned):
    for step in range(len(rates)):
        if abs(rates[step] - planned[step]) > 1e-6 * abs(planned[step]):
            return step


def cause(trace):
    rates, planned, norms = trace["rates"], trace["planned"], trace["norms"]
    first, ordered, steps = norms[0], sorted(norms), len(rates)
    if (at := first_wrong(rates, planned)) is not None:
        longer = [planned[0]] * steps + planned + [planned[-1]] * steps
        shifts = {
            by: first_wrong(rates[at:], longer[steps + at + by : 2 * steps + by])
            for by in (-(trace["resumed"] or 0), -1, 1)
        }
        right = [by for by, wrong in shifts.items() if wrong is None]
        return ("one step off" if abs(right[0]) == 1 else "warm-up again") if right else "stepped too often"
    if all(norm < trace["limit"] / 1000 for norm in norms):
        return "vanishes"
    if any(not norm <= 100 * first for norm in norms):
        return "explodes"
    if ordered[-3] > 10 * first:
        return "not zeroed"
    if ordered[-1] > 5 * (ordered[(steps - 1) // 2] + ordered[steps // 2]) / 2:
        return "bad batch"
    return "always clipped" if all(norm > trace["limit"] for norm in norms) else "sound"


# %% wrong: any norm above the limit is always clipped => values false-alarm  from: rates first, then ratios of norms
# ~ min(norms) > limit ==> max(norms) > limit

# %% wrong: rates must be equal to the bit => generality false-alarm  from: rates first, then ratios of norms
# ~ not math.isclose(had, meant, rel_tol=1e-6) ==> had != meant

# %% wrong: steps count from one => values counted-from-one  from: rates first, then ratios of norms
# ~ zip(rates, planned) ==> zip(rates, planned), 1

# %% wrong: the last wrong step => values another-step  from: rates first, then ratios of norms
# -     return next((step for step, (had, meant) in pairs if not math.isclose(had, meant, rel_tol=1e-6)), None)
# +     return max((step for step, (had, meant) in pairs if not math.isclose(had, meant, rel_tol=1e-6)), default=None)

# %% wrong: the first step is not looked at => generality unnoticed  from: rates first, then ratios of norms
# ~ in pairs if not ==> in pairs if step and not

# %% wrong: one step back only => generality not-one-step-off  from: rates first, then ratios of norms
# ~ follows(lambda i: i - 1) or follows(lambda i: i + 1) ==> follows(lambda i: i - 1)

# %% wrong: every wrong rate is a schedule stepped too often => values not-warm-up-again  from: rates first, then ratios of norms
# ~ resumed is not None and follows(lambda i: i - resumed) ==> False
# ~ follows(lambda i: i - 1) or follows(lambda i: i + 1) ==> False

# %% wrong: a large norm is an explosion => values not-bad-batch  from: rates first, then ratios of norms
# ~ 100 * norms[0] ==> 4 * median(norms)

# %% wrong: no norm is too small => generality not-vanishes  from: rates first, then ratios of norms
# ~ max(norms) < 1e-3 * limit ==> not max(norms)
# -     if not all(map(math.isfinite, norms)) or max(norms) > 100 * norms[0]:
# +     if not all(map(math.isfinite, norms)) or max(norms) > 100 * max(norms[0], 1e-3):

# %% wrong: always sound => values unnoticed  from: only the step
# ~ raise NotImplementedError ==> return "sound"

# %% wrong: rates to an absolute millionth => generality unnoticed  from: rates first, then ratios of norms
# ~ math.isclose(had, meant, rel_tol=1e-6) ==> abs(had - meant) <= 1e-6

# %% wrong: norms before rates => generality -  from: rates first, then ratios of norms
# -     if at is not None:
# +     sound = 1e-3 * limit <= max(norms) <= min(100 * norms[0], 5 * median(norms)) and min(norms) <= limit
# +     if at is not None and sound and median(norms[-5:]) <= 10 * norms[0]:

# %% wrong: an explosion is a norm above a hundred => generality false-alarm  from: rates first, then ratios of norms
# ~ not all(map(math.isfinite, norms)) or max(norms) > 100 * norms[0] ==> max(norms) > 100

# %% wrong: the mean for the median => generality unnoticed  from: rates first, then ratios of norms
# ~ 5 * median(norms) ==> 5 * sum(norms) / len(norms)

# %% wrong: a batch against the first norm => generality false-alarm  from: rates first, then ratios of norms
# ~ 5 * median(norms) ==> 5 * norms[0]

# %% wrong: a bad batch is asked for before sums => generality not-not-zeroed  from: rates first, then ratios of norms
# ~ median(norms[-5:]) > 10 * norms[0] ==> 10 * norms[0] < median(norms[-5:]) and max(norms) <= 5 * median(norms)

# %% wrong: clipping is asked for before a bad batch => generality not-bad-batch  from: rates first, then ratios of norms
# ~ max(norms) > 5 * median(norms) ==> max(norms) > 5 * median(norms) and min(norms) <= limit

# %% wrong: the last step clipped is all => generality false-alarm  from: rates first, then ratios of norms
# ~ min(norms) > limit ==> norms[-1] > limit

# %% wrong: the last norm tells an explosion => generality not-explodes  from: rates first, then ratios of norms
# ~ not all(map(math.isfinite, norms)) or max(norms) > 100 * norms[0] ==> not norms[-1] <= 100 * norms[0]

# %% wrong: one small norm vanishes => generality -  from: rates first, then ratios of norms
# ~ if max(norms) < 1e-3 * limit: ==> if min(norms) < 1e-3 * limit:


# %% half: only the step => 1.4  from: rates first, then ratios of norms
def cause(trace):
    raise NotImplementedError
