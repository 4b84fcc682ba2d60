"""PyTorch's tutorial on pipeline parallelism: a model traced, split after its first half, and run by GPipe."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import ScheduleGPipe, SplitPoint, pipeline

rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
device = torch.device("cpu")
dist.init_process_group(rank=rank, world_size=world_size, backend="gloo")
torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 32)
        self.layers = nn.ModuleDict({str(at): nn.Sequential(nn.Linear(32, 32), nn.GELU()) for at in range(4)})
        self.output = nn.Linear(32, 100)

    def forward(self, tokens):
        h = self.embed(tokens)
        for layer in self.layers.values():
            h = layer(h)
        return self.output(h)


def tokenwise_loss_fn(outputs, targets):
    return nn.functional.cross_entropy(outputs.reshape(-1, 100), targets.reshape(-1))


x, y = torch.randint(0, 100, (8, 16)), torch.randint(0, 100, (8, 16))
pipe = pipeline(Model(), mb_args=(x.chunk(4)[0],), split_spec={"layers.2": SplitPoint.BEGINNING})
stage = pipe.build_stage(rank, device)
schedule = ScheduleGPipe(stage, 4, loss_fn=tokenwise_loss_fn)
optimizer = torch.optim.SGD(stage.submod.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    losses = []
    schedule.step(x) if rank == 0 else schedule.step(target=y, losses=losses)
    optimizer.step()
    if rank == world_size - 1:
        print(f"rank {rank} step {step} loss {torch.stack(losses).mean().item():.5f}")
dist.destroy_process_group()
