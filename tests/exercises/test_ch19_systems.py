"""Two systems of ranks: weights that arrive are those that left, loops keep their bound, and simulations meet closed
forms."""

import math
import random

import numpy as np
import pytest
import torch

from course_chapters.ch19 import long_tail, loops, post_plan, rollout, weight_sync
from course_lib.cluster import RankError, simulate
from course_lib.estimate import facts
from course_lib.estimate.memory import Layout, zero_bytes
from course_lib.estimate.running_plan import CONVENTION
from course_lib.model import transformer
from course_lib.model.transformer import Config
from tests.tables import each_of

CONFIG = Config(layers=2, hidden=16, heads=4, kv_heads=2, seq_len=16)
PLANS = [  # the trainer's layout, the generator's, and whether they share their ranks
    (Layout(tp=2, dp=2, zero=3), Layout(tp=4), False),
    (Layout(dp=4, zero=3), Layout(tp=2, dp=2), False),
    (Layout(tp=4, dp=2), Layout(dp=2), False),
    (Layout(dp=3, zero=3), Layout(tp=4), False),
    (Layout(tp=2, dp=20, zero=3), Layout(), False),  # more ranks than rows of a norm
    (Layout(tp=4), Layout(tp=2, dp=2), True),
    (Layout(dp=4, zero=3), Layout(tp=2, dp=2), True),
]


@each_of("trainer, generator, shared", PLANS)
def test_received_weights_equal_the_whole_and_bytes_are_those_predicted(trainer, generator, shared):
    whole = dict(transformer.build(CONFIG, 3).named_parameters())
    full = weight_sync.holdings(CONFIG, Layout())[0]
    held = weight_sync.holdings(CONFIG, trainer)
    needed = weight_sync.holdings(CONFIG, generator, 0 if shared else trainer.ranks)
    ranks = max([*held, *needed]) + 1
    mine = [
        {name: box.of(whole[name], full[name]).detach() for name, box in held.get(rank, {}).items()}
        for rank in range(ranks)
    ]
    limit = 2048
    run = simulate(weight_sync.sync, ranks, (held, needed), [(each, torch.bfloat16, limit) for each in mine])
    for rank in range(ranks):
        got = run.results[rank]
        assert got.keys() == needed.get(rank, {}).keys()
        for name, box in needed.get(rank, {}).items():
            assert torch.equal(got[name], box.of(whole[name], full[name]).bfloat16())
    predicted = weight_sync.sync_bytes(held, needed, 2)
    assert run.meter.bytes_sent == [predicted.sent.get(rank, 0) for rank in range(ranks)]
    assert run.meter.bytes_received == [predicted.received.get(rank, 0) for rank in range(ranks)]
    assert sum(predicted.received.values()) == predicted.floor <= predicted.whole
    for bucket in weight_sync.buckets(weight_sync.sync_map(held, needed), limit, 2):
        for side in ("source", "target"):
            moved = [
                2 * sum(each.box.numel for each in bucket if getattr(each, side) == rank and each.source != each.target)
                for rank in range(ranks)
            ]
            assert max(moved) <= limit


def test_replicas_share_the_sending():
    held = weight_sync.holdings(CONFIG, Layout(dp=4))
    sent = weight_sync.sync_bytes(held, weight_sync.holdings(CONFIG, Layout(dp=4), 4), 2).sent
    assert max(sent.values()) <= 1.1 * min(sent.values())


@each_of("way", list(loops.WAYS))
def test_a_loop_keeps_its_bound_and_its_time(way):
    for generate, train in ((8.0, 4.0), (4.0, 8.0)):
        found = loops.record(way, generate, train, steps=5)
        assert max(found.staleness) <= loops.WAYS[way]
        longest = long_tail.step_seconds(generate, train, loops.WAYS[way], way == "colocated")
        longest /= 2 if way == "colocated" else 1
        ends = generate + train if loops.WAYS[way] else longest
        assert (
            4 * longest * 0.85 <= found.run.seconds - 0.85 * ends <= 4 * longest + 3
        )  # with syncs; draws up to 1/4 less
    fast, slow = loops.record("up to 3 behind", 4.0, 8.0), loops.record("up to 3 behind", 8.0, 4.0)
    assert fast.staleness[-1] == 3 and slow.staleness[-1] == 1  # only a faster generator is far ahead


TASK = rollout.Task(prompts=((1, 2, 3), (4, 5)), samples=4, reply=6)


@pytest.fixture(scope="module")
def alone():
    return {
        bound: rollout.run(TASK, rollout.plan(TASK, trainer=Layout(), generator=Layout(), bound=bound, steps=3))
        for bound in (0, 1)
    }


