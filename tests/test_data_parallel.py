"""Data parallel training equals one process: losses, gradients, weights; on the cluster, on processes, and as torch's
own."""

import gc
from contextlib import nullcontext

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from course_lib.cluster import RankError, Topology, interleavings, simulate
from course_lib.cluster.parity import apart, objections, step_bytes, tolerance
from course_lib.model import text
from course_lib.model.transformer import Config, Transformer
from course_lib.parallel.data import (
    DataParallel,
    accumulate,
    average_gradients,
    buckets_of,
    cross_entropy_sum,
    indices_of,
    join,
    loss_scale,
    mean_metrics,
)
from course_lib.parallel.sharding import FullySharded, Zero
from course_runs.real_ranks import launch
from tests.sharding_kit import (
    CONFIG,
    SIZE,
    TERMS,
    adam,
    alone,
    assert_parity,
    gradients,
    mine,
    model_of,
    part,
    same_everywhere,
    weights,
)
from tests.tables import each_of

# --- parity


def train(comm, steps, dtype, seed_by_rank=False):
    """The same over ranks."""
    model, losses, first = model_of(dtype, seed=comm.rank if seed_by_rank else 0), [], None
    replica = DataParallel(comm, model, bucket_bytes=20_000)
    optimizer = adam(model)
    for step in range(steps):
        losses.append(mean_metrics(comm, loss=accumulate(replica, [mine(comm, step)]))["loss"])
        first = first or gradients(model)
        optimizer.step()
        optimizer.zero_grad()
    return losses, first, weights(model)


def torchs(comm, steps, dtype):
    """The same by torch's DistributedDataParallel, in real processes."""
    from torch.nn.parallel import DistributedDataParallel

    model, losses, first = model_of(dtype), [], None
    replica, optimizer = DistributedDataParallel(model, bucket_cap_mb=0.02), adam(model)
    for step in range(steps):
        tokens, targets = mine(comm, step)
        loss = nn.functional.cross_entropy(replica(tokens).flatten(0, 1), targets.flatten())
        loss.backward()
        losses.append(mean_metrics(comm, loss=(loss.item(), 1))["loss"])
        first = first or gradients(model)
        optimizer.step()
        optimizer.zero_grad()
    return losses, first, weights(model)


@pytest.mark.slower
@each_of("ranks", [1, 2, 4, 8])
def test_the_loss_curve_of_50_steps_is_that_of_one_process(ranks):
    run = simulate(train, ranks, (50, torch.float32))
    assert_parity(run.results[0], 50, torch.float32)
    assert run.results[0][0][-1] < 0.75 * run.results[0][0][0], "it learned something"
    assert same_everywhere(run.results)


@each_of("ranks", [2, 3, 8])
def test_forward_gradients_and_weights_after_ten_steps_of_adamw_are_those_of_one_process(ranks):
    run = simulate(train, ranks, (10, torch.float64))
    assert_parity(run.results[0], 10, torch.float64)
    assert same_everywhere(run.results)


def both(comm, steps, dtype):
    return (
        train(comm, steps, dtype),
        torchs(comm, steps, dtype),
        *(unused_step(comm, who) for who in ("ours", "torch's")),
    )


@pytest.mark.slower
def test_on_two_processes_ours_and_torchs_own_equal_one_process_and_each_other():
    results = launch(both, 2, (10, torch.float64)).results
    for ours, theirs, *_ in results:
        assert_parity(ours, 10, torch.float64)
        assert_parity(theirs, 10, torch.float64)
    assert same_everywhere([each[0] for each in results])
    for *_, own, peer in results:
        assert own.keys() == peer.keys() == {"both.weight", "first.weight", "second.weight"}, (
            "never: nowhere a gradient"
        )
        assert all(torch.allclose(own[name], peer[name]) for name in own)


@pytest.mark.slower
def test_four_processes_equal_one():
    assert_parity(launch(train, 4, (50, torch.float32)).results[3], 50, torch.float32)


def test_ranks_that_begin_with_other_weights_take_rank_0s():
    run = simulate(train, 3, (2, torch.float64, True))
    assert_parity(run.results[2], 2, torch.float64)


