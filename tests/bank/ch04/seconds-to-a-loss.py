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


# %% right: the rate last, and a default for the winner  from: the first recorded point at or below the target
# ~ return tokens[0] / run["rate"] ==> return 1 / run["rate"] * tokens[0]
# ~ min(times)[1] if times else None ==> min(times, default=(0, None))[1]

# %% wrong: the next recorded point => values recorded-point  from: the first recorded point at or below the target
# ~ if at == 0: ==> if at >= 0:
# ~ tokens[0] / ==> tokens[at] /

# %% wrong: strictly below => generality -  from: the first recorded point at or below the target
# ~ if loss <= target: ==> if loss < target:


# %% wrong: the last crossing => values last-crossing  from: the first recorded point at or below the target
# ~ in enumerate(losses): ==> in reversed([*enumerate(losses)]):
# ~ if loss <= target: ==> if loss <= target and (at == 0 or losses[at - 1] > target):

# %% wrong: tokens in place of seconds => values tokens  from: the first recorded point at or below the target
# ~ (tokens[at] - tokens[at - 1])) / run["rate"] ==> (tokens[at] - tokens[at - 1]))

# %% wrong: the time of the run where it is never there => generality none-is-right  from: the first recorded point at or below the target
# ~ return None ==> return tokens[-1] / run["rate"] + 1

# %% wrong: the first point as if it were a crossing => generality first-point-at-0  from: the first recorded point at or below the target
# ~ tokens[0] / run["rate"] ==> 0.0

# %% wrong: the most tokens per second => values most-tokens-per-second  from: the first recorded point at or below the target
# ~ min(times)[1] ==> max(range(len(runs)), key=lambda at: runs[at]["rate"])

# %% wrong: the fewest tokens => values fewest-tokens  from: the first recorded point at or below the target
# ~ (seconds_to(run, target), at) ==> (seconds_to({**run, "rate": 1}, target), at)

# %% wrong: the lowest loss at the end => values lowest-last-loss  from: the first recorded point at or below the target
# ~ min(times)[1] ==> min(range(len(runs)), key=lambda at: runs[at]["losses"][-1])

# %% wrong: the later one of two => generality later-of-equals  from: the first recorded point at or below the target
# ~ min(times)[1] ==> min(times, key=lambda pair: (pair[0], -pair[1]))[1]

# %% wrong: runs numbered from 1 => values numbered-from-1  from: the first recorded point at or below the target
# ~ (times)[1] if times else None ==> (times)[1] + 1 if times else None

# %% wrong: 0 seconds taken for never => generality later-than-zero  from: the first recorded point at or below the target
# ~ [pair for pair in times if pair[0] is not None] ==> [pair for pair in times if pair[0]]

# %% wrong: left as it is => not-answered  from: the first recorded point at or below the target
# ~ tokens, losses = run["tokens"], run["losses"] ==> raise NotImplementedError

# %% wrong: the first eight runs => generality ~  from: the first recorded point at or below the target
# ~ in enumerate(runs)] ==> in enumerate(runs[:8])]
