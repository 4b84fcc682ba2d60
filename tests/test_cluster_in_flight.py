"""Tensors in flight: who writes or reads them is seen in every run, and nobody else."""

import pytest
import torch
from cluster_programs import ring_all_reduce, shift
from test_cluster_remote import across, serving
from torch.utils.flop_counter import FlopCounterMode

from course_grader.records import Outcome
from course_lib.cluster import InFlight, P2POp, RankError, adversaries, attempt, interleavings, simulate
from tests.tables import each_of


def exchange(comm, x, between=lambda x, y: None, after=lambda x, y: None):
    """isend, `between`, recv, wait, `after`: the sent tensor is x."""
    y, other = torch.zeros_like(x), comm.rank ^ 1
    sent = comm.isend(x, other)
    between(x, y)
    comm.recv(y, other)
    sent.wait()
    after(x, y)
    return y


def receive(comm, x, between=lambda x, y: None, after=lambda x, y: None):
    """irecv, `between`, send, wait, `after`: the tensor that is filled is y."""
    y, other = torch.zeros_like(x), comm.rank ^ 1
    got = comm.irecv(y, other)
    between(x, y)
    sent = comm.isend(x, other)
    got.wait()
    sent.wait()
    after(x, y)
    return y


def reduce(comm, x, between=lambda x, y: None, after=lambda x, y: None):
    """An asynchronous all_reduce of x."""
    work = comm.all_reduce(x, async_op=True)
    between(x, None)
    work.wait()
    after(x, None)
    return x


def backward_into(x):
    """A backward pass whose gradient accumulates in x."""
    weight = torch.nn.Parameter(torch.ones_like(x))
    weight.grad = x
    weight.sum().backward()


def saved_beside(y):
    """An operation whose saved tensor passes through a hook that reads y."""
    with torch.autograd.graph.saved_tensors_hooks(lambda saved: (saved, y + 1)[0], lambda saved: saved):
        torch.ones(4, requires_grad=True).exp()


WRITES = {
    "in place": lambda x, y: x.div_(2),
    "an operator": lambda x, y: x.__itruediv__(2),
    "one element": lambda x, y: x.__setitem__(0, 9.0),
    "a view": lambda x, y: x.view(2, 2)[1].zero_(),
    "the transpose": lambda x, y: x.view(2, 2).t().zero_(),
    "out=": lambda x, y: torch.add(y if y is not None else 1, torch.ones(4), out=x),
    "data": lambda x, y: x.data.mul_(2),
    "a list of tensors": lambda x, y: torch._foreach_add_([torch.ones(2), x], 1),
    "by index, all of it in flight": lambda x, y: x.index_fill_(0, torch.tensor([1]), 0.0),
    "a backward pass": lambda x, y: backward_into(x),
}
READS = {
    "arithmetic": lambda x, y: x + y,
    "a number": lambda x, y: float(y[0]),
    "a list of tensors": lambda x, y: torch.cat([x, y]),
    "a copy": lambda x, y: x.clone().copy_(y),
    "by index, all of it in flight": lambda x, y: y[torch.tensor([1])],
    "as a list": lambda x, y: y.tolist(),
    "in a string": lambda x, y: f"{y}",
    "printed": lambda x, y: repr(y),
    "in a callback": lambda x, y: torch.zeros(2).apply_(lambda each: each + y.sum().item()),
    "in a hook of autograd": lambda x, y: saved_beside(y),
}
HARMLESS = {
    "reading": lambda x, y: x + 1,
    "its shape": lambda x, y: torch.empty_like(x).view(-1)[: x.numel()],
    "printing": lambda x, y: repr(x),
    "another tensor": lambda x, y: torch.zeros(4).add_(x),
}
REPLACED = {
    "larger": lambda t: t.resize_(8),
    "smaller": lambda t: t.resize_(1),
    "as another": lambda t: t.resize_as_(torch.zeros(2, 3)),
    "other memory": lambda t: t.set_(torch.zeros(4)),
    "other data": lambda t: setattr(t, "data", torch.zeros(7)),
    "another axis": lambda t: t.unsqueeze_(0),
}
UNREAD = {
    "its shape": lambda x, y: (y.shape, y.view(2, 2)[1:], torch.zeros_like(y), y.new_empty(3), y.is_contiguous()),
    "what is sent": lambda x, y: x * 2,
}