def wrong(comm, fault):
    """Ten steps with a fault, as threads have shown them."""
    model = model_of(torch.float64)
    replica, optimizer = DataParallel(comm, model, init_sync=False), adam(model)
    losses, first = [], None
    for step in range(10):
        tokens, targets = text.batch(step, SIZE, CONFIG.seq_len)
        if fault != "every rank reads the whole batch":
            tokens, targets = (part(rows, comm.rank, comm.size) for rows in (tokens, targets))
        loss = cross_entropy_sum(replica if fault != "nothing is averaged" else model, tokens, targets) / (
            TERMS / comm.size
        )
        with replica.no_sync() if fault == "nothing is averaged" else nullcontext():
            (loss * comm.size if fault == "a sum for a mean" else loss).backward()
        if fault != "nothing is averaged":
            replica.finish()
        if fault == "the tied weight counts twice":
            model.embedding.weight.grad *= 2
        losses.append(mean_metrics(comm, loss=(loss.item(), 1))["loss"])
        first = first or gradients(model)
        optimizer.step()
        optimizer.zero_grad()
    return losses, first, weights(model)


@each_of(
    "fault",
    ["every rank reads the whole batch", "nothing is averaged", "a sum for a mean", "the tied weight counts twice"],
)
def test_the_tolerance_is_tight_enough_to_tell_what_is_wrong(fault):
    with pytest.raises(AssertionError):
        assert_parity(simulate(wrong, 4, (fault,)).results[0], 10, torch.float64)


def test_the_faulty_loop_without_a_fault_is_right():
    assert_parity(simulate(wrong, 4, ("",)).results[0], 10, torch.float64)


# --- buckets and overlap


def one_step(comm, model, bucket_bytes, overlap=True, micro_batches=1, first_layer_first=False):
    replica = DataParallel(comm, model, bucket_bytes, overlap=overlap, init_sync=False)
    if first_layer_first:
        replica.rows.reverse()
    split = (rows.tensor_split(micro_batches) for rows in mine(comm, 0, size=16))
    accumulate(replica, list(zip(*split, strict=True)))
    return gradients(model)


def trained(model):
    return [each for each in model.parameters() if each.requires_grad]


MODEL = model_of(config=Config(layers=4, positions="learned"))
NBYTES = sum(each.nbytes for each in trained(MODEL))
WIRE = Topology.flat(latency=1e-6, bandwidth=1e9, flops=1e10)  # computing takes longer than sending


@each_of("ranks", [2, 4, 8])
def test_buckets_hide_their_communication_behind_the_backward_pass(ranks):
    hidden, shown = (
        simulate(one_step, ranks, (MODEL, 20_000, overlap), topology=WIRE, account=True) for overlap in (True, False)
    )
    assert objections(hidden, NBYTES, hidden=0.8) == []
    assert [words.split(" of its")[0] for words in objections(shown, NBYTES, hidden=0.8)] == ["Rank 0 hid 0 %"]
    assert max(hidden.exposed()) < 0.2 * min(shown.exposed()) and hidden.seconds < shown.seconds
    assert all(torch.equal(value, shown.results[0][name]) for name, value in hidden.results[0].items())


@each_of("how", [(10**9,), (20_000, True, 1, True)])
def test_buckets_that_are_ready_only_at_the_end_hide_next_to_nothing(how):
    run = simulate(one_step, 4, (MODEL, *how), topology=WIRE, account=True)
    assert objections(run, NBYTES) == []
    assert any(
        "start each bucket when its last gradient is there" in words for words in objections(run, NBYTES, hidden=0.1)
    )


@each_of("ranks", [1, 2, 3, 8])
@each_of("bucket_bytes", [1, 20_000, 10**9])
def test_bytes_and_messages_of_a_step_are_those_predicted(ranks, bucket_bytes):
    run = simulate(one_step, ranks, (MODEL, bucket_bytes))
    buckets = buckets_of(reversed(trained(MODEL)), bucket_bytes)
    counting = step_bytes([[torch.zeros(1, dtype=torch.float64)]], ranks)  # of tokens
    assert run.meter.bytes_sent == [a + b for a, b in zip(step_bytes(buckets, ranks), counting, strict=True)]
    assert run.meter.messages_sent == [2 * (ranks - 1) * (len(buckets) + 1)] * ranks


def test_buckets_begin_with_the_last_layer_and_break_at_their_size_and_at_another_dtype():
    layers = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4).half(), nn.Linear(4, 300), nn.Linear(300, 2, bias=False))
    names = {each: name for name, each in layers.named_parameters()}
    cut = [[names[each] for each in bucket] for bucket in buckets_of(reversed(list(layers.parameters())), 4000)]
    assert cut == [["3.weight", "2.bias"], ["2.weight"], ["1.bias", "1.weight"], ["0.bias", "0.weight"]]
    with pytest.raises(ValueError, match="nbytes"):
        buckets_of(layers.parameters(), 0)


