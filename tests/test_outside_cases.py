"""Cases of another course's tests, written anew from what they ask: Stanford CS336, assignment 2 (DDP with single
parameters and with buckets, sharded optimizer, FSDP), on ranks that begin with different weights, with a frozen
parameter and with tied ones.
"""

import copy

import torch
from torch import nn

from course_lib.cluster import simulate
from course_lib.parallel.data import DataParallel
from course_lib.parallel.sharding import FullySharded, OwnedOptimizer, full_state
from tests.tables import each_of

STEPS, ROWS = 5, 20
MB = 1_000_000


class Toy(nn.Module):
    """Three layers, one of them with a bias and a parameter that never gets a gradient."""

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(10, 10, bias=False)
        self.fc2 = nn.Linear(10, 50)
        self.fixed = nn.Parameter(torch.tensor([2.0, 2.0]), requires_grad=False)
        self.fc3 = nn.Linear(50, 5, bias=False)

    def forward(self, x):
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x)))))


class Tied(nn.Module):
    """Five layers, of which the fourth has the second's weights."""

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(10, 10, bias=False)
        self.fc2 = nn.Linear(10, 50, bias=False)
        self.fc3 = nn.Linear(50, 10, bias=False)
        self.fc4 = nn.Linear(10, 50, bias=False)
        self.fc4.weight = self.fc2.weight
        self.fc5 = nn.Linear(50, 5, bias=False)

    def forward(self, x):
        for layer in (self.fc1, self.fc2, self.fc3, self.fc4):
            x = torch.relu(layer(x))
        return self.fc5(x)


def model_of(kind, seed):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return kind()


def batch(step):
    coin = torch.Generator().manual_seed(42 + step)
    return torch.randn(ROWS, 10, generator=coin), torch.randn(ROWS, 5, generator=coin)


def one_process(kind, make):
    model = model_of(kind, 0)
    optimizer = make([p for p in model.parameters() if p.requires_grad])
    for step in range(STEPS):
        x, y = batch(step)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    return model.state_dict()


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1)


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=0.1, weight_decay=0.1, betas=(0.9, 0.999), eps=1e-8)


def mine(comm, step):
    share = ROWS // comm.size
    return (part[comm.rank * share : (comm.rank + 1) * share] for part in batch(step))


def replicas(comm, kind, bucket_bytes):
    model = model_of(kind, comm.rank)  # every rank begins elsewhere: rank 0's weights must reach all
    replica = DataParallel(comm, model, bucket_bytes)
    optimizer = sgd([p for p in model.parameters() if p.requires_grad])
    for step in range(STEPS):
        x, y = mine(comm, step)
        optimizer.zero_grad()
        nn.functional.mse_loss(replica(x), y).backward()
        replica.finish()
        optimizer.step()
    return copy.deepcopy(model.state_dict())


def owned(comm, kind):
    model = model_of(kind, 0)
    optimizer = OwnedOptimizer(comm, model.parameters(), adamw)
    for step in range(STEPS):
        x, y = batch(step)  # the same on every rank: gradients are already equal
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    return copy.deepcopy(model.state_dict())


def sharded(comm, kind):
    model = FullySharded(comm, model_of(kind, 0))
    optimizer = adamw([p for p in model.shards() if p.requires_grad])
    for step in range(STEPS):
        x, y = mine(comm, step)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        model.finish()
        optimizer.step()
    return full_state(model)


def assert_same(results, want, **close):
    for rank, state in enumerate(results):
        assert set(want) - set(state) <= {"fc4.weight"}, rank  # a tied weight may be listed once
        for name, tensor in state.items():
            torch.testing.assert_close(tensor, want[name], **close)


# A bucket of one byte holds one parameter; the others are of the sizes that the assignment's tests take.
@each_of("bucket_bytes", [1, int(0.0001 * MB), int(0.0016 * MB), int(0.01 * MB)])
@each_of("kind", [Toy, Tied])
def test_replicas_train_as_one_process(kind, bucket_bytes):
    run = simulate(replicas, 2, (kind, bucket_bytes))
    assert_same(run.results, one_process(kind, sgd), rtol=1e-5, atol=1e-6)


@each_of("ranks", [2, 4])
@each_of("kind", [Toy, Tied])
def test_an_optimizer_shared_by_ranks_steps_as_one(kind, ranks):
    run = simulate(owned, ranks, (kind,))
    assert_same(run.results, one_process(kind, adamw), rtol=0.0, atol=0.0)


@each_of("ranks", [2, 4])
@each_of("kind", [Toy, Tied])
def test_a_sharded_model_trains_as_one_process(kind, ranks):
    run = simulate(sharded, ranks, (kind,))
    assert_same(run.results, one_process(kind, adamw), rtol=1e-4, atol=1e-5)
