"""Chapter 07's exercises: oracles are those of real runs, of torch's own replica and of the library."""

import random

import pytest
import torch
from contract.kit import functions, graded, silent_meter, wrong
from torch import nn
from torch.nn import functional

from course_lib import data_parallel, exercises
from course_lib.cluster import Topology, simulate
from course_lib.exercises import killmatrix
from course_lib.exercises.ch07.judges.audits import KEYS
from course_lib.exercises.ch07.judges.core import exposed_seconds
from course_lib.exercises.ch07.judges.hooks import SECONDS, WIDE
from course_lib.exercises.ch07.judges.ranks import collective_seconds, net
from course_lib.exercises.ch07.models import Counted, Net, Replica, Words
from course_lib.exercises.ch07.probes import deal, hooked, mean_square
from course_lib.grading.worker.plain_values import Given
from course_lib.judging import judging
from course_lib.records import Outcome

# --- variants


def even_by(params):
    def break_even_tokens(flops, bandwidth, ranks, grad_bytes):
        return 2 * (ranks - 1) / ranks * grad_bytes / bandwidth * flops / each

    def most_gpus(batch_tokens, flops, bandwidth, grad_bytes):
        return 1 + int(batch_tokens * each * bandwidth / (2 * grad_bytes * flops))

    each = {"step": 6, "backward": 4}[params["behind"]]
    return break_even_tokens, most_gpus


# --- who keeps everything whole, communicates nothing, shares through memory, overlaps nothing


def test_the_library_is_switched_off_where_it_is_the_answer():
    def averages(comm, grads, examples):
        parameters = [nn.Parameter(g) for g in grads]
        data_parallel.average_gradients(comm, parameters)
        return grads

    def replica(comm, model):
        return data_parallel.DataParallel(comm, model).finish

    def buckets(comm, model, bucket_bytes):
        return data_parallel.DataParallel(comm, model, bucket_bytes).finish

    def metrics(comm, batches):
        return data_parallel.mean_metrics(comm, loss=(1.0, 1.0), accuracy=(1.0, 1.0))

    for name, answer in (
        ("average-gradients", averages),
        ("ddp-hooks", replica),
        ("ddp-buckets", buckets),
        ("mean-metrics", metrics),
        ("sampler", lambda *given: data_parallel.indices_of(*given)),
    ):
        report = graded(name, answer)
        assert report.points == 0 and "switched off" in report.verdicts[0].message, name


@pytest.mark.parametrize("exercise", ["ddp-hooks", "ddp-buckets"])
def test_an_answer_without_overlap_loses_the_points_for_time_and_hears_how_much_is_exposed(exercise):
    late = [
        a
        for a in killmatrix.bank("07")
        if a.exercise == exercise and a.expected == "cost" and a.mistake == "not-hidden"
    ]
    assert len(late) >= 4
    assert "µs of communication are exposed" in killmatrix.judge(late[0]).message


# --- the models and what they tell


def test_the_nets_backward_pass_takes_its_time_before_each_gradient_comes():
    def program(comm):
        model, clock = Net(comm, {"seed": 1, "width": 3, "layers": 4, "seconds": 1.0}), []
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(lambda _: clock.append(0))
        model(torch.ones(2, 3)).sum().backward()
        return len(clock)

    run = simulate(program, 1)
    assert run.results == [8] and run.seconds == pytest.approx(4 * 1.5)


