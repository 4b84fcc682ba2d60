"""The training loop that nanoGPT made popular: gradient accumulation, one averaging per step, logs of the master."""

import os
import time
from contextlib import nullcontext

import torch
from torch import nn
from torch.distributed import destroy_process_group, init_process_group
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

block_size, batch_size, vocab, width, max_iters, grad_clip = 16, 4, 65, 32, 3, 1.0
gradient_accumulation_steps = 4
ddp = int(os.environ.get("RANK", -1)) != -1
rank, world_size = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE")) if ddp else (0, 1)
if ddp:
    init_process_group(backend="nccl" if torch.cuda.is_available() else "gloo")
    assert gradient_accumulation_steps % world_size == 0
    gradient_accumulation_steps //= world_size
device = f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if torch.cuda.is_available() else "cpu"
torch.manual_seed(1337)
data = torch.randint(vocab, (4096,), generator=torch.Generator().manual_seed(rank))


def get_batch():
    starts = torch.randint(len(data) - block_size, (batch_size,))
    x, y = (torch.stack([data[at + shift : at + shift + block_size] for at in starts]) for shift in (0, 1))
    return x.to(device), y.to(device)


layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
model = nn.Sequential(
    nn.Embedding(vocab, width), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(width, vocab)
).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.95))
model = DDP(model) if ddp else model
(x, y), t0 = get_batch(), time.time()
for step in range(max_iters):
    for micro_step in range(gradient_accumulation_steps):
        model.require_backward_grad_sync = micro_step == gradient_accumulation_steps - 1
        with nullcontext():
            loss = F.cross_entropy(model(x).view(-1, vocab), y.view(-1)) / gradient_accumulation_steps
        x, y = get_batch()
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if rank == 0:
        print(f"rank 0 step {step} loss {loss.item() * gradient_accumulation_steps:.5f}")
if ddp:
    destroy_process_group()
