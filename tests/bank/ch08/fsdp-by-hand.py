import torch


# %% right: gather, use, forget
def sharded_step(comm, shards, counts, forward, backward, loss, x, reshard=True):
    def gather(u):
        row = shards[u].new_empty(comm.size * len(shards[u]))
        comm.all_gather_into_tensor(row, shards[u])
        return row[: counts[u]]

    def part_of(u, grad):
        row = grad.new_zeros(comm.size * len(shards[u]))
        row[: counts[u]] = grad
        mine = torch.empty_like(shards[u])
        comm.reduce_scatter_tensor(mine, row, op="AVG")
        return mine

    units, inputs, kept = range(len(shards)), [], {}
    for u in units:
        weights = gather(u)
        inputs.append(x)
        x = forward(u, weights, x)
        if not reshard:
            kept[u] = weights
    grad, parts = loss(x), [None] * len(shards)
    for u in reversed(units):
        weights = gather(u) if reshard else kept.pop(u)
        grad, own = backward(u, weights, inputs.pop(), grad)
        parts[u] = part_of(u, own)
    return parts


# %% right: the next unit is gathered ahead, gradients leave behind the next unit
def sharded_step(comm, shards, counts, forward, backward, loss, x, reshard=True):
    n, last = comm.size, len(shards) - 1
    coming = {}

    def start(u):
        if 0 <= u <= last and u not in coming:
            row = torch.empty(n * shards[u].numel(), dtype=shards[u].dtype)
            coming[u] = comm.all_gather_into_tensor(row, shards[u], async_op=True), row

    def take(u):
        start(u)
        work, row = coming[u]
        work.wait()
        return row.narrow(0, 0, counts[u])

    inputs = {}
    for u in range(last + 1):
        inputs[u] = x
        weights = take(u)
        start(u + 1)
        x = forward(u, weights, x)
        if reshard and u < last:
            del coming[u]
        del weights
    grad = loss(x)
    parts, leaving = {}, None
    for u in range(last, -1, -1):
        weights = take(u)
        start(u - 1)
        grad, own = backward(u, weights, inputs.pop(u), grad)
        del weights, coming[u]
        row = torch.zeros(n * len(shards[u]), dtype=own.dtype)
        row[: counts[u]] = own / n
        parts[u] = torch.empty_like(shards[u])
        if leaving:
            leaving[0].wait()
        leaving = comm.reduce_scatter_tensor(parts[u], row, async_op=True), row
        del own, row
    leaving[0].wait()
    return [parts[u] for u in range(last + 1)]


# %% right: storages emptied and filled again  from: gather, use, forget
#   def sharded_step(comm, shards, counts, forward, backward, loss, x, reshard=True):
# +     rows = [shard.new_empty(comm.size * len(shard)) for shard in shards]
# +     def free(u):
# +         rows[u].untyped_storage().resize_(0)
# +     for u in range(len(shards)):
# +         free(u)
# -         row = shards[u].new_empty(comm.size * len(shards[u]))
# -         comm.all_gather_into_tensor(row, shards[u])
# +         row = rows[u]
# +         if row.untyped_storage().size() == 0:
# +             row.untyped_storage().resize_(row.numel() * row.element_size())
# +             comm.all_gather_into_tensor(row, shards[u])
# -         if not reshard:
# +         if reshard:
# +             free(u)
# +         else:
#           grad, own = backward(u, weights, inputs.pop(), grad)
# +         free(u)

# %% right: owners broadcast their parts, and sums go to owners  from: gather, use, forget
# -         row = shards[u].new_empty(comm.size * len(shards[u]))
# -         comm.all_gather_into_tensor(row, shards[u])
# -         return row[: counts[u]]
# +         row = []
# +         for r in range(comm.size):
# +             row.append(shards[u].clone() if r == comm.rank else torch.empty_like(shards[u]))
# +             comm.broadcast(row[r], r)
# +         return torch.cat(row)[: counts[u]]
# -         mine = torch.empty_like(shards[u])
# -         comm.reduce_scatter_tensor(mine, row, op="AVG")
# -         return mine
# +         pieces = [piece.clone() for piece in row.chunk(comm.size)]
# +         for r, piece in enumerate(pieces):
# +             comm.reduce(piece, r)
# +         return pieces[comm.rank] / comm.size

# %% right: any variant  from: gather, use, forget
# - def sharded_step(comm, shards, counts, forward, backward, loss, x, reshard=True):
# + from course_lib import notebook
# + VARIANT = notebook.params("fsdp-by-hand")
# + def sharded_step(comm, shards, counts, forward, backward, loss, x, reshard=True):
# ~ return row[: counts[u]] ==> return row.roll(VARIANT.owner * len(shards[u]))[: counts[u]]
# ~ (mine, row, op="AVG") ==> (mine, row.roll(-VARIANT.owner * len(shards[u])), op="AVG")


