import itertools

import torch


# %% right: as written
def quantize(x, bits, dim):
    low = x.amin(dim, keepdim=True)
    scale = (x.amax(dim, keepdim=True) - low) / (2**bits - 1)
    codes = ((x - low) / scale).nan_to_num().round()
    return codes.to(torch.uint8), scale, low


def restore(codes, scale, low):
    return codes * scale + low


# %% right: group by group  from: as written
def quantize(x, bits, dim):
    rows = x.movedim(dim, -1)
    codes = torch.zeros_like(rows, dtype=torch.uint8)
    scale = torch.zeros_like(rows[..., :1])
    low = torch.zeros_like(scale)
    for at in itertools.product(*map(range, rows.shape[:-1])):
        low[at] = rows[at].min()
        scale[at] = (rows[at].max() - rows[at].min()) / (2**bits - 1)
        if scale[at] > 0:
            codes[at] = ((rows[at] - low[at]) / scale[at]).round()
    return codes.movedim(-1, dim), scale.movedim(-1, dim), low.movedim(-1, dim)


# %% wrong: rounded down => values cut-off  from: as written
# ~ round ==> floor

# %% wrong: one group for all => values another-kind  from: as written
# ~ amin(dim, keepdim=True) ==> min()
# ~ amax(dim, keepdim=True) ==> max()

# %% wrong: one group in the right shape => values one-group  from: as written
# ~ amin ==> min() + 0 * x.amin
# ~ amax(dim, keepdim=True) ==> max()

# %% wrong: a code too many => values one-code-too-many  from: as written
# ~ (2**bits - 1) ==> 2**bits
# ~ round() ==> round().clamp(max=255)

# %% wrong: divided by zero => generality -  from: as written
# ~ nan_to_num() ==> nan_to_num(7.0)

# %% wrong: a floor under every scale => values wrong-scale  from: as written
# ~ / (2**bits - 1) ==> .div(2**bits - 1).clamp(min=1e-2)

# %% wrong: always along the last dimension => values -  from: as written
# ~ amin(dim ==> amin(-1
# ~ amax(dim ==> amax(-1

# %% wrong: without the low end => values no-low  from: as written
# ~ scale + low ==> scale

# %% wrong: codes as numbers => values another-kind  from: as written
# ~ codes.to(torch.uint8), ==> codes,

# %% wrong: in place => values raised  from: as written
# ~ ((x - low) / scale) ==> x.sub_(low).div_(scale)

# %% wrong: a scale that is never small => generality wrong-scale  from: as written
# ~ / (2**bits - 1) ==> .div(2**bits - 1).clamp(min=1e-8)

# %% wrong: restored in fp32 => values other-numbers  from: as written
# ~ codes * scale + low ==> (codes * scale.float() + low.float()).to(low.dtype)

# %% wrong: remembers a tensor by its shape => generality -  from: as written
#   def quantize(x, bits, dim):
# +     x = quantize.__dict__.setdefault(str((x.shape, x.dtype, bits, dim)), x)

# %% wrong: left as it is => not-answered  from: as written
# ~ low = x.amin(dim, keepdim=True) ==> raise NotImplementedError
