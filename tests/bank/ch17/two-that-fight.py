# %% right: formulas
def sharding_and_replicas(parameters, gpus, shard, per_server, inside, across, micro_batches, compute):
    weights, copies = 2 * parameters, gpus / shard
    starts = range(0, gpus, shard)
    near = all(s // per_server == (s + shard - 1) // per_server for s in starts)
    first = inside if near else across
    second = inside if gpus <= per_server else across
    gathers = micro_batches * 3 * (shard - 1) / shard * weights / first
    sums = 2 * (copies - 1) / copies * weights / shard / second
    talk = gathers + sums if first == second else max(gathers, sums)
    return max(0.0, talk - compute)


def recompute_and_tensor(layers, tokens, hidden, tp, bandwidth, rate):
    work = 24 * tokens * hidden**2 / tp / rate
    talk = 2 * 2 * (tp - 1) / tp * 2 * tokens * hidden / bandwidth
    return layers * (work + talk)


# %% right: layer by layer  from: formulas
# ~ layers * (work + talk) ==> sum(work + talk for _ in range(layers))


# %% right: wires as a table
def sharding_and_replicas(parameters, gpus, shard, per_server, inside, across, micro_batches, compute):
    def wire(groups):
        return inside if all(len({rank // per_server for rank in group}) == 1 for group in groups) else across

    def ring(nbytes, ranks):
        return (ranks - 1) / ranks * nbytes

    everyone = range(gpus)
    loads = {}
    shards = [everyone[start : start + shard] for start in everyone[::shard]]
    replicas = [everyone[start::shard] for start in range(shard)]
    for groups, nbytes in (
        (shards, micro_batches * 3 * ring(2 * parameters, shard)),
        (replicas, 2 * ring(2 * parameters / shard, gpus // shard)),
    ):
        rate = wire(groups)
        loads[rate] = loads.get(rate, 0.0) + nbytes / rate
    return max(max(loads.values()) - compute, 0)


def recompute_and_tensor(layers, tokens, hidden, tp, bandwidth, rate):
    total = 0.0
    for _ in range(layers):
        total += 24 * tokens * hidden * hidden / (tp * rate)
        total += 2 * (2 * (tp - 1) / tp * (2 * tokens * hidden)) / bandwidth
    return total


# %% wrong: gathered once a step => values once-a-step  from: formulas
# ~ micro_batches * 3 ==> 3

# %% wrong: two rings a micro-batch => values two-rings  from: formulas
# ~ 3 ==> 2

# %% wrong: summed in every micro-batch => values every-micro-batch  from: formulas
# ~ sums = 2 * (copies - 1) / copies * weights / shard / second ==> sums = micro_batches * 2 * (copies - 1) / copies * weights / shard / second

# %% wrong: all gradients go across => values whole-gradient  from: formulas
# ~ shard / second ==> second

# %% wrong: always side by side => values side-by-side  from: formulas
# ~ gathers + sums if first == second else max ==> max

# %% wrong: always one after another => values always-adds  from: formulas
# ~ sums if first == second else max(gathers, sums) ==> sums

# %% wrong: nothing hides => values nothing-hidden  from: formulas
# ~ max(0.0, talk - compute) ==> talk

# %% wrong: negative time => generality -  from: formulas
# ~ max(0.0, talk - compute) ==> talk - compute

# %% wrong: recomputation sends nothing => values compute-alone  from: formulas
# ~ (work + talk) ==> work

# %% wrong: all four all-reduces again => values four-again  from: formulas
# ~ talk = 2 * 2 ==> talk = 4 * 2

# %% wrong: every rank repeats everything => values work-not-cut  from: formulas
# ~ tp / rate ==> rate


# %% half: the second cell is missing => 3.2  from: formulas
def recompute_and_tensor(layers, tokens, hidden, tp, bandwidth, rate):
    raise NotImplementedError


# %% wrong: a shard group must divide a server => generality -  from: formulas
# ~ near = all(s // per_server == (s + shard - 1) // per_server for s in starts) ==> near = per_server % shard == 0

# %% wrong: the first four groups alone => generality -  from: formulas
# ~ range(0, gpus, shard) ==> range(0, min(gpus, 4 * shard), shard)

# %% wrong: a server has eight GPUs => generality -  from: formulas
# ~ if gpus <= per_server ==> if gpus <= 8