def test_no_order_of_messages_changes_a_bit():
    def program(comm):
        one_step(comm, model := model_of(), 20_000)
        return gradients(model)

    def same(run):
        return all(torch.equal(each, run.results[0][name]) for result in run.results for name, each in result.items())

    assert interleavings(program, 3, check=same) is None


def test_averaging_after_the_backward_pass_gives_the_same_gradients():
    def program(comm):
        model, other = model_of(torch.float64), model_of(torch.float64)
        replica = DataParallel(comm, model)
        tokens, targets = mine(comm, 0)
        for net in (replica, other):
            cross_entropy_sum(net, tokens, targets).backward()
        replica.finish()
        average_gradients(comm, other.parameters())
        return all(torch.equal(value, gradients(other)[name]) for name, value in gradients(model).items())

    assert simulate(program, 4).results == [True] * 4


# --- accumulation, unequal shares, ranks without data


def test_micro_batches_are_sent_once_and_one_graph_is_alive_at_a_time():
    runs = {count: simulate(one_step, 2, (MODEL, 20_000, True, count), account=True) for count in (1, 4)}
    assert runs[4].meter.messages_sent == runs[1].meter.messages_sent
    for name, want in runs[1].results[0].items():
        assert apart(runs[4].results[0][name], want, TERMS) <= 1, name
    kept = [run.meter.peak_roles[0]["saved for backward"] for run in runs.values()]
    assert kept[1] < 0.4 * kept[0]


UNEQUAL = [[3, 1], [2], [], [4, 4, 2]]  # sequences in each rank's micro-batches


def unequal(comm, shares, by_tokens):
    """A step whose ranks have other numbers of sequences; every third token is padding where the row is odd."""
    model = model_of(torch.float64)
    replica = DataParallel(comm, model)
    tokens, targets = padded(sum(map(sum, shares)))
    sizes = [size for share in shares for size in share]
    rows = list(zip(tokens.split(sizes), targets.split(sizes), strict=True))
    start = sum(len(share) for share in shares[: comm.rank])
    mine = rows[start : start + len(shares[comm.rank])]
    if by_tokens:
        total, count = accumulate(replica, mine)
        return mean_metrics(comm, loss=(total, count))["loss"], gradients(model)
    losses = [nn.functional.cross_entropy(replica.module(x).flatten(0, 1), y.flatten()) for x, y in mine]
    (sum(losses) / len(losses) if losses else 0 * sum(each.sum() for each in trained(model))).backward()
    replica.finish()
    return 0.0, gradients(model)


def padded(size):
    tokens, targets = text.batch(0, size, CONFIG.seq_len)
    targets[1::2, ::3] = -100
    return tokens, targets


def test_ranks_with_unequal_tokens_or_none_give_the_gradient_of_all_tokens():
    model = model_of(torch.float64)
    tokens, targets = padded(16)
    want = nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
    want.backward()
    loss, got = simulate(unequal, 4, (UNEQUAL, True)).results[2]
    assert loss == pytest.approx(want.item(), rel=tolerance(torch.float64, TERMS))
    assert max(apart(got[name], each, TERMS) for name, each in gradients(model).items()) <= 1
    _, mean_of_means = simulate(unequal, 4, (UNEQUAL, False)).results[2]
    assert max(apart(mean_of_means[name], each, TERMS) for name, each in gradients(model).items()) > 1e9


LENGTHS = [3, 1, 0]  # batches of each rank


def descend(model):
    """A plain step: real processes take seconds to load AdamW."""
    with torch.no_grad():
        for each in trained(model):
            each -= 0.1 * each.grad
            each.grad = None


def until_all_are_out(comm, lengths):
    model = model_of(torch.float64)
    replica = DataParallel(comm, model)
    mine = [text.batch(100 * comm.rank + step, 2 + step, CONFIG.seq_len) for step in range(lengths[comm.rank])]
    steps = 0
    for batch in join(comm, mine):
        accumulate(replica, [] if batch is None else [batch])
        descend(model)
        steps += 1
    return steps, weights(model)


