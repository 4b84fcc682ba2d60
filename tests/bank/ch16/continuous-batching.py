# %% right: as written
def plan(running, waiting, budget, free, size):
    run, preempted, left, at = {}, [], list(running), 0
    while at < len(left) and budget:
        name, tokens, cached = left[at]
        count = min(tokens - cached, budget)
        need = -(-(cached + count) // size) - -(-cached // size)
        while need > free and name not in preempted:
            victim, _, held = left.pop()
            preempted.append(victim)
            free += -(-held // size)
        if name in preempted:
            break
        run[name] = count
        budget -= count
        free -= need
        at += 1
    if preempted:
        return run, preempted
    for name, tokens, _ in waiting:
        count = min(tokens, budget)
        need = -(-count // size)
        if not count or need > free:
            break
        run[name] = count
        budget -= count
        free -= need
    return run, preempted


# %% right: pages of those who are left
from course_lib import params

PROMPTS = params("continuous-batching").prompts


def pages_of(tokens, size):
    return (tokens + size - 1) // size


def plan(running, waiting, budget, free, size):
    holds = {name: pages_of(cached, size) for name, _, cached in running}
    every, run, lost = free + sum(holds.values()), {}, []
    for name, tokens, cached in running:
        count = min(tokens - cached, budget)
        if not count or name not in holds:
            break
        want = pages_of(cached + count, size)
        while name in holds and sum(holds.values()) - holds[name] + want > every:
            lost.append(holds.popitem()[0])
        if name in holds:
            holds[name], run[name], budget = want, count, budget - count
    left = every - sum(holds.values())
    for name, tokens, _ in waiting[: 0 if lost else None]:
        count = min(tokens, budget) if PROMPTS == "chunked" else tokens
        left -= pages_of(count, size)
        if not 0 < count <= budget or left < 0:
            break
        run[name], budget = count, budget - count
    return run, lost


# %% wrong: prompts are not split => values prompts-whole unless prompts=whole  from: as written
# ~ min(tokens, budget) ==> tokens
# ~ not count ==> count > budget

# %% wrong: later ones overtake => values overtakes  from: as written
#           if not count or need > free:
# -             break
# +             continue

# %% wrong: the oldest is preempted => values -  from: as written
# ~ pop() ==> pop(at)

# %% wrong: joins while others are preempted => values joins-anyway  from: as written
# -     if preempted:
# -         return run, preempted

# %% wrong: pages do not come back => values pages-kept  from: as written
# -             free += -(-held // size)

# %% wrong: pages for new tokens alone => values page-not-full  from: as written
# ~ (cached + count) // size) - -(-cached ==> count

# %% wrong: nobody is preempted => values nobody-preempted  from: as written
# -         while need > free and name not in preempted:
# -             victim, _, held = left.pop()
# -             preempted.append(victim)
# -             free += -(-held // size)
# -         if name in preempted:
# -             break
# +         if need > free:
# +             at += 1
# +             continue

# %% wrong: the whole prompt needs pages => values whole-prompt-pages  from: as written
# ~ need = -(-count // size) ==> need = -(-tokens // size)

# %% wrong: a budget for each kind => values budget-not-shared  from: as written
# ~ at = {}, [], list(running), 0 ==> at, whole = {}, [], list(running), 0, budget
#           if name in preempted:
#               break
# -         run[name] = count
# -         budget -= count
# +         run[name] = min(tokens - cached, whole)

# %% wrong: zero tokens are a plan => values -  from: as written
# ~ while at < len(left) and budget: ==> while at < len(left):

# %% wrong: a part that fits, in place of being preempted => values -  from: as written
#           while need > free and name not in preempted:
# +             if len(left) == at + 1 and free:
# +                 count, need = -(-cached // size) * size + free * size - cached, free
# +                 break

# %% wrong: eight requests at most => values runs-too-few  from: as written
# ~ while at < len(left) and budget: ==> while at < min(8, len(left)) and budget:

# %% wrong: left as it is => not-answered  from: as written
# ~ run, preempted, left, at = {}, [], list(running), 0 ==> raise NotImplementedError
