import math

import torch


# %% right: block by block
def quantize_blocks(x, block, round_e4m3):
    values, scales = [], []
    for part in x.split(block):
        top = part.abs().max()
        scale = top / 448 if top > 0 else torch.tensor(1.0)
        values.append(round_e4m3(part / scale))
        scales.append(scale)
    return torch.cat(values), torch.stack(scales)


# %% right: in rows
def quantize_blocks(x, block, round_e4m3):
    rows = torch.nn.functional.pad(x, (0, -len(x) % block)).view(-1, block)
    scales = rows.abs().amax(1) / 448.0
    scales = scales.masked_fill(scales == 0, 1.0)
    values = round_e4m3(rows / scales[:, None]).reshape(-1)[: len(x)]
    return [values, scales]


# %% right: any variant  from: block by block
# - def quantize_blocks(x, block, round_e4m3):
# + from course_lib import params
# + RULE = params("block-scaled").rule
# + def quantize_blocks(x, block, round_e4m3):
#           scale = top / 448 if top > 0 else torch.tensor(1.0)
# +         if RULE == "power":
# +             scale = torch.tensor(2.0 ** math.ceil(math.log2(top.item() / 448))) if top > 0 else scale

# %% wrong: one scale for all => values per-tensor  from: block by block
# ~ top = part.abs() ==> top = x.abs()


# %% wrong: one number for the tensor => values per-tensor
def quantize_blocks(x, block, round_e4m3):
    scale = x.abs().max() / 448
    return round_e4m3(x / scale), scale.reshape(1)


# %% wrong: the inverse => values inverted  from: block by block
# ~ top / 448 ==> 448 / top
# ~ part / scale ==> part * scale

# %% wrong: with its sign => values zero-block  from: block by block
# ~ abs().max ==> max
# ~ 448 if top > 0 else torch.tensor(1.0) ==> 448

# %% wrong: powers of two, rounded down => values -  from: block by block
# ~ top / 448 ==> torch.tensor(2.0 ** math.floor(math.log2(top.item() / 448)))

# %% wrong: powers of two, rounded up => values other-rule unless rule=power  from: block by block
# ~ top / 448 ==> torch.tensor(2.0 ** math.ceil(math.log2(top.item() / 448)))

# %% wrong: a block of zeros divides by zero => generality zero-block  from: block by block
# ~ 448 if top > 0 else torch.tensor(1.0) ==> 448

# %% wrong: the values are scaled back => values not-e4m3  from: block by block
# ~ (round_e4m3(part / scale)) ==> (round_e4m3(part / scale) * scale)

# %% wrong: the neighbor's scale => values -  from: in rows
# ~ rows / scales[:, None] ==> (rows / scales.roll(1)[:, None]).clamp(-448, 448)

# %% wrong: the last block is dropped => generality -  from: in rows
# ~ torch.nn.functional.pad(x, (0, -len(x) % block)).view(-1, block) ==> x[: max(1, len(x) // block) * block].view(-1, min(block, len(x)))

# %% wrong: it reaches 240 => values -  from: in rows
# ~ 448 ==> 240

# %% wrong: nothing is rounded => values not-e4m3  from: block by block
# ~ round_e4m3(part / scale) ==> part / scale

# %% wrong: x is scaled in place => values changed  from: block by block
# ~ (round_e4m3(part / scale)) ==> (round_e4m3(part.div_(scale)))


# %% wrong: a block of zeros has a tiny scale => generality zero-block  from: block by block
# ~ top / 448 if top > 0 else torch.tensor(1.0) ==> (top / 448).clamp(min=1e-12)

# %% wrong: tiny blocks count as zeros => generality -  from: block by block
# ~ top > 0 else ==> top > 1e-30 else
