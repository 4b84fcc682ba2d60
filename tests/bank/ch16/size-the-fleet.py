import math


# %% right: as written
def slots(memory, weights, kv, tokens, page):
    pages = max(0, (memory - weights) // (kv * page))
    return pages // math.ceil(tokens / page)


def replicas(rate, ttft, itl, answer, slots, load):
    held = rate * (ttft + (answer - 1) * itl)
    return math.ceil(held / (load * slots)) if slots else None


def inconsistent(report, slack):
    return [at for at, (rate, time, held) in enumerate(report) if abs(held - rate * time) > slack * rate * time]


# %% right: whole numbers, between two bounds  from: as written
# ~ pages // math.ceil(tokens / page) ==> int(pages // -(-tokens // page))
# ~ math.ceil(held / (load * slots)) ==> -int(-(held / slots / load) // 1)
# ~ abs(held - rate * time) > slack * rate * time ==> not (1 - slack) * rate * time <= held <= (1 + slack) * rate * time

# %% wrong: no weights => values no-weights  from: as written
# ~ (memory - weights) ==> memory

# %% wrong: no pages => values no-pages  from: as written
# ~ pages // math.ceil(tokens / page) ==> pages * page // tokens

# %% wrong: less than nothing => generality negative  from: as written
# ~ max(0, (memory - weights) // (kv * page)) ==> (memory - weights) // (kv * page)

# %% wrong: always full => values full-load  from: as written
# ~ (load * slots) ==> slots

# %% wrong: no time to the first token => values no-ttft  from: as written
# ~ (ttft + (answer - 1) * itl) ==> (answer - 1) * itl

# %% wrong: one more than is exact => generality one-too-many  from: as written
# ~ ceil(held / (load * slots)) ==> floor(held / (load * slots)) + 1

# %% wrong: at least one slot => generality none-is-right  from: as written
# ~ (held / (load * slots)) if slots else None ==> (held / (load * max(1, slots)))

# %% wrong: too many only => values one-side  from: as written
# ~ abs(held - rate * time) ==> held - rate * time

# %% wrong: the limit is impossible => generality at-the-limit  from: as written
# ~ > slack ==> >= slack

# %% wrong: a fraction of the number held => generality of-the-other  from: as written
# ~ slack * rate * time ==> slack * held

# %% wrong: no requests are never impossible => generality -  from: as written
# ~ abs(held - rate * time) > slack ==> rate * time and abs(held - rate * time) > slack

# %% wrong: left as it is => not-answered  from: as written
# ~ pages = max(0, (memory - weights) // (kv * page)) ==> raise NotImplementedError

# %% wrong: nothing to serve, so no question of slots => generality -  from: as written
# ~ if slots else ==> if slots or not rate else
