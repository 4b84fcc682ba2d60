import torch


# %% right: one all-to-all of flat parts
def tokens_to_heads(comm, x, lengths):
    n, rank, heads, width = comm.size, comm.rank, len(x), x.shape[-1]
    if heads % n and n % heads:
        fits = max(m for m in range(1, n) if heads % m == 0 or m % heads == 0)
        raise ValueError(f"{heads} heads do not fit {n} ranks; use {fits}")
    share = max(1, heads // n)
    parts = [x[j * heads // n : j * heads // n + share].reshape(-1) for j in range(n)]
    got = x.new_empty(sum(lengths) * share * width)
    into = [length * share * width for length in lengths]
    comm.all_to_all_single(got, torch.cat(parts), into, [len(part) for part in parts])
    pieces = zip(got.split(into), lengths)
    return torch.cat([piece.view(share, length, width) for piece, length in pieces], 1)


def heads_to_tokens(comm, x, lengths):
    share, width, mine = len(x), x.shape[-1], lengths[comm.rank]
    parts = [part.reshape(-1) for part in x.split(lengths, 1)]
    got = x.new_empty(comm.size * share * mine * width)
    comm.all_to_all_single(got, torch.cat(parts), [share * mine * width] * comm.size, [len(part) for part in parts])
    return got.view(comm.size * share, mine, width)


# %% right: message by message
def tokens_to_heads(comm, x, lengths):
    n, rank, heads = comm.size, comm.rank, len(x)
    if heads >= n and heads % n == 0:
        own = [range(r * heads // n, (r + 1) * heads // n) for r in range(n)]
    elif n % heads == 0:
        own = [range(r // (n // heads), r // (n // heads) + 1) for r in range(n)]
    else:
        fits = n - 1
        while heads % fits and fits % heads:
            fits -= 1
        raise ValueError(f"{heads} heads cannot be spread over {n} ranks: use {fits}.")
    shapes = [(len(own[rank]), length) for length in lengths]
    return torch.cat(_swap(comm, [x[list(each)] for each in own], shapes, rank), 1)


def heads_to_tokens(comm, x, lengths):
    parts = list(x.split(list(lengths), 1))
    return torch.cat(_swap(comm, parts, [(len(x), lengths[comm.rank])] * comm.size, comm.rank), 0)


def _swap(comm, parts, shapes, rank):
    got = [parts[rank].new_empty(*shape, parts[rank].shape[-1]) for shape in shapes]
    got[rank] = parts[rank].clone()
    works = []
    for other in range(comm.size):
        if other != rank:
            works += [comm.isend(parts[other].contiguous(), other), comm.irecv(got[other], other)]
    for work in works:
        work.wait()
    return got


# %% wrong: everything is gathered => cost too-many-bytes  from: one all-to-all of flat parts
def tokens_to_heads(comm, x, lengths):
    n, rank, heads, width = comm.size, comm.rank, len(x), x.shape[-1]
    if heads % n and n % heads:
        fits = max(m for m in range(1, n) if heads % m == 0 or m % heads == 0)
        raise ValueError(f"{heads} heads do not fit {n} ranks; use {fits}")
    share, most = max(1, heads // n), max(lengths)
    padded = x.new_zeros(heads, most, width)
    padded[:, : lengths[rank]] = x
    held = [torch.empty_like(padded) for _ in range(n)]
    comm.all_gather(held, padded)
    whole = torch.cat([one[:, :length] for one, length in zip(held, lengths, strict=True)], 1)
    return whole[rank * heads // n : rank * heads // n + share].clone()


# %% wrong: every N-th head => values strided-heads  from: message by message
# ~ r * heads // n, (r + 1) * heads // n ==> r, heads, n

# %% wrong: KV heads in turn => generality heads-in-turn  from: message by message
# ~ range(r // (n // heads), r // (n // heads) + 1) ==> range(r % heads, r % heads + 1)

# %% wrong: fewer heads than ranks are refused => generality refused  from: one all-to-all of flat parts
# ~ if heads % n and n % heads: ==> if heads % n:

# %% wrong: only divisors are suggested => generality other-number  from: one all-to-all of flat parts
# ~ (m for m in range(1, n) if heads % m == 0 or m % heads == 0) ==> (m for m in range(1, n) if heads % m == 0)

# %% wrong: equal lengths => values -  from: one all-to-all of flat parts
# -     into = [length * share * width for length in lengths]
# -     comm.all_to_all_single(got, torch.cat(parts), into, [len(part) for part in parts])
# -     pieces = zip(got.split(into), lengths)
# -     return torch.cat([piece.view(share, length, width) for piece, length in pieces], 1)
# +     got = torch.empty_like(torch.cat(parts))
# +     comm.all_to_all_single(got, torch.cat(parts))
# +     return torch.cat([part.view(share, -1, width) for part in got.chunk(n)], 1)

# %% wrong: heads of a rank side by side => values other-order  from: message by message
# ~ torch.cat(_swap(comm, parts, [(len(x), lengths[comm.rank])] * comm.size, comm.rank), 0) ==> torch.stack(_swap(comm, parts, [(len(x), lengths[comm.rank])] * comm.size, comm.rank), 1).flatten(0, 1)

# %% wrong: contiguous memory => generality -  from: one all-to-all of flat parts
# ~ reshape(-1) for j ==> view(-1) for j

# %% wrong: fp32 on the way => cost too-many-bytes  from: message by message
# ~ (comm, [x[list(each)] for each in own], shapes, rank), 1 ==> (comm, [x[list(each)].float() for each in own], shapes, rank), 1).to(x.dtype

# %% wrong: two heads on every rank => values -  from: one all-to-all of flat parts
# ~ mine = len(x) ==> mine = 2 if comm.size > 1 else len(x)

# %% wrong: the list of lengths is changed => values changed  from: one all-to-all of flat parts
#   def heads_to_tokens(comm, x, lengths):
# +     given, lengths = lengths, list(lengths)
# +     given.clear()

# %% wrong: two ranks are suggested at least => generality other-number  from: message by message
# ~ while heads % fits and fits % heads: ==> while fits > 2 and heads % fits and fits % heads:

# %% wrong: few heads in contiguous memory => generality ~  from: one all-to-all of flat parts
# ~ j * heads // n + share].reshape(-1) ==> j * heads // n + share].view(-1) if heads < n else x.tensor_split(n)[j].reshape(-1)
