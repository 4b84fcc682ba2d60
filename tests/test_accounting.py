"""Accounting: exact bytes by role and FLOPs, on programs whose counts can be worked out by hand."""

import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from course_lib.cluster import simulate
from course_lib.model.accounting import ROLES, Accounting, unseen
from tests.tables import each_of


def floats(*shape):
    return 4 * torch.Size(shape).numel()


def test_temporaries_count_while_they_live():
    with Accounting() as account:
        x = torch.ones(1000)
        y = (x + 1) * 2
    assert account.peak_bytes == 12_000 and account.live_bytes == 8_000
    del x, y
    assert account.live_bytes == 0


def test_views_and_operations_in_place_add_nothing():
    with Accounting() as account:
        x = torch.zeros(10, 10)
        before = account.live_bytes
        y = x.view(100)[3:50].reshape(1, -1)
        x.add_(1)
        y.mul_(2)
        torch.add(x, x, out=x)
        array = x.numpy()
        assert account.peak_bytes == account.live_bytes == before == 400
        del x, y
        assert account.live_bytes == 400 and array.shape == (10, 10)  # the array holds the storage
        del array
    assert account.live_bytes == 0


def test_a_resized_storage_counts_its_new_size():
    with Accounting() as account:
        x = torch.zeros(10)
        x.resize_(100)
    assert account.live_bytes == account.peak_bytes == 400


def test_a_storage_that_fsdp_lets_go_by_resizing_it_is_gone_and_its_peak_keeps_its_roles():
    with Accounting(history=True) as account:
        gathered = torch.ones(10, requires_grad=True)
        out = gathered.mul(gathered)  # saved for backward
        gathered.untyped_storage().resize_(0)  # as FSDP2's free_storage does
        assert account.live_bytes == 40 and account.peak_bytes == 80
        assert account.peak_roles()["saved for backward"] == 40
        assert sum(account.peak_roles().values()) == account.peak_bytes
        gathered.untyped_storage().resize_(40)
        more = torch.ones(10)
        assert account.live_bytes == account.peak_bytes == sum(account.peak_roles().values()) == 120
        del out, more
    assert max(map(sum, zip(*account.timeline().values(), strict=True))) == 120


def test_the_roles_of_a_training_step():
    with Accounting() as account:
        model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))
        weights = sum(p.nbytes for p in model.parameters())
        assert account.roles() == {**dict.fromkeys(ROLES, 0), "parameters": weights}
        optimizer = torch.optim.AdamW(model.parameters())
        x = torch.randn(32, 64)
        loss = model(x).square().mean()
        roles = account.roles()
        assert roles["saved for backward"] == 2 * floats(32, 64) + floats(32, 128)  # input, relu's output, output
        assert roles["temporary"] == 4  # the loss
        loss.backward()
        del loss, x
        assert account.roles() == {**dict.fromkeys(ROLES, 0), "parameters": weights, "gradients": weights}
        optimizer.step()
        # and a step count each
        assert account.roles()["optimizer state"] == 2 * weights + 4 * len(list(model.parameters()))
        optimizer.zero_grad()
        assert account.roles()["gradients"] == 0
    assert sum(account.peak_roles().values()) == account.peak_bytes


def test_the_peaks_roles_are_those_of_its_moment():
    with Accounting() as account:
        layer = nn.Linear(100, 100, bias=False)
        x = torch.ones(50, 100)
        out = layer(layer(x))  # saves x and the middle
        big = torch.zeros(100_000)
        peak = account.peak_bytes
        del big
        out.sum().backward()
        del out, x
    assert account.peak_bytes == peak
    assert account.peak_roles() == {
        **dict.fromkeys(ROLES, 0),
        "parameters": floats(100, 100),
        "saved for backward": 2 * floats(50, 100),
        "temporary": floats(50, 100) + floats(100_000),
    }


def test_reset_peak_counts_from_what_is_alive():
    with Accounting() as account:
        keep = torch.zeros(10)
        torch.zeros(1000)
        account.reset_peak()
        assert account.peak_bytes == account.live_bytes == keep.nbytes
        torch.zeros(5)
    assert account.peak_bytes == 60


def test_adopted_tensors_count_and_modules_are_watched():
    model, batch = nn.Linear(8, 8), {"x": [torch.zeros(4, 8)]}
    with Accounting() as account:
        account.adopt((model, batch))
        assert account.live_bytes == floats(8, 8) + floats(8) + floats(4, 8)
        model(batch["x"][0]).sum().backward()
        assert account.roles()["parameters"] == account.roles()["gradients"] == floats(8, 8) + floats(8)