# %% wrong: everything is gathered in the beginning, in one row => values read-after-free  from: gather, use, forget
# -     def gather(u):
# -         row = shards[u].new_empty(comm.size * len(shards[u]))
# -         comm.all_gather_into_tensor(row, shards[u])
# -         return row[: counts[u]]
# +     def gathered():
# +         row, sizes = torch.cat(shards).new_empty(comm.size, sum(map(len, shards))), list(map(len, shards))
# +         comm.all_gather_into_tensor(row.view(-1), torch.cat(shards))
# +         columns = zip(row.split(sizes, dim=1), counts)
# +         return torch.cat([part.reshape(-1)[:count] for part, count in columns]).split(counts)
# +     rows = gathered()
# +     def gather(u):
# +         return rows[u]

# %% wrong: one giant unit, gathered for each pass => cost one-giant-unit  from: everything is gathered in the beginning, in one row
#       grad, parts = loss(x), [None] * len(shards)
# +     if reshard:
# +         del rows, weights
# +         rows = gathered()

# %% wrong: rows lie in a list, though they are gathered again => cost rows-lie-around  from: gather, use, forget
#           comm.all_gather_into_tensor(row, shards[u])
# +         everything.append(row)
# ~ kept = range(len(shards)), [], {} ==> kept, everything = range(len(shards)), [], {}, []

# %% wrong: whole gradients wait until the end => cost too-much-memory  from: gather, use, forget
#           row[: counts[u]] = grad
# +         return row
# +     def reduced(u, row):
# ~ return parts ==> return [reduced(u, row) for u, row in enumerate(parts)]

# %% wrong: gradients are all-reduced, and a part kept => cost all-reduced  from: gather, use, forget
# -         comm.reduce_scatter_tensor(mine, row, op="AVG")
# +         comm.all_reduce(row, op="AVG")
# +         mine.copy_(row.chunk(comm.size)[comm.rank])

# %% wrong: reshard is ignored => generality not-kept  from: gather, use, forget
# -         if not reshard:
# -             kept[u] = weights
# ~ (u) if reshard else kept.pop(u) ==> (u)

# %% wrong: sums, not means => values sum  from: reshard is ignored
# ~ (mine, row, op="AVG") ==> (mine, row)

# %% wrong: nothing is reduced => values own-gradient  from: reshard is ignored
# ~ comm.reduce_scatter_tensor(mine, row, op="AVG") ==> mine.copy_(row.chunk(comm.size)[comm.rank])

# %% wrong: gradients stay whole => values whole-gradient  from: reshard is ignored
# -         parts[u] = part_of(u, own)
# +         comm.all_reduce(own, op="AVG")
# +         parts[u] = own

# %% wrong: in the order of the backward pass => values backwards  from: reshard is ignored
# ~ return parts ==> return parts[::-1]

# %% wrong: the padding is taken for weights => values raised  from: gather, use, forget
# ~ return row[: counts[u]] ==> return row

# %% wrong: something in the padding => values padding-not-zero  from: gather, use, forget
# ~ new_zeros(comm.size * len(shards[u])) ==> new_full((comm.size * len(shards[u]),), 3.0)

# %% wrong: it does not wait for the row => values ~  from: reshard is ignored
# ~ shards[u].new_empty ==> shards[u].new_zeros
# ~ comm.all_gather_into_tensor(row, shards[u]) ==> works.append(comm.all_gather_into_tensor(row, shards[u], async_op=True))
# ~ kept = range(len(shards)), [], {} ==> works = range(len(shards)), [], []
#           parts[u] = part_of(u, own)
# +     for work in works:
# +         work.wait()

# %% wrong: two units gathered ahead => cost too-far-ahead  from: the next unit is gathered ahead, gradients leave behind the next unit
#           start(u + 1)
# +         start(u + 2)
#           start(u - 1)
# +         start(u - 2)

# %% wrong: weights gathered in 32 bits => cost narrow  from: gather, use, forget
# ~ shards[u].new_empty ==> torch.empty
# ~ (row, shards[u]) ==> (row, shards[u].float())
# ~ return row[: counts[u]] ==> return row[: counts[u]].double()

# %% wrong: gradients cut as evenly as they can be => values uneven-cut  from: gather, use, forget
# -         row = grad.new_zeros(comm.size * len(shards[u]))
# -         row[: counts[u]] = grad
# +         row = grad.new_zeros(comm.size, len(shards[u]))
# +         for r, piece in enumerate(grad.tensor_split(comm.size)):
# +             row[r, : len(piece)] = piece
# ~ comm.reduce_scatter_tensor(mine, row, op="AVG") ==> comm.reduce_scatter_tensor(mine, row.view(-1), op="AVG")

# %% wrong: the backward pass gathers the next unit of the forward pass ahead => cost too-many-bytes  from: the next unit is gathered ahead, gradients leave behind the next unit
# -         start(u - 1)
# +         if reshard:
# +             start(u + 1)


# %% wrong: copies of the rows, with the second gather for show => cost rows-lie-around  from: gather, use, forget
# -         if not reshard:
# -             kept[u] = weights
# +         kept[u] = weights.clone()
# -         weights = gather(u) if reshard else kept.pop(u)
# -         grad, own = backward(u, weights, inputs.pop(), grad)
# +         if reshard:
# +             gather(u)
# +         grad, own = backward(u, kept[u], inputs.pop(), grad)