@each_of("where", [simulate, launch])
def test_ranks_that_run_out_of_data_go_on_answering_and_do_not_count(where):
    model = model_of(torch.float64)
    for step in range(max(LENGTHS)):
        batches = [text.batch(100 * rank + step, 2 + step, CONFIG.seq_len) for rank in range(3) if step < LENGTHS[rank]]
        tokens, targets = (torch.cat(rows) for rows in zip(*batches, strict=True))
        (cross_entropy_sum(model, tokens, targets) / targets.numel()).backward()
        descend(model)
    for steps, end in where(until_all_are_out, 3, (LENGTHS,)).results:
        assert steps == max(LENGTHS)
        assert all(apart(end[name], want, TERMS, steps) <= 1 for name, want in weights(model).items())


def test_a_step_in_which_no_rank_has_a_token_is_an_error_on_all():
    with pytest.raises(RankError, match="No rank has a token"):
        simulate(lambda comm: loss_scale(comm, 0), 2)


# --- parameters without a gradient, and other ways to hang


class Branches(nn.Module):
    """Rank by rank another branch; one that nobody takes."""

    def __init__(self):
        super().__init__()
        for name in ("both", "first", "second", "never"):
            layer = nn.Linear(3, 3, bias=False, dtype=torch.float64)
            nn.init.constant_(layer.weight, len(name))
            setattr(self, name, layer)

    def forward(self, x, branch):
        return self.both(x) + getattr(self, branch)(x)


def unused_step(comm, who="ours", unused="zero"):
    model = Branches()
    x = torch.arange(3.0, dtype=torch.float64) + comm.rank
    branch = "first" if comm.rank == 0 else "second"
    if who == "ours":
        replica = DataParallel(comm, model, bucket_bytes=1, unused=unused)
        replica(x, branch).square().sum().backward()
        replica.finish()
    else:
        from torch.nn.parallel import DistributedDataParallel

        replica = DistributedDataParallel(model, find_unused_parameters=True)
        replica(x, branch).square().sum().backward()
    return gradients(model)


def test_a_parameter_that_one_rank_does_not_reach_counts_as_zero_there_and_nowhere_reached_stays_without():
    for got in simulate(unused_step, 2).results:
        model = Branches()
        for rank, branch in enumerate(("first", "second")):
            (model(torch.arange(3.0, dtype=torch.float64) + rank, branch).square().sum() / 2).backward()
        assert got.keys() == gradients(model).keys() == {"both.weight", "first.weight", "second.weight"}
        assert all(torch.allclose(got[name], each) for name, each in gradients(model).items())


@each_of("where", [simulate, launch])
def test_otherwise_it_is_an_error_that_names_it_and_never_a_hang(where):
    with pytest.raises(RankError, match=r"no gradient for never.weight, (first|second).weight \(2 of 4 parameters\)"):
        where(unused_step, 2, ("ours", "error"))


def frozen_on_one(comm):
    model = Branches()
    model.first.weight.requires_grad_(comm.rank > 0)
    DataParallel(comm, model)


def twice_backward(comm):
    replica = DataParallel(comm, nn.Linear(2, 1))
    for _ in range(2):
        replica.module(torch.ones(2)).sum().backward()


def forward_before_finish(comm):
    replica = DataParallel(comm, nn.Linear(2, 1))
    for _ in range(2):
        replica(torch.ones(2)).sum().backward()


def nothing_to_train(comm):
    DataParallel(comm, nn.ReLU())


def unknown_word(comm):
    DataParallel(comm, nn.Linear(2, 1), unused="ignore")


@each_of(
    "program, words",
    (frozen_on_one, "rank . trains . parameters; all ranks must train the same"),
    (twice_backward, r"got a second gradient before finish\(\).*no_sync"),
    (forward_before_finish, r"call finish\(\) before the next forward pass"),
    (nothing_to_train, "trains 0 parameters"),
    (unknown_word, "choose 'error' or 'zero'"),
)
def test_a_mistake_is_said_where_it_is_made(program, words):
    with pytest.raises(RankError, match=words):
        simulate(program, 2)


