"""PyTorch's tutorial "Getting Started with Distributed Data Parallel", its part on torchrun: a toy model in DDP."""

import os

import torch
import torch.distributed as dist
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel as DDP


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1 = nn.Linear(10, 10)
        self.relu = nn.ReLU()
        self.net2 = nn.Linear(10, 5)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))


def demo_basic():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    print(f"Start running basic DDP example on rank {rank} of process {os.environ['LOCAL_RANK']}.")
    torch.manual_seed(rank)  # DDP gives all ranks the weights of rank 0
    ddp_model = DDP(ToyModel())
    loss_fn, optimizer = nn.MSELoss(), optim.SGD(ddp_model.parameters(), lr=0.001)
    for step in range(3):
        optimizer.zero_grad()
        loss = loss_fn(ddp_model(torch.randn(20, 10)), torch.randn(20, 5))
        loss.backward()
        optimizer.step()
        print(f"rank {rank} step {step} loss {loss.item():.5f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    demo_basic()