def found(program, between, **options):
    return attempt(program, 2, args=(torch.ones(4), between), **options).hazards


@each_of("account", [False, True])
@each_of("write", WRITES.values(), ids=WRITES)
@each_of("program", [exchange, reduce])
def test_a_write_to_what_is_sent_is_seen_with_its_line(program, write, account):
    hazards = found(program, write, account=account)
    assert [(h.rank, h.act, h.call) for h in hazards] == [(0, "wrote", 1), (1, "wrote", 1)]
    assert "test_cluster_in_flight.py, line" in hazards[0].line and "comm." in hazards[0].posted
    assert "4 float32 in shape (4,)" in hazards[0].what


@each_of("use", [*READS.values(), lambda x, y: y.fill_(3)], ids=[*READS, "a write"])
def test_a_use_of_what_is_received_into_is_seen(use):
    acts = {hazard.act for hazard in found(receive, use)}
    assert acts == ({"wrote"} if use not in READS.values() else {"read"})


@each_of("change", REPLACED.values(), ids=REPLACED)
@each_of("program", [exchange, receive, reduce])
def test_a_tensor_in_flight_that_gets_another_shape_or_other_memory_ends_the_run_with_the_reason(program, change):
    touched = (lambda x, y: change(y)) if program is receive else lambda x, y: change(x)
    with pytest.raises(RankError, match="gave a tensor in flight another shape or other memory") as raised:
        simulate(program, 2, args=(torch.ones(4), touched))
    said = str(raised.value)
    assert "4 float32 in shape (4,)" in said and "posted at test_cluster_in_flight.py, line" in said
    assert "wait() first" in said


@each_of("change", REPLACED.values(), ids=REPLACED)
def test_another_tensor_may_be_given_any_shape_and_memory(change):
    run = simulate(exchange, 2, args=(torch.ones(4), lambda x, y: change(torch.zeros(4)), lambda x, y: change(x)))
    assert run.hazards == ()


def test_a_read_of_an_asynchronous_result_is_seen():
    assert [h.act for h in found(reduce, lambda x, y: x + 1)] == ["read", "read"]


@each_of(
    "program, use",
    [*((exchange, use) for use in HARMLESS.values()), *((receive, use) for use in UNREAD.values())],
    ids=[*HARMLESS, *UNREAD],
)
def test_what_is_allowed_is_not_reported(program, use):
    run = simulate(program, 2, args=(torch.ones(4), use, lambda x, y: (x.zero_(), y.add_(1))))
    assert run.hazards == ()


def test_the_neighbors_of_a_chunk_in_flight_are_free():
    def program(comm, x):
        chunks, columns = list(x.view(-1).chunk(4)), x.view(2, 8)
        work = comm.isend(chunks[1], comm.rank ^ 1)
        chunks[0] += 1
        x[2, :2] = 3.0
        x[torch.tensor([3])] = 5.0  # which elements it writes is not known: not a hazard
        columns[:1, :4] += 1
        comm.recv(chunks[3], comm.rank ^ 1)
        work.wait()
        return x

    assert simulate(program, 2, args=(torch.zeros(4, 4),)).hazards == ()


@each_of("program", [ring_all_reduce, shift])
def test_right_programs_use_nothing_in_flight_under_any_adversary(program):
    for adversary in adversaries():
        run = attempt(program, 4, per_rank=[torch.arange(8.0) + rank for rank in range(4)], adversary=adversary)
        assert run.error is None or run.error.state == "deadlock"
        assert run.hazards == ()


def sends(comm, x):
    comm.isend(x, comm.rank ^ 1)
    comm.recv(torch.empty(3), comm.rank ^ 1)


def sends_in_a_batch(comm, x):
    comm.batch_isend_irecv([P2POp(comm.isend, x, comm.rank ^ 1)])
    comm.recv(torch.empty(3), comm.rank ^ 1)


def reduces(comm, x):
    comm.all_reduce(x, async_op=True)


@each_of("program", [sends, sends_in_a_batch, reduces])
def test_a_call_that_is_never_waited_for_is_an_error(program):
    with pytest.raises(InFlight, match=r"rank 0 never waited for call 1, .*3 float32 in shape \(3,\)") as told:
        simulate(program, 2, args=(torch.ones(3),))
    assert [(hazard.rank, hazard.act) for hazard in told.value.hazards] == [(0, "never waited"), (1, "never waited")]