@each_of("copies", [True, False])
def test_buffers_are_rank_0s_at_the_start_and_before_each_forward_pass(copies):
    def program(comm):
        model = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1))
        model[0].running_mean.fill_(comm.rank + 1)
        replica = DataParallel(comm, model, buffers=copies)
        start = model[0].running_mean.clone()
        for _ in range(2):
            replica(torch.full((4, 2), 10.0 * comm.rank)).sum().backward()
            replica.finish()
        return start, model[0].running_mean.clone()

    (start_0, end_0), (start_1, end_1) = simulate(program, 2).results
    assert torch.equal(start_0, start_1) and start_0[0] == 1
    assert end_0[0] == pytest.approx(0.81)
    assert end_1[0] == pytest.approx(0.9 * 0.9 + 1 if copies else 0.9 * (0.9 + 1) + 1)


# --- who reads what, and what is told


@given(st.integers(1, 60), st.integers(1, 9), st.integers(0, 3), st.integers(0, 3))
def test_ranks_read_every_sample_and_none_twice_but_for_the_padding(samples, ranks, epoch, seed):
    shares = {
        rest: [indices_of(samples, rank, ranks, epoch, seed, rest) for rank in range(ranks)]
        for rest in ("pad", "drop", "keep")
    }
    kept = sorted(index for share in shares["keep"] for index in share)
    assert kept == list(range(samples))
    assert {len(share) for share in shares["pad"]} == {-(-samples // ranks)}
    assert {index for share in shares["pad"] for index in share} == set(range(samples))
    assert {len(share) for share in shares["drop"]} == {samples // ranks}
    assert len({index for share in shares["drop"] for index in share}) == samples // ranks * ranks


@each_of("ranks", [2, 4, 8])
def test_a_step_reads_the_same_samples_at_any_number_of_ranks(ranks):
    order, per_rank = indices_of(64, 0, 1, epoch=3, seed=5), 8 // ranks
    for step in range(8):
        read = [indices_of(64, rank, ranks, 3, 5)[step * per_rank : (step + 1) * per_rank] for rank in range(ranks)]
        assert sorted(sum(read, [])) == sorted(order[step * 8 : (step + 1) * 8])


def test_every_epoch_and_seed_has_an_order_of_its_own():
    orders = [tuple(indices_of(50, 0, 1, epoch, seed)) for epoch in range(3) for seed in range(3)]
    assert len(set(orders)) == 9
    with pytest.raises(ValueError, match="rank=4 of ranks=4"):
        indices_of(8, 4, 4)
    with pytest.raises(ValueError, match="samples"):
        indices_of(0, 0, 1)


def test_metrics_are_means_over_what_was_counted_not_over_ranks():
    right, seen = [3, 0, 10], [4, 0, 40]
    run = simulate(lambda comm: mean_metrics(comm, accuracy=(right[comm.rank], seen[comm.rank]), none=(0, 0)), 3)
    assert all(result["accuracy"] == 13 / 44 and result["none"] != result["none"] for result in run.results)


# --- memory that ranks do not share

shared: list[torch.Tensor] = []


def through_memory(comm):
    model = model_of(torch.float64)
    tokens, targets = mine(comm, 0)
    (cross_entropy_sum(model, tokens, targets) / TERMS).backward()
    shared.append(gradients(model))
    comm.barrier()
    total = {name: sum(each[name] for each in shared) for name in shared[0]}
    return [alone(1, torch.float64)[0][0]], total, weights(model)


def test_what_ranks_leave_in_memory_reaches_no_other_rank_and_is_told_by_values_and_bytes():
    run = simulate(through_memory, 4)
    assert shared == []
    with pytest.raises(AssertionError):
        assert_parity((*run.results[0][:2], alone(1, torch.float64)[2]), 1, torch.float64)
    assert "sent 0 B in all" in objections(run, NBYTES)[0]


def one_backward(comm, wrap):
    model = model_of()
    wrapped = wrap(comm, model)
    wrapped(text.batch(0, 4, CONFIG.seq_len)[0]).square().mean().backward()
    wrapped.finish()


WRAPPERS = {
    "data parallel": lambda comm, model: DataParallel(comm, model, 20_000),
    "ZeRO stage 1": lambda comm, model: Zero(comm, model, 1),
    "ZeRO stage 2": lambda comm, model: Zero(comm, model, 2),
    "fully sharded": lambda comm, model: FullySharded(comm, model, list(model.blocks)),
}


@each_of("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_a_model_is_freed_when_its_ranks_have_ended(wrap):
    def alive():
        gc.collect()
        return sum(type(each) is Transformer for each in gc.get_objects())

    before = alive()
    simulate(one_backward, 2, (wrap,))
    assert alive() == before