@pytest.mark.parametrize("ranks", [2, 3, 5])
@pytest.mark.parametrize("size", [4000, 640_000])
def test_the_time_of_one_all_reduce_is_that_of_a_metered_run(ranks, size):
    def program(comm):
        comm.all_reduce(torch.ones(size // 4))

    assert simulate(program, ranks).seconds == pytest.approx(collective_seconds(size, ranks), rel=0.02)


def test_on_the_clock_a_layers_gradients_take_less_than_its_computing_and_far_more_than_a_latency():
    one = collective_seconds(4 * WIDE * WIDE, 3)
    assert 10 * Topology().levels[0].latency < one < SECONDS


def test_the_replica_reads_its_flag_in_the_forward_pass_as_torchs_does():
    def program(comm, lowered):
        replica = Replica(comm, nn.Linear(1, 1, bias=False))
        with torch.no_grad():
            replica.module.weight.fill_(1.0)
        replica.require_backward_grad_sync = "forward" not in lowered
        out = replica(torch.tensor([[float(comm.rank)]]))
        replica.require_backward_grad_sync = "backward" not in lowered
        out.sum().backward()
        return replica.module.weight.grad.item()

    assert simulate(program, 2, ((),)).results == [0.5, 0.5]
    assert simulate(program, 2, (("backward",),)).results == [0.5, 0.5]
    assert simulate(program, 2, (("forward",),)).results == [0.0, 1.0]


def test_torchs_own_replica_has_that_rule_too(tmp_path):
    from torch import distributed
    from torch.nn.parallel import DistributedDataParallel

    store = distributed.FileStore(str(tmp_path / "store"), 1)
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        model = DistributedDataParallel(nn.Linear(2, 2))
        seen = []
        model.register_comm_hook(
            None, lambda _, bucket: seen.append(1) or torch.futures.Future.then(_done(bucket), lambda f: f.value())
        )
        model.require_backward_grad_sync = False
        out = model(torch.ones(1, 2))
        model.require_backward_grad_sync = True
        out.sum().backward()
        assert not seen
        model(torch.ones(1, 2)).sum().backward()
        assert seen
    finally:
        distributed.destroy_process_group()


def _done(bucket):
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def test_graphs_count_as_alive_until_they_went_backwards_or_are_forgotten():
    model = Words(1, 5, 3)
    for _ in range(3):
        model(torch.zeros(2, 4, dtype=torch.long)).sum().backward()
    assert model.counted.told() == {"forwards": 3, "rows": 2, "most alive": 1}
    kept = [model(torch.zeros(1, 4, dtype=torch.long)) for _ in range(2)]
    assert model.counted.told()["most alive"] == 2
    del kept
    fresh = Counted()
    x = torch.ones(1, requires_grad=True)
    for _ in range(3):
        fresh.note(x, x * 2)
    assert fresh.told()["most alive"] <= 2


def test_the_words_are_a_language_model():
    model = Words(3, 7, 4)
    logits = model(torch.arange(6).reshape(2, 3))
    assert logits.shape == (2, 3, 7)
    functional.cross_entropy(logits.flatten(0, 1), torch.zeros(6, dtype=torch.long)).backward()
    assert all(p.grad is not None for p in model.parameters())


# --- oracles against the library


def test_the_librarys_replica_passes_both_exercises_of_hooks():
    """Under other names: the course's own data parallelism keeps the contract it teaches."""

    def hooks(comm, model):
        return data_parallel.DataParallel(comm, model, 4, init_sync=False, buffers=False).finish

    def buckets(comm, model, nbytes):
        return data_parallel.DataParallel(comm, model, nbytes, init_sync=False, buffers=False).finish

    for name, answer in (("ddp-hooks", hooks), ("ddp-buckets", buckets)):
        contract, card = judging(name), exercises.card(name)
        for case in contract.cases(card.params, random.Random(2)):
            run = simulate(
                lambda comm, *given, answer=answer: hooked(answer, Given(given, {}), comm),
                case.ranks,
                per_rank=case.per_rank,
            )
            found = contract.verdicts(card.params, case, run_outcome(run))
            assert not wrong(found), (name, case.name)


def run_outcome(run):
    return Outcome(state="answered", value=run.results, meter={**run.meter.as_dict(), "seconds": run.seconds})


@pytest.mark.parametrize("rest", ["pad", "drop"])
def test_the_librarys_sampler_passes_by_its_rule(rest):
    card = exercises.card("sampler")
    params = {**card.params, "rest": rest}
    contract = judging("sampler")
    for case in contract.cases(params, random.Random(4)):
        got = deal(lambda *given: data_parallel.indices_of(*given, rest), Given(case.args, {}))
        found = contract.verdicts(params, case, Outcome(state="answered", value=got))
        assert not wrong(found)


def test_the_sampler_leaves_the_callers_generators_where_they_were():
    import numpy as np

    random.seed(5), np.random.seed(5), torch.manual_seed(5)  # noqa: NPY002
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002
    deal(lambda samples, rank, ranks, epoch, seed: [random.random()], Given((4, (2,), range(2), 0), {}))
    assert before == (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())  # noqa: NPY002


def test_uneven_training_is_that_of_one_process_with_all_examples_of_each_step():
    contract, card = judging("uneven-inputs"), exercises.card("uneven-inputs")
    case = contract.cases(card.params, random.Random(6))[1]
    spec, rate = case.per_rank[0][:2]
    model = net(spec)
    longest = max(len(own[2]) for own in case.per_rank)
    for step in range(longest):
        here = [own[2][step] for own in case.per_rank if step < len(own[2])]
        loss = mean_square(model(torch.cat([x for x, _ in here])), torch.cat([y for _, y in here]))
        grads = torch.autograd.grad(loss, list(model.parameters()))
        for parameter, grad in zip(model.parameters(), grads, strict=True):
            with torch.no_grad():
                parameter -= rate * grad
    serial = [p.detach() for p in model.parameters()]
    value = [{"steps": longest, "weights": serial}] * case.ranks
    found = contract.verdicts(card.params, case, Outcome(state="answered", value=value, meter=silent_meter(case.ranks)))
    assert all(v.ok for v in found if v.kind == "values")


def test_a_batch_split_over_1_2_4_or_8_ranks_is_the_same_batch():
    """The chapter's claim, by the exercise's own oracle: gradients of any split are those of the whole."""
    inputs, targets = torch.randint(9, (8, 5)), torch.randint(9, (8, 5))
    targets[::3, 2:] = -100
    answer = functions("token-mean")[0]

    def program(comm):
        model = Words(11, 9, 4)
        each = len(inputs) // comm.size
        mine = slice(comm.rank * each, (comm.rank + 1) * each)
        loss = answer(comm, model, [(inputs[mine], targets[mine])])
        return loss, [p.grad for p in model.parameters()]

    whole, grads = simulate(program, 1).results[0]
    for ranks in (2, 4, 8):
        for loss, split in simulate(program, ranks).results:
            assert loss == pytest.approx(whole, rel=1e-5)
            for got, want in zip(split, grads, strict=True):
                torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-6)


# --- numbers


def test_the_all_reduce_that_was_called_350_times_too_slow_is_a_third_of_the_step():
    assert KEYS["all-reduce-350x"].number == pytest.approx(0.3255, rel=1e-3)
    assert KEYS["mean-of-shards-exact"].number * 4 == pytest.approx(3.58, rel=1e-3)


@pytest.mark.parametrize(
    ("bandwidth", "step", "backward"), [(50e9, 5333, 8000), (100e9, 2667, 4000), (450e9, 593, 889)]
)
def test_break_even_tokens_of_the_audited_lesson(bandwidth, step, backward):
    """At 0.4 PFLOP/s, 16-bit gradients, very many ranks; the second behind the backward pass alone."""
    for behind, tokens in (("step", step), ("backward", backward)):
        found, _ = even_by({"behind": behind})
        assert found(4e14, bandwidth, 10**6, 2) == pytest.approx(tokens, rel=1e-3)


def test_the_predicted_time_is_the_rings_less_the_backward_passes():
    card = exercises.card("predict-exposed")
    assert exposed_seconds(card.params) == pytest.approx(0.63 - 0.16384)
    assert "466" in judging(card.id).reveal(card.params) or "0.466" in judging(card.id).reveal(card.params)
    for seed in range(40):
        assert exposed_seconds(card.variant(str(seed))) > 0.05
