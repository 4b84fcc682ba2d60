# %% right: as written
def spent(tokens, read, each):
    return max(read, tokens * each)


def latencies(chunk, prompt, batch, read, each):
    full, rest = divmod(prompt, chunk)
    times = [spent(tokens + batch, read, each) for tokens in [chunk] * full + [rest] * (rest > 0)]
    return sum(times), max(times)


def best_chunk(prompt, batch, read, each, limit):
    best = None
    for chunk in range(prompt, 0, -1):
        full, rest = divmod(prompt, chunk)
        longest = spent(chunk + batch, read, each)
        ttft = full * longest + (spent(rest + batch, read, each) if rest else 0)
        if longest <= limit and (best is None or ttft <= best[0]):
            best = ttft, chunk
    return best and best[1]


# %% right: any variant, from a list of all chunks  from: as written
from course_lib import params

TIMES = params("latency-budget").times


def spent(tokens, read, each):
    return max(read, tokens * each) if TIMES == "longer" else read + each * tokens


def best_chunk(prompt, batch, read, each, limit):
    found = [(*latencies(chunk, prompt, batch, read, each), chunk) for chunk in range(1, prompt + 1)]
    return min([(ttft, chunk) for ttft, longest, chunk in found if longest <= limit], default=[None])[-1]


# %% wrong: the last chunk is full => values full-last  from: as written
# ~ + [rest] * (rest > 0) ==> + [chunk] * (rest > 0)

# %% wrong: nobody else => values no-others  from: as written
# ~ spent(tokens + batch ==> spent(tokens

# %% wrong: the last chunk is left out => values -  from: as written
# ~ + [rest] * (rest > 0)] ==> ] or [read]

# %% wrong: times add up => values other-time  from: as written
# ~ spent(tokens + batch, read, each) ==> read + (tokens + batch) * each

# %% wrong: the whole chunk although the prompt is shorter => generality too-long  from: as written
# ~ max(times) ==> spent(chunk + batch, read, each)

# %% wrong: the largest chunk => values largest  from: as written
# ~ (best is None or ttft <= best[0]) ==> best is None

# %% wrong: the larger of equals => values larger-of-equals  from: as written
# ~ ttft <= best ==> ttft < best

# %% wrong: below the limit => generality -  from: as written
# ~ longest <= limit ==> longest < limit

# %% wrong: something is always returned => generality none-is-right  from: as written
# ~ best and best[1] ==> best[1] if best else 1

# %% wrong: chunks up to 4,096 => generality -  from: as written
# ~ range(prompt, 0, -1) ==> range(min(prompt, 4096), 0, -1)

# %% wrong: left as it is => not-answered  from: as written
#   def latencies(chunk, prompt, batch, read, each):
# +     raise NotImplementedError
