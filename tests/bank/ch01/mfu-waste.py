# %% right: plain
def money_lost(spent, usd_per_hour, mfu, baselines):
    return {name: (spent * max(0, 1 - mfu / best), max(0, best / mfu - 1)) for name, best in baselines.items()}


# %% right: any variant
from course_lib import params

IN_HOURS = params("mfu-waste").spent_in == "GPU-hours"


def money_lost(spent, usd_per_hour, mfu, baselines):
    usd = spent * usd_per_hour if IN_HOURS else spent
    return {name: (max(0, usd * (1 - mfu / b)), max(0, b / mfu - 1)) for name, b in baselines.items()}


# %% wrong: percentage points => values points-for-share  from: plain
# ~ 1 - mfu / best), ==> best - mfu),

# %% wrong: always against the peak => values against-the-peak  from: plain
# ~ mfu / best), max(0, best / mfu ==> mfu), max(0, 1 / mfu

# %% wrong: lost for more => values lost-for-more  from: plain
# ~ best / mfu - 1 ==> 1 - mfu / best

# %% wrong: more for lost => values more-for-lost  from: plain
# ~ 1 - mfu / best ==> best / mfu - 1

# %% wrong: the distractor bites => values price-once-too-often unless spent_in=GPU-hours  from: plain
# ~ spent * max ==> spent * usd_per_hour * max

# %% wrong: in per cent => values percent  from: plain
# ~ max(0, best / mfu ==> 100 * max(0, best / mfu


# %% wrong: one number without its baseline => values wrong-shape  from: plain
# ~ {name: (spent * max(0, 1 - mfu / best), max(0, best / mfu - 1)) for name, best in baselines.items()} ==> spent * (1 - mfu / 0.5), 0.5 / mfu - 1

# %% wrong: negative losses => generality below-zero  from: plain
# ~ max(0, 1 - mfu / best), max(0, best / mfu - 1)) ==> (1 - mfu / best), best / mfu - 1)


# %% wrong: the example by heart => values missing-part
def money_lost(spent, usd_per_hour, mfu, baselines):
    return {"whole peak": (6_500_000, 1.857143), "achievable": (3_000_000, 0.428571), "promised": (2_222_222, 0.285714)}


# %% half: only the money => 2.5  from: plain
# ~ max(0, best / mfu - 1)) ==> None)

# %% wrong: five baselines at most => generality -  from: plain
# ~ baselines.items() ==> list(baselines.items())[:5]
