# %% right: two clocks
def crossover_tokens(flops, bandwidth, ranks, gather, reduce):
    sent = (2 * gather + reduce) * (ranks - 1) / ranks
    return sent / bandwidth * flops / 6


def exposed_seconds(gathers, computes, depth):
    wire, done = 0.0, []
    for i, (gather, compute) in enumerate(zip(gathers, computes)):
        free = done[i - 1 - depth] if i > depth else 0.0
        wire = max(wire, free) + gather
        done.append(max(wire, done[-1] if done else 0.0) + compute)
    return done[-1] - sum(computes)


def least_depth(gathers, computes, most):
    return next((d for d in range(len(gathers)) if exposed_seconds(gathers, computes, d) <= most + 1e-9), None)


# %% right: a queue of slots
from bisect import bisect_left
from collections import deque


def crossover_tokens(flops, bandwidth, ranks, gather, reduce):
    seconds_per_param = (ranks - 1) * (gather + gather + reduce) / ranks / bandwidth
    return seconds_per_param / (6 / flops)


def exposed_seconds(gathers, computes, depth):
    slots = deque([0.0] * (depth + 1))
    gathered = now = still = 0.0
    for gather, compute in zip(gathers, computes):
        gathered = max(gathered, slots.popleft()) + gather
        still += max(0.0, gathered - now)
        now = max(now, gathered) + compute
        slots.append(now)
    return still


def least_depth(gathers, computes, most):
    depths = range(len(gathers))
    found = bisect_left(depths, True, key=lambda depth: exposed_seconds(gathers, computes, depth) <= most)
    return found if found in depths else None


# %% wrong: data parallelism's crossover => values data-parallel
def crossover_tokens(flops, bandwidth, ranks, gather, reduce):
    return 2 * reduce * (ranks - 1) / ranks * flops / bandwidth / 6


def exposed_seconds(gathers, computes, depth):
    return 0.0


def least_depth(gathers, computes, most):
    return 0


# %% wrong: behind the backward pass only => values backward-only  from: data parallelism's crossover
# ~ 2 * reduce * (ranks - 1) / ranks * flops / bandwidth / 6 ==> (2 * gather + reduce) * (ranks - 1) / ranks * flops / bandwidth / 4

# %% wrong: gathered as early as can be, whatever the depth => values no-limit  from: data parallelism's crossover
# ~ 2 * reduce ==> (2 * gather + reduce)
# -     return 0.0
# +     wire = now = 0.0
# +     for gather, compute in zip(gathers, computes):
# +         wire += gather
# +         now = max(now, wire) + compute
# +     return now - sum(computes)

# %% wrong: one unit less ahead => values one-behind  from: two clocks
#   def exposed_seconds(gathers, computes, depth):
# +     depth = max(depth - 1, 0)
# ~ (gathers) ==> (gathers) + 1

# %% wrong: each gather against its own unit => values unit-by-unit  from: data parallelism's crossover
# ~ 2 * reduce ==> (2 * gather + reduce)
# ~ return 0.0 ==> return sum(max(0.0, g - c) for g, c in zip(gathers, computes))
# -     return 0
# +     return 1

# %% wrong: the end instead of the standstill => values makespan  from: two clocks
# ~ done[-1] - sum(computes) ==> done[-1]

# %% wrong: several gathers at once => values wires-in-parallel  from: two clocks
# ~ def exposed_seconds(gathers, computes, depth): ==> def exposed_seconds(gathers, computes, depth, wires=2):
# ~ max(wire, free) + gather ==> (max(wire, free) if wires == 1 or gathers[1:2] == [4.0] else free) + gather
# ~ (gathers, computes, d) ==> (gathers, computes, d, 1)

# %% wrong: never None => values none-is-right  from: two clocks
# ~ None ==> len(gathers)

# %% wrong: bytes of a gradient taken for those of a weight => generality -  from: two clocks
# ~ (2 * gather + reduce) ==> 3 * gather

# %% wrong: less than what is allowed => values returned-none  from: two clocks
# ~ <= most + 1e-9 ==> < most

# %% wrong: the first gather is not counted => values without-the-first  from: two clocks
# ~ done[-1] - sum(computes) ==> done[-1] - sum(computes) - gathers[0]

# %% wrong: gradients all-reduced => values reduced-twice  from: two clocks
# ~ gather + reduce ==> gather + 2 * reduce


# %% wrong: each gather behind the unit before it, whatever the depth => values -  from: two clocks
def exposed_seconds(gathers, computes, depth):
    if depth == 0:
        return sum(gathers)
    return gathers[0] + sum(max(0, g - c) for g, c in zip(gathers[1:], computes))


# %% half: the crossover only => 1.6  from: each gather against its own unit
# ~ return sum(max(0.0, g - c) for g, c in zip(gathers, computes)) ==> raise NotImplementedError
# ~ return 1 ==> raise NotImplementedError

# %% wrong: five units ahead at most => generality ~  from: two clocks
# ~ wire, done = 0.0, [] ==> wire, done, depth = 0.0, [], min(depth, 5)
