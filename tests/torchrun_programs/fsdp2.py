"""PyTorch's tutorial on FSDP2: meta device, fully_shard by layer, prefetching, bf16, clipping, a full state dict."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Shard


class Transformer(nn.Module):
    def __init__(self, width=32, layers=3):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 2, 4 * width, dropout=0.0, batch_first=True) for _ in range(layers)
        )
        self.output = nn.Linear(width, width)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.output(x)


dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
rank, device = dist.get_rank(), torch.device("cuda" if torch.cuda.is_available() else "cpu")
with torch.device("meta"):
    model = Transformer()
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for layer in model.layers:
    fully_shard(layer, mp_policy=policy)
fully_shard(model, mp_policy=policy)
assert isinstance(model, FSDPModule) and all(isinstance(w, DTensor) for w in model.parameters())
assert all(w.placements == (Shard(0),) for w in model.parameters())
for layer, after in zip(model.layers, model.layers[1:], strict=False):
    layer.set_modules_to_forward_prefetch([after])
model.to_empty(device=device)
for at, weight in enumerate(model.parameters()):
    whole = torch.randn(weight.shape, generator=torch.Generator().manual_seed(at)) * 0.05
    weight.data.to_local().copy_(whole.chunk(dist.get_world_size())[rank])
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(3):
    x = torch.randn(8, 16, 32, generator=torch.Generator().manual_seed(10 * step + rank)).to(device)
    loss = (model(x) - x).square().mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
    optimizer.step()
    optimizer.zero_grad()
    print(f"rank {rank} step {step} loss {loss.item():.5f}")
whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
print(f"rank {rank} saves {sum(weight.numel() for weight in whole.values())} numbers")
dist.destroy_process_group()