@pytest.mark.parametrize("bound", [0, 1])
def test_on_six_ranks_the_model_learns_what_it_learns_on_two(alone, bound):
    several = rollout.run(
        TASK, rollout.plan(TASK, trainer=Layout(tp=2, dp=2), generator=Layout(dp=2), bound=bound, steps=3)
    )
    one = alone[bound].results[0].trainer
    for worked in several.results[:4]:
        assert worked.trainer.rewards == pytest.approx(one.rewards, rel=1e-12)
        assert worked.trainer.losses == pytest.approx(one.losses, rel=1e-12)
    assert several.results[-1].versions == [0, 1 - bound, 2 - bound]
    held = weight_sync.holdings(CONFIG, Layout(tp=2, dp=2))
    for rank, boxes in held.items():
        got = several.results[rank].trainer.weights
        for name, box in boxes.items():
            torch.testing.assert_close(
                got[name], box.of(one.weights[name], weight_sync.holdings(CONFIG, Layout())[0][name])
            )


def test_the_generator_has_the_trainers_weights_and_an_empty_cache(alone):
    trainer, generator = (worked for worked in alone[0].results)
    assert generator.generator.version == 2 and len(trainer.trainer.losses) <= 3
    engine = generator.generator
    before = engine.engine
    engine.load(trainer.trainer.weights, 3)
    assert engine.engine is not before and engine.engine.pool.match([1, 2, 3, 4, 5]) == ()
    for name, weight in engine.model.named_parameters():
        assert torch.equal(weight, trainer.trainer.weights[name])


def test_without_a_better_reply_no_weight_changes():
    task = rollout.Task(prompts=((1, 2),), samples=2, reply=3, reward=lambda prompt, reply: 1.0)
    run = rollout.run(task, rollout.plan(task, trainer=Layout(), generator=Layout(), steps=2))
    start = transformer.build(CONFIG, task.seed).double().state_dict()
    assert run.results[0].trainer.losses == [] and run.results[0].trainer.rewards == [1.0, 1.0]
    assert all(torch.equal(start[name], weight) for name, weight in run.results[0].trainer.weights.items())


@each_of("bound, pause", [(0, False), (0, True), (1, False), (3, False)])
def test_equal_lengths_take_the_time_of_the_closed_form(bound, pause):
    for length, train in ((10, 4), (4, 10)):
        found = long_tail.simulate_tail([length] * 80, 8, 8, train, bound, "started", pause)
        step = long_tail.step_seconds(length, train, bound, pause)
        first = length + train if bound >= 1 else step  # the pipeline fills
        assert found.seconds == pytest.approx(first + 9 * step)
        assert found.staleness <= bound


def test_one_rollout_on_each_gpu_idles_as_the_closed_forms_say():
    lengths = [3, 5, 9, 1]
    assert long_tail.simulate_tail(lengths, 4, 4, 0).idle == pytest.approx(long_tail.idle_of_batch(lengths))
    coin = np.random.default_rng(1)
    found = long_tail.simulate_tail(list(coin.exponential(1.0, 16 * 400)), 16, 16, 0)
    assert found.idle == pytest.approx(long_tail.exponential_idle(16), abs=0.02)
    assert long_tail.exponential_idle(1) == 0


def test_partial_rollouts_lose_no_time_between_trainings():
    lengths = long_tail.drawn_lengths(640, 100)
    found = long_tail.simulate_tail(lengths, 32, 32, 50, math.inf, "finished", pause=True)
    last = max(start for _, start, _, number in found.spans if number == len(lengths) - 1)  # until then, none runs out
    training = sum(min(end, last) - start for start, end in found.steps if start < last)
    generated = sum(min(end, last) - start for _, start, end, _ in found.spans if start < last)
    assert generated == pytest.approx(32 * (last - training))
    waits = long_tail.simulate_tail(lengths, 32, 32, 50, 0, "started", pause=True)
    assert waits.old_share == 0 < found.old_share and found.seconds < waits.seconds