def test_unseen_operations_are_nobodys():
    with Accounting() as account:
        with unseen():
            x = torch.zeros(100)
        assert account.peak_bytes == 0
        del x


def test_each_thread_has_its_own_account():
    counts = {}

    def count(size):
        with Accounting() as account:
            x = torch.zeros(size)
            counts[size] = account.peak_bytes, x.nbytes

    threads = [threading.Thread(target=count, args=(size,)) for size in (10, 1000)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert counts == {10: (40, 40), 1000: (4000, 4000)}


# --- FLOPs


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 8))
def test_a_matrix_product_counts_two_for_each_multiply_and_add(m, k, n):
    with Accounting() as account:
        a = torch.ones(m, k, requires_grad=True)
        b = torch.ones(k, n, requires_grad=True)
        c = a @ b
        assert account.flops == 2 * m * k * n
        c.sum().backward()
    assert account.flops == 3 * 2 * m * k * n  # the backward pass is two products


@each_of("causal", [False, True])
def test_the_cpus_attention_kernel_counts(causal):
    b, h, s, d = 2, 3, 16, 8
    q, k, v = (torch.randn(b, h, s, d, requires_grad=True) for _ in range(3))
    with Accounting() as account:
        out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        forward = account.flops
        out.sum().backward()
    assert forward == 4 * b * h * s * s * d  # two products, the masked half included
    assert account.flops - forward == 5 * 2 * b * h * s * s * d  # one of them again, and four more


W, V, IMAGES = torch.ones(16, 5), torch.ones(4, 16, 3), torch.ones(2, 3, 10, 10)
OPERATIONS = [
    ("mm", lambda x: torch.mm(input=x[0], mat2=W)),
    ("addmm", lambda x: torch.ops.aten.addmm(torch.zeros(5), mat1=x[0], mat2=W, beta=2, alpha=3)),
    ("bmm into a tensor", lambda x: torch.bmm(x, V, out=torch.empty(4, 8, 3))),
    ("baddbmm", lambda x: torch.baddbmm(torch.zeros(4, 8, 3), batch1=x, batch2=V)),
    ("matmul", lambda x: x @ W),
    ("einsum", lambda x: torch.einsum("bij,bjk->bik", x, V)),
    ("products of a list", lambda x: torch.linalg.multi_dot([x[0], W, torch.ones(5, 2)])),
    ("linear", lambda x: F.linear(x, W.T, torch.zeros(5))),
    ("convolution", lambda x: F.conv2d(IMAGES, torch.ones(6, 3, 3, 3), stride=2, padding=1)),
    ("transposed", lambda x: F.conv_transpose2d(IMAGES, torch.ones(3, 6, 3, 3), stride=2)),
]


