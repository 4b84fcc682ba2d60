import torch


# %% right: as written
def quantize(x, bits, dim):
    low = x.amin(dim, keepdim=True)
    scale = (x.amax(dim, keepdim=True) - low) / (2**bits - 1)
    codes = ((x - low) / torch.where(scale > 0, scale, 1)).round()
    return codes.to(torch.uint8), scale, low


def restore(codes, scale, low):
    return codes * scale + low


# %% right: group by group
def quantize(x, bits, dim):
    rows = x.movedim(dim, -1).contiguous()
    codes = torch.zeros_like(rows, dtype=torch.uint8)
    steps = torch.zeros_like(rows[..., :1])
    lows = torch.zeros_like(steps)
    flat = codes.view(-1, rows.shape[-1])
    for at, row in enumerate(rows.reshape(-1, rows.shape[-1])):
        lows.view(-1)[at] = row.min()
        steps.view(-1)[at] = step = (row.max() - row.min()) / (2**bits - 1)
        if step > 0:
            flat[at] = ((row - row.min()) / step).round().byte()
    return codes.movedim(-1, dim), steps.movedim(-1, dim), lows.movedim(-1, dim)


def restore(codes, scale, low):
    return torch.addcmul(low.expand(codes.shape), codes.to(scale.dtype), scale.expand(codes.shape))


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
# ~ torch.where(scale > 0, scale, 1) ==> scale).nan_to_num(7.0

# %% wrong: a floor under every scale => values wrong-scale  from: as written
# -     scale = (x.amax(dim, keepdim=True) - low) / (2**bits - 1)
# +     scale = ((x.amax(dim, keepdim=True) - low) / (2**bits - 1)).clamp(min=1e-2)

# %% wrong: always along the last dimension => values -  from: as written
# -     low = x.amin(dim, keepdim=True)
# -     scale = (x.amax(dim, keepdim=True) - low) / (2**bits - 1)
# +     low = x.amin(-1, keepdim=True)
# +     scale = (x.amax(-1, keepdim=True) - low) / (2**bits - 1)

# %% wrong: without the low end => values no-low  from: as written
# ~ scale + low ==> scale

# %% wrong: codes as numbers => values another-kind  from: as written
# ~ codes.to(torch.uint8), ==> codes,

# %% wrong: in place => values raised  from: as written
# -     codes = ((x - low) / torch.where(scale > 0, scale, 1)).round()
# +     codes = x.sub_(low).div_(torch.where(scale > 0, scale, 1)).round()

# %% wrong: a scale that is never small => generality wrong-scale  from: as written
# -     scale = (x.amax(dim, keepdim=True) - low) / (2**bits - 1)
# +     scale = ((x.amax(dim, keepdim=True) - low) / (2**bits - 1)).clamp(min=1e-8)

# %% wrong: restored in fp32 => values other-numbers  from: as written
# ~ codes * scale + low ==> (codes * scale.float() + low.float()).to(low.dtype)

# %% wrong: remembers a tensor by its shape => generality -  from: as written
#   def quantize(x, bits, dim):
# +     x = quantize.__dict__.setdefault(str((x.shape, x.dtype, bits, dim)), x)

# %% wrong: left as it is => not-answered  from: as written
#   def quantize(x, bits, dim):
# +     raise NotImplementedError