@each_of("seed", range(20))
def test_every_token_is_trained_once_and_the_bound_holds(seed):
    coin = random.Random(seed)
    lengths = [coin.randint(1, 40) for _ in range(coin.randint(12, 60))]
    slots, batch, bound = coin.randint(1, 8), coin.randint(1, 12), coin.choice((0, 1, 2, math.inf))
    order, pause = coin.choice(long_tail.ORDERS), coin.random() < 0.5
    found = long_tail.simulate_tail(lengths, slots, batch, coin.choice((0, 3, 20)), bound, order, pause)
    numbers = [each.number for each in found.trained]
    assert len(set(numbers)) == len(numbers) == len(lengths) // batch * batch
    for each in found.trained:
        assert sum(count for _, count in each.tokens) == pytest.approx(lengths[each.number])
        assert each.tokens[0][0] >= each.number // batch - bound
        if order == "started":
            assert each.number // batch == each.version and each.staleness <= bound
    for slot in range(slots):
        mine = sorted((start, end) for where, start, end, _ in found.spans if where == slot)
        assert all(one[1] <= two[0] + 1e-9 for one, two in zip(mine, mine[1:], strict=False))
    if pause:
        assert all(end <= begins or start >= stops for _, start, end, _ in found.spans for begins, stops in found.steps)


def test_memory_of_roles_is_that_of_the_memory_model():
    params = facts.model("llama3-8b").params
    both = post_plan.memory({"actor": "llama3-8b", "reference": "llama3-8b"}, 8, 4096)
    assert both.state["actor"] == pytest.approx(zero_bytes(params, 3, 8, CONVENTION))
    assert both.state["reference"] == pytest.approx(2 * params / 8)
    alone = post_plan.memory({"actor": "llama3-8b"}, 8, 4096)
    assert both.working == alone.working and both.total == pytest.approx(alone.total + 2 * params / 8)


def test_the_best_split_is_the_quickest_and_balances_the_sides():
    job = post_plan.PostJob()
    best, every = post_plan.best_split(job), post_plan.splits(job)
    assert all(best.step <= each.step for each in every)
    fewer, more = (next(each for each in every if each.generators == best.generators + by) for by in (-1, 1))
    assert fewer.generate > best.step and more.train > best.step
    assert best.idle < min(fewer.idle, more.idle)
    assert post_plan.best_split(post_plan.PostJob(reply=2048)).generators < best.generators


HELD, NEEDED = weight_sync.holdings(CONFIG, Layout(tp=2, dp=2, zero=3)), weight_sync.holdings(CONFIG, Layout(), 4)


@each_of(
    "words, make",
    [
        ("pp=2 cannot be mapped", lambda: weight_sync.holdings(CONFIG, Layout(pp=2))),
        ("zero=1 leaves weights whole", lambda: weight_sync.holdings(CONFIG, Layout(dp=2, zero=1))),
        ("cannot be split over 3 ranks", lambda: weight_sync.holdings(CONFIG, Layout(tp=3))),
        ("cannot be mapped: rank 4 needs", lambda: weight_sync.sync_map({0: HELD[0], 1: HELD[1]}, NEEDED)),
        ("one rank moves", lambda: weight_sync.buckets(weight_sync.sync_map(HELD, NEEDED), 100, 2)),
        ("limit", lambda: weight_sync.buckets([], 0, 2)),
        ("leaves a replica without any", lambda: loops.Plan(rows=1)),
        ("tp=2 does not", lambda: loops.Plan(generator=Layout(tp=2))),
        ("way is", lambda: loops.record("sometimes")),
        ("a plan for 2 \\+ 2", lambda: simulate(loops.disaggregated, 3, (loops.Plan(), (None, None)))),
        ("there must be a prompt", lambda: rollout.Task(prompts=())),
        ("each prompt needs a token", lambda: rollout.Task(prompts=((),))),
        ("the context is 16", lambda: rollout.plan(rollout.Task(prompts=((1,) * 12,)))),
        ("zero=0, not 3", lambda: rollout._axes(rollout.plan(TASK, trainer=Layout(dp=2, zero=3)))),
        ("compared on one replica", lambda: rollout._trainer(None, rollout.plan(TASK, trainer=Layout(dp=4)), TASK)),
        ("give enough of them", lambda: long_tail.simulate_tail([], 2, 4, 1)),
        ("each with a token", lambda: long_tail.simulate_tail([1, 0, 2, 3], 2, 4, 1)),
        ("slots", lambda: long_tail.simulate_tail([1, 2], 0, 2, 1)),
        ("order is", lambda: long_tail.simulate_tail([1, 2], 1, 2, 1, order="longest")),
        ("no rollout", lambda: long_tail.idle_of_batch([])),
        ("no role 'judge'", lambda: post_plan.memory({"judge": "llama3-8b"}, 8, 4096)),
        ("the trainer at least one more", lambda: post_plan.PostJob(gpus=8, tp=8)),
        ("65 GPUs for one side; the job has 64", lambda: post_plan.PostJob().train_seconds(65)),
        ("No split of 4", lambda: post_plan.best_split(post_plan.PostJob(gpus=4, roles=("actor", "critic")))),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_reason(words, make):
    with pytest.raises((ValueError, RankError), match=words):
        make()