def test_a_poll_that_finds_the_end_counts_as_a_wait():
    def program(comm):
        x, y = torch.ones(2), torch.empty(2)
        sent = comm.isend(x, comm.rank ^ 1)
        comm.recv(y, comm.rank ^ 1)
        while not sent.is_completed():
            pass
        x += y

    assert simulate(program, 2).hazards == ()


def test_simulate_says_which_call_which_tensor_both_lines_and_what_to_do():
    with pytest.raises(InFlight) as told:
        simulate(exchange, 2, args=(torch.ones(4), WRITES["in place"]))
    text = str(told.value)
    assert "rank 0 wrote to a tensor in flight" in text and "lambda x, y: x.div_(2)" in text
    assert "call 1, isend of 4 float32 in shape (4,) to rank 1" in text and "sent = comm.isend(x, other)" in text
    assert "wait() first, or send a copy" in text


def test_another_error_comes_first_and_the_hazard_is_a_note_to_it():
    def program(comm):
        x = torch.ones(2)
        comm.isend(x, 1 - comm.rank)
        x.zero_()
        raise KeyError("later")

    with pytest.raises(RankError, match="later") as told:
        simulate(program, 2)
    assert any("wrote to a tensor in flight" in note for note in told.value.__notes__)


def test_giving_a_tensor_in_flight_to_another_call_is_seen():
    def forwards(comm, x):
        y, z = torch.zeros_like(x), torch.zeros_like(x)
        got, sent = comm.irecv(y, comm.rank ^ 1), comm.isend(x, comm.rank ^ 1)
        comm.all_reduce(y)
        got.wait()
        sent.wait()
        return z

    acts = [(h.rank, h.act, h.call) for h in attempt(forwards, 2, args=(torch.ones(4),)).hazards]
    assert acts == [(0, "read", 1), (1, "read", 1)]


@each_of("apart", [False, True])
def test_the_same_is_seen_in_a_class_s_rank_processes(apart):
    def program(comm, x):
        return exchange(comm, x, WRITES["in place"])

    here = attempt(program, 2, args=(torch.ones(4),))
    there = across(serving(program), 2, apart, args=(torch.ones(4),))
    assert list(map(str, there.hazards)) == list(map(str, here.hazards)) and len(here.hazards) == 2
    assert there.error is None and Outcome.of(there).meter["hazards"] == list(map(str, here.hazards))


def test_interleavings_finds_a_hazard_that_changes_no_result():
    def program(comm):
        x = torch.zeros(2)
        sent = comm.isend(x, comm.rank ^ 1)
        comm.recv(torch.empty(2), comm.rank ^ 1)
        x.zero_()
        sent.wait()

    case = interleavings(program, 2, streams=False)
    assert case is not None and "rank 0 wrote to a tensor in flight" in str(case)


def test_a_mode_of_the_rank_s_own_is_left_alone_and_nothing_stays_on_the_thread():
    def program(comm, x):
        work = None
        with FlopCounterMode(display=False) as flops:
            work = comm.isend(x, comm.rank ^ 1)
            comm.recv(torch.empty_like(x), comm.rank ^ 1)
            torch.ones(2, 2) @ torch.ones(2, 2)
        counted = flops.get_total_flops()
        torch.ones(2, 2) @ torch.ones(2, 2)
        work.wait()
        late = comm.all_reduce(x, async_op=True)
        with FlopCounterMode(display=False):
            late.wait()
        return counted, flops.get_total_flops(), torch._C._len_torch_dispatch_stack()

    assert simulate(program, 2, args=(torch.ones(4),), debug=0).results[1][:2] == (16, 16)
    assert torch._C._len_torch_dispatch_stack() == torch._C._len_torch_function_stack() == 0


def test_a_use_under_a_mode_of_the_rank_s_own_is_seen():
    def program(comm, x):
        with FlopCounterMode(display=False), torch.device("cpu"):
            exchange(comm, x, WRITES["in place"])

    assert [h.act for h in attempt(program, 2, args=(torch.ones(4),)).hazards] == ["wrote", "wrote"]
