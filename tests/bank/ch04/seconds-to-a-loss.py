# %% right: the first recorded point at or below the target
def seconds_to(run, target):
    tokens, losses = run["tokens"], run["losses"]
    for at, loss in enumerate(losses):
        if loss <= target:
            if at == 0:
                return tokens[0] / run["rate"]
            part = (losses[at - 1] - target) / (losses[at - 1] - loss)
            return (tokens[at - 1] + part * (tokens[at] - tokens[at - 1])) / run["rate"]
    return None


def winner(runs, target):
    times = [(seconds_to(run, target), at) for at, run in enumerate(runs)]
    times = [pair for pair in times if pair[0] is not None]
    return min(times)[1] if times else None


# %% right: with numpy
import numpy as np


def seconds_to(run, target):
    losses = np.array(run["losses"])
    below = np.flatnonzero(losses <= target)
    if not len(below):
        return None
    at = int(below[0])
    around = slice(max(at - 1, 0), at + 1)
    found = np.interp(-target, -losses[around], np.array(run["tokens"])[around])
    return float(found) / run["rate"]


def winner(runs, target):
    best, number = None, None
    for at, run in enumerate(runs):
        seconds = seconds_to(run, target)
        if seconds is not None and (best is None or seconds < best):
            best, number = seconds, at
    return number


# %% wrong: the next recorded point => values recorded-point  from: the first recorded point at or below the target
# -             if at == 0:
# -                 return tokens[0] / run["rate"]
# -             part = (losses[at - 1] - target) / (losses[at - 1] - loss)
# -             return (tokens[at - 1] + part * (tokens[at] - tokens[at - 1])) / run["rate"]
# +             return tokens[at] / run["rate"]

# %% wrong: strictly below => generality -  from: the first recorded point at or below the target
# ~ if loss <= target: ==> if loss < target:


# %% wrong: the last crossing => values last-crossing
def seconds_to(run, target):
    tokens, losses, rate = run["tokens"], run["losses"], run["rate"]
    for at in range(len(losses) - 1, 0, -1):
        if losses[at] <= target < losses[at - 1]:
            part = (losses[at - 1] - target) / (losses[at - 1] - losses[at])
            return (tokens[at - 1] + part * (tokens[at] - tokens[at - 1])) / rate
    return tokens[0] / rate if losses[0] <= target else None


def winner(runs, target):
    times = [(seconds_to(run, target), at) for at, run in enumerate(runs)]
    return min([pair for pair in times if pair[0] is not None], default=(0, None))[1]


# %% wrong: tokens in place of seconds => values tokens  from: the first recorded point at or below the target
# -             return (tokens[at - 1] + part * (tokens[at] - tokens[at - 1])) / run["rate"]
# +             return tokens[at - 1] + part * (tokens[at] - tokens[at - 1])

# %% wrong: the time of the run where it is never there => generality none-is-right  from: the first recorded point at or below the target
# ~ return None ==> return tokens[-1] / run["rate"] + 1

# %% wrong: the first point as if it were a crossing => generality first-point-at-0  from: the first recorded point at or below the target
# ~ tokens[0] / run["rate"] ==> 0.0

# %% wrong: the most tokens per second => values most-tokens-per-second  from: the first recorded point at or below the target
# ~ min(times)[1] ==> max(range(len(runs)), key=lambda at: runs[at]["rate"])

# %% wrong: the fewest tokens => values fewest-tokens  from: the first recorded point at or below the target
# -     times = [(seconds_to(run, target), at) for at, run in enumerate(runs)]
# +     times = [(seconds_to({**run, "rate": 1}, target), at) for at, run in enumerate(runs)]

# %% wrong: the lowest loss at the end => values lowest-last-loss  from: the first recorded point at or below the target
# -     return min(times)[1] if times else None
# +     return min(range(len(runs)), key=lambda at: runs[at]["losses"][-1]) if times else None

# %% wrong: the later one of two => generality later-of-equals  from: the first recorded point at or below the target
# ~ min(times)[1] ==> min(times, key=lambda pair: (pair[0], -pair[1]))[1]

# %% wrong: runs numbered from 1 => values numbered-from-1  from: the first recorded point at or below the target
# ~ (times)[1] if times else None ==> (times)[1] + 1 if times else None

# %% wrong: 0 seconds taken for never => generality later-than-zero  from: the first recorded point at or below the target
# ~ [pair for pair in times if pair[0] is not None] ==> [pair for pair in times if pair[0]]

# %% wrong: left as it is => not-answered  from: the first recorded point at or below the target
# -     tokens, losses = run["tokens"], run["losses"]
# +     raise NotImplementedError

# %% wrong: the first eight runs => generality ~  from: the first recorded point at or below the target
# ~ in enumerate(runs)] ==> in enumerate(runs[:8])]
