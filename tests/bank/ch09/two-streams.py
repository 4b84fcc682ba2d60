import hashlib
import time

import torch


# %% right: room between seeds
def two_streams(seed, rank):
    first = seed * 1_000_003
    return torch.Generator().manual_seed(first), torch.Generator().manual_seed(first + 1 + rank)


# %% right: a hash of the pair
def two_streams(seed, rank):
    def of(*parts):
        digest = hashlib.sha256(repr(parts).encode()).digest()
        return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))

    return of("outside", seed), of("inside", seed, rank)


# %% wrong: seed + rank => values inside-is-outside  from: alike everywhere
# ~ seed + 2718 ==> seed + rank

# %% wrong: alike everywhere => values ranks-alike  from: seeds multiplied by rank
# ~ seed * rank + 7 ==> seed + 2718

# %% wrong: apart everywhere => values outside-differs  from: room between seeds
# ~ first = seed * 1_000_003 ==> base = (seed * 1000 + rank) * 2
# ~ first), torch.Generator().manual_seed(first + 1 + rank ==> base), torch.Generator().manual_seed(base + 1

# %% wrong: one generator under two names => values one-generator  from: room between seeds
# ~ first = seed * 1_000_003 ==> both = torch.Generator().manual_seed(seed)
# ~ torch.Generator().manual_seed(first), torch.Generator().manual_seed(first + 1 + rank) ==> both, both


# %% wrong: seeds multiplied by rank => values -
def two_streams(seed, rank):
    return torch.Generator().manual_seed(seed), torch.Generator().manual_seed(seed * rank + 7)


# %% wrong: from the process's own generator => values disturbed  from: room between seeds
# ~ seed * 1_000_003 ==> int(torch.randint(2**40, ()))

# %% wrong: inside from the clock => values not-repeatable  from: room between seeds
# ~ first + 1 + rank ==> time.perf_counter_ns() + rank


# %% wrong: seeds, no generators => values no-generators
def two_streams(seed, rank):
    return seed, seed * 1_000_003 + rank


# %% wrong: room for eight ranks only => generality replicas-collide  from: room between seeds
# ~ 1_000_003 ==> 9


# %% wrong: a product of seed and rank => generality replicas-collide
def two_streams(seed, rank):
    return torch.Generator().manual_seed(2 * seed), torch.Generator().manual_seed(2 * (seed + 1) * (rank + 1) + 1)


# %% half: outside alike, and inside, too => 1.75  from: alike everywhere

# %% wrong: seeds of ten bits => generality -  from: room between seeds
# ~ seed * 1_000_003 ==> seed % 1024 * 1_000_003