@pytest.mark.parametrize("records", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@each_of("name, operation", OPERATIONS)
def test_flops_are_those_of_torchs_own_counter(name, operation, records):
    with records():
        x = torch.ones(4, 8, 16, requires_grad=records is torch.enable_grad and "into" not in name)
        with Accounting() as account:
            out = operation(x)
            if out.requires_grad:
                out.sum().backward()
        x = x.detach().requires_grad_(x.requires_grad)
        with FlopCounterMode(display=False) as counter:
            out = operation(x)
            if out.requires_grad:
                out.sum().backward()
    assert account.flops == counter.get_total_flops() > 0


def test_elementwise_operations_count_no_flops():
    with Accounting() as account:
        (torch.ones(10) * 2 + 1).sum()
    assert account.flops == 0


# --- on the cluster


def test_a_rank_counts_its_own_memory_and_not_what_the_kernel_copies():
    def one_way(comm):
        x = torch.zeros(1000) if comm.rank == 0 else torch.zeros(1000)
        comm.send(x, 1) if comm.rank == 0 else comm.recv(x, 0)
        work = comm.all_reduce(x, async_op=True)
        work.wait()

    run = simulate(one_way, 2, account=True)
    assert run.meter.peak_bytes == [4000, 4000] and run.meter.live_bytes == [0, 0]


def test_an_account_opened_on_one_rank_counts_nothing_of_what_the_cluster_copies():
    def counted(comm):
        with Accounting() as books:
            mine = torch.zeros(1000)
            for _ in range(5):
                comm.broadcast(mine, 0)
                comm.all_reduce(mine)
                comm.all_gather_into_tensor(torch.zeros(1000 * comm.size), mine)
            return books.live_bytes, books.peak_bytes

    assert simulate(counted, 3).results == [(4000, 4000 + 12_000)] * 3


def test_arguments_and_modules_of_a_rank_count_from_the_start():
    model = nn.Linear(16, 16)

    def step(comm, x):
        model(x).sum().backward()
        for parameter in model.parameters():
            comm.all_reduce(parameter.grad)

    run = simulate(step, 3, per_rank=[torch.zeros(4, 16)] * 3, account=True)
    weights = floats(16, 16) + floats(16)
    assert all(roles["parameters"] == weights for roles in run.meter.peak_roles)
    assert run.meter.live_bytes[0] == 2 * weights + floats(4, 16)  # weights, gradients and the input stay
    assert run.meter.flops == [2 * 2 * 4 * 16 * 16] * 3  # forward, and the weights' gradient


def test_what_a_call_of_the_communicator_has_in_flight_is_communications():
    def holds(comm):
        x, y = torch.zeros(500), torch.zeros(500)
        works = [comm.isend(x, 1 - comm.rank), comm.irecv(y, 1 - comm.rank)]
        z = torch.zeros(10)
        for work in works:
            work.wait()
        return float(z[0])

    run = simulate(holds, 2, account=True)
    assert run.meter.peak_roles[0]["communication"] == 4000 and run.meter.peak_roles[0]["temporary"] == 40


def test_counted_flops_are_charged_to_the_clock():
    from course_lib.cluster import Topology

    def work(comm):
        torch.ones(10, 10) @ torch.ones(10, 10)
        comm.barrier()
        torch.ones(10, 10) @ torch.ones(10, 10)

    run = simulate(work, 2, account=True, topology=Topology.flat(0.0, 1e9, flops=1000.0))
    assert run.meter.flops == [4000, 4000] and run.seconds == pytest.approx(4.0)
    assert [(s.start, s.end) for s in run.spans if s.kind == "compute" and s.rank == 0] == [(0.0, 2.0), (2.0, 4.0)]


def test_memory_that_was_not_counted_is_asked_for_in_words():
    with pytest.raises(ValueError, match="account=True"):
        _ = simulate(lambda comm: None, 1).meter.peak_bytes


def test_a_right_ring_stays_within_its_input_and_a_chunk():
    from cluster_programs import ring_all_reduce

    size, ranks = 8000, 4
    run = simulate(ring_all_reduce, ranks, per_rank=[torch.ones(size) for _ in range(ranks)], account=True)
    chunk = size * 4 // ranks
    assert all(size * 4 < peak <= size * 4 + 2 * chunk for peak in run.meter.peak_bytes)


def test_accounts_are_the_same_across_a_boundary():
    from test_cluster_remote import across, serving

    def work(comm, x):
        y = x @ x
        comm.all_reduce(y)
        return y

    given = [torch.ones(8, 8) * rank for rank in range(2)]
    here = simulate(work, 2, per_rank=given, account=True)
    there = across(serving(work), 2, per_rank=given, account=True)
    assert there.error is None and there.meter.flops == here.meter.flops == [1024, 1024]
    assert there.clock == here.clock and there.meter.peak_bytes == here.meter.peak_bytes


# --- over time


def test_a_history_tells_bytes_by_role_at_every_moment():
    with Accounting(history=True) as account:
        w = torch.ones(5, requires_grad=True)  # moment 1: 20 B
        y = w * 2  # 2: 40 B, of which nothing is kept
        z = (y * y).sum()  # 3: y is kept, its square is new; 4: the sum
        account.mark("forward")  # 5: the square is gone
        z.backward()
        account.mark("backward")
    line = account.timeline()
    total = [sum(column) for column in zip(*line.values(), strict=True)]
    assert total[:6] == [0, 20, 40, 60, 64, 44]
    assert line["saved for backward"][:6] == [0, 0, 20, 20, 20, 20]
    assert account.marks[0] == (5, "forward")
    end, _ = account.marks[1]
    assert {role: steps[end] for role, steps in line.items()} == account.roles()
    assert max(total) == account.peak_bytes and len(total) == end + 1


def test_a_timeline_needs_a_history():
    with Accounting() as account, pytest.raises(ValueError, match="history=True"):
        account.timeline()


def test_adopted_tensors_take_the_role_they_are_given():
    with Accounting() as account:
        account.adopt([torch.zeros(10)], "optimizer state")
        state = torch.zeros(6)
        account.adopt({"m": state}, "optimizer state")
        assert account.roles()["optimizer state"] == 24
        with pytest.raises(ValueError, match="No role 'states'; choose from parameters"):
            account.adopt([state], "states")
