"""Chapter 19: the algorithm against plain forms, packs and adapters against the whole, runs that learn; weights that
arrive are those that left, loops keep their bound, and simulations meet closed forms."""

import itertools
import math
import random
import signal
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

from course_chapters.ch19 import adding, long_tail, loops, lora, policy, post_plan, posttrain, rollout, sft, weight_sync
from course_chapters.ch19.weight_sync import holdings
from course_grader.judging import Worked
from course_lib.cluster import RankError, simulate
from course_lib.estimate import facts
from course_lib.estimate.memory import Layout, zero_bytes
from course_lib.estimate.running_plan import CONVENTION
from course_lib.model.transformer import Config, build
from course_lib.model.transformer import loss as mean_loss
from course_lib.parallel.sharding.fsdp import FullySharded
from course_lib.parallel.sharding.full_state_dict import full_gradients
from course_runs import evidence
from course_runs.evidence_checks import gates
from tests.tables import each_of

TALKS = [[("user", [1, 10, 2, 11]), ("assistant", [3, 12])], [("user", [9]), ("assistant", [1, 3]), ("user", [5])]]
SHORT = adding.Plan(steps=3, questions=6, group=4, tuned_steps=2)


def draws(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


@each_of("clip, beta", [(0.2, 0.0), (0.1, 0.3), (0.5, 1.0)])
def test_losses_and_gradients_are_those_of_the_plain_formula(clip, beta):
    new, old, reference = (draws(6, 5) * size for size in (0.3, 0.31, 0.32))
    advantage, mask, weights = draws(6), draws(6, 5) > -0.5, draws(6, 5).abs()
    leaf, plain = new.clone().requires_grad_(), []
    for row, column in itertools.product(range(6), range(5)):
        if mask[row, column]:
            ratio, gap = (leaf - old)[row, column].exp(), (reference - leaf)[row, column]
            bounded = ratio.clamp(1 - clip, 1 + clip)
            gain = torch.minimum(ratio * advantage[row], bounded * advantage[row])
            plain.append(-weights[row, column] * gain + beta * (gap.exp() - 1 - gap))
    (wanted,) = torch.autograd.grad(sum(plain), leaf)
    ours = weights * policy.clipped_losses(leaf, old, advantage, mask, clip)
    ours = (ours + beta * torch.where(mask, policy.k3(leaf, reference), 0.0)).sum()
    assert ours.item() == pytest.approx(sum(plain).item(), rel=1e-12)
    torch.testing.assert_close(torch.autograd.grad(ours, leaf)[0], wanted)


def test_estimators_have_the_mean_or_the_gradient_that_the_page_says():
    logits, reference = draws(9).requires_grad_(), draws(9, 1)[:, 0].log_softmax(0)
    new = logits.log_softmax(0)
    chance = new.detach().exp()
    exact = (new.exp() * (new - reference)).sum()
    back = (reference.exp() * (reference - new)).sum()
    for kind, unbiased, slope in (("k1", True, None), ("k2", False, exact), ("k3", True, back)):
        mean = (chance * policy.ESTIMATORS[kind](new, reference)).sum()  # over all letters in place of draws
        assert (abs(mean - exact) < 1e-12) == unbiased
        if slope is not None:
            ours, wanted = (torch.autograd.grad(each, logits, retain_graph=True)[0] for each in (mean, slope))
            torch.testing.assert_close(ours, wanted)


def test_advantages_are_those_of_the_exercise_and_equal_rewards_teach_nothing():
    rewards = torch.tensor([1.0, 0, 0, 0, 0.1, 0.1, 0.1, 0.1])
    found = policy.advantages(rewards, 4)
    assert found.tolist() == pytest.approx(Worked("group-advantages")[0](rewards.tolist(), [0] * 4 + [1] * 4), rel=1e-5)
    assert found[4:].tolist() == [0, 0, 0, 0] and found[:4].std() == pytest.approx(1)


def test_weights_between_engines_are_capped_and_have_no_gradient():
    trainer = torch.tensor([[0.0, -1.0, -2.0]], requires_grad=True)
    generator = torch.tensor([[-3.0, -1.0, -torch.inf]])
    found = policy.truncated_weights(trainer, generator, torch.tensor([[True, True, False]]))
    assert found.tolist() == [[2, 1, 1]] and not found.requires_grad


def test_packing_changes_neither_loss_nor_gradients():
    model = build(adding.CONFIG).double()
    packed = sft.pack(TALKS, 16)
    assert packed.ids.shape == (1, 16) and sft.targets_in(packed) == 4
    together = torch.autograd.grad(sft.loss_sum(model, packed), tuple(model.parameters()))
    alone = sum(sft.loss_sum(model, sft.pack([talk], 16)) for talk in TALKS)
    for one, other in zip(together, torch.autograd.grad(alone, tuple(model.parameters())), strict=True):
        torch.testing.assert_close(one, other)


def test_adapters_are_the_merged_whole_and_begin_as_the_base():
    tokens, base = torch.arange(8)[None], build(lora.SMALL).double()
    torch.testing.assert_close(_adapted(torch.zeros)(tokens), base(tokens))
    model, whole = _adapted(), {}
    for name, each in lora.adapters(model).items():
        whole[f"{name}.weight"] = each.weight + each.scale * each.up @ each.down
    base.load_state_dict(lora.base_state(model) | whole)
    torch.testing.assert_close(model(tokens), base(tokens))


@each_of("layout, ranks", itertools.product(("FSDP", "tensor parallelism"), (1, 2)))
def test_sharded_adapters_take_the_steps_of_the_whole(layout, ranks):
    (alone,) = simulate(lora.small_steps, 1, args=("one rank",)).results
    for losses in simulate(lora.small_steps, ranks, args=(layout,)).results:
        assert losses == pytest.approx(alone, abs=3e-7)


def _adapted(factors=draws):
    model = lora.add_lora(build(lora.SMALL).double(), 4, 8.0)
    for layer in lora.adapters(model).values():
        layer.up.data.copy_(factors(*layer.up.shape))
    return model


TOKENS = torch.arange(32).reshape(4, 8) % 12


def _gradients(comm, layout):
    """This rank's gradients of adapters, and those of the whole model, cut as this rank's adapters are."""
    model, whole = _adapted(), _adapted()
    mean_loss(whole(TOKENS), TOKENS).backward()
    if layout == "FSDP":
        part = FullySharded(comm, model, list(model.blocks))
        mine = TOKENS.chunk(comm.size)[comm.rank]
        mean_loss(part(mine), mine).backward()
        part.finish()
        return full_gradients(part), {name: each.grad for name, each in whole.named_parameters() if each.requires_grad}
    part = lora.split_lora(comm, model)
    part.loss(part(TOKENS), TOKENS).backward()
    lora.finish_lora(part)
    for each in whole.parameters():
        each.data = each.grad if each.requires_grad else each.data
    wanted = dict(lora.split_lora(comm, whole).named_parameters())
    found = {name: each.grad for name, each in part.named_parameters() if each.requires_grad}
    return found, {name: wanted[name].detach() for name in found}


@each_of("layout", ["FSDP", "tensor parallelism"])
def test_every_gradient_of_an_adapter_is_that_of_the_whole(layout):
    for found, wanted in simulate(_gradients, 2, args=(layout,)).results:
        assert found.keys() == wanted.keys() and len(found) == 28
        for name, each in found.items():
            torch.testing.assert_close(each, wanted[name], rtol=1e-4, atol=1e-7)  # the loss is in fp32


def _backward(comm, finish):
    part = lora.split_lora(comm, _adapted())
    part.loss(part(TOKENS), TOKENS).backward()
    if finish:
        lora.finish_lora(part)


def test_tensor_parallel_adapters_send_the_bytes_of_the_formula_after_the_backward_pass():
    small = lora.SMALL
    same = {name: getattr(small, name) for name in ("layers", "hidden", "heads", "kv_heads", "ffn")}
    cuts = lora.matrices(replace(facts.model("llama3-70b"), head_dim=small.hidden // small.heads, **same))
    whole = sum(each.numel() for each in _adapted().parameters() if each.requires_grad)
    assert lora.adapter_params(cuts, 4) == whole
    for ranks in (1, 2):
        plain, finished = (simulate(_backward, ranks, args=(each,)).meter.bytes_sent for each in (False, True))
        extra = {after - before for before, after in zip(plain, finished, strict=True)}
        assert extra == {lora.tp_extra_bytes(cuts, 4, ranks, width=8)}


def test_fully_sharded_adapters_send_the_bytes_of_the_formula():
    model = _adapted()
    sizes = [sum(each.numel() for each in block.parameters() if each.requires_grad) for block in model.blocks]
    frozen = [sum(each.numel() for each in block.parameters() if not each.requires_grad) for block in model.blocks]
    root = 2 * lora.SMALL.vocab * lora.SMALL.hidden + lora.SMALL.hidden
    run = simulate(lora.small_steps, 2, args=("FSDP", 1))
    totals = 8 * 1  # the loss, in float64
    assert max(run.meter.bytes_sent) == lora.fsdp_bytes([root, *frozen], sizes, 2, 8) + totals


def _rewards(comm, plan):
    model = adding.prepared(plan)
    return [step.reward for step in adding.reinforce(model, plan, comm)], model.state_dict()


@each_of("more", [{}, {"lora": 2}, {"beta": 0.1, "updates": 2}])
def test_trainers_and_generators_get_the_rewards_of_one_process(more):
    alone, weights = _rewards(None, replace(SHORT, **more))
    for rewards, own in simulate(_rewards, 5, args=(replace(SHORT, trainers=2, generators=3, **more),)).results:
        assert rewards == alone
        for name, each in own.items():
            torch.testing.assert_close(each, weights[name], rtol=1e-9, atol=1e-11)


def test_the_run_learns_and_leaves_evidence(tmp_path, capsys):
    words = ["--steps", "3", "--questions", "6", "--group", "4", "--out", str(tmp_path)]
    assert posttrain.main([*words, "--dry"]) == 0 and not list(tmp_path.iterdir())
    assert posttrain.main(words) == 0 and "step    3 of 3" in capsys.readouterr().out
    (path,) = tmp_path.iterdir()
    content = evidence.read(path)
    assert content["kind"] == "posttraining" and all(gate.ok for gate in gates(content))
    assert "largest_difference" not in content["measured"], "nothing was compared"
    for refused, why in (["--group", "1"], "at least 2"), (["--compare"], "several processes"):
        assert posttrain.main(refused) == 2 and why in capsys.readouterr().err
    assert posttrain.main(["--minutes", "1e-9"]) == 124 and "nothing is kept" in capsys.readouterr().err
    limit = posttrain._Limit()
    with pytest.raises(KeyboardInterrupt), limit.told_at_once():
        signal.raise_signal(signal.SIGINT)
    assert limit.interrupted and "posttrain: stops; nothing is kept" in capsys.readouterr().err
    shipped = [each for origin, _, each in evidence.found("posttraining") if origin == "recorded"][0]
    assert shipped["measured"]["accuracy_after"] > 2 * shipped["measured"]["accuracy_before"]
    assert shipped["setup"]["compared"] and shipped["measured"]["largest_difference"] <= posttrain.TOLERANCE


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
    whole = dict(build(CONFIG, 3).named_parameters())
    full = holdings(CONFIG, Layout())[0]
    held = holdings(CONFIG, trainer)
    needed = holdings(CONFIG, generator, 0 if shared else trainer.ranks)
    ranks = max([*held, *needed]) + 1
    parts = [held.get(rank, {}).items() for rank in range(ranks)]
    mine = [{name: box.of(whole[name], full[name]).detach() for name, box in part} for part in parts]
    limit = 2048
    run = simulate(weight_sync.sync, ranks, (held, needed), [(each, torch.bfloat16, limit) for each in mine])
    for rank, got in enumerate(run.results):
        assert got.keys() == needed.get(rank, {}).keys()
        for name, box in needed.get(rank, {}).items():
            assert torch.equal(got[name], box.of(whole[name], full[name]).bfloat16())
    predicted = weight_sync.sync_bytes(held, needed, 2)
    assert run.meter.bytes_sent == [predicted.sent.get(rank, 0) for rank in range(ranks)]
    assert run.meter.bytes_received == [predicted.received.get(rank, 0) for rank in range(ranks)]
    assert sum(predicted.received.values()) == predicted.floor <= predicted.whole
    for bucket in weight_sync.buckets(weight_sync.sync_map(held, needed), limit, 2):
        for rank, side in itertools.product(range(ranks), ("source", "target")):
            moved = [each for each in bucket if getattr(each, side) == rank and each.source != each.target]
            assert 2 * sum(each.box.numel for each in moved) <= limit


def test_replicas_share_the_sending():
    held = holdings(CONFIG, Layout(dp=4))
    sent = weight_sync.sync_bytes(held, holdings(CONFIG, Layout(dp=4), 4), 2).sent
    assert max(sent.values()) <= 1.1 * min(sent.values())


@each_of("way", list(loops.WAYS))
def test_a_loop_keeps_its_bound_and_its_time(way):
    for generate, train in ((8.0, 4.0), (4.0, 8.0)):
        found = loops.record(way, generate, train, steps=5)
        assert max(found.staleness) <= loops.WAYS[way]
        step = max(generate, train) if loops.WAYS[way] else generate + train
        step /= 2 if way == "colocated" else 1
        ends = generate + train if loops.WAYS[way] else step
        rest = found.run.seconds - 0.85 * ends  # with syncs; draws up to 1/4 less
        assert 4 * step * 0.85 <= rest <= 4 * step + 3
    fast, slow = loops.record("up to 3 behind", 4.0, 8.0), loops.record("up to 3 behind", 8.0, 4.0)
    assert fast.staleness[-1] == 3 and slow.staleness[-1] == 1  # only a faster generator is far ahead


TASK = rollout.Task(prompts=((1, 2, 3), (4, 5)), samples=4, reply=6)


@cache
def learned(trainer, generator, bound):
    return rollout.run(TASK, rollout.plan(TASK, trainer=trainer, generator=generator, bound=bound, steps=3)).results


@each_of("bound", [0, 1])
def test_on_six_ranks_the_model_learns_what_it_learns_on_two(bound):
    several = learned(Layout(tp=2, dp=2), Layout(dp=2), bound)
    one = learned(Layout(), Layout(), bound)[0].trainer
    for worked in several[:4]:
        assert worked.trainer.rewards == pytest.approx(one.rewards, rel=1e-12)
        assert worked.trainer.losses == pytest.approx(one.losses, rel=1e-12)
    assert several[-1].versions == [0, 1 - bound, 2 - bound]
    for rank, boxes in holdings(CONFIG, Layout(tp=2, dp=2)).items():
        got = several[rank].trainer.weights
        for name, box in boxes.items():
            torch.testing.assert_close(got[name], box.of(one.weights[name], holdings(CONFIG, Layout())[0][name]))


def test_the_generator_has_the_trainers_weights_and_an_empty_cache():
    trainer, engine = learned(Layout(), Layout(), 0)[0].trainer, learned(Layout(), Layout(), 0)[1].generator
    written = [*TASK.prompts[0], *engine.replies[0]]
    assert engine.version == 2 and engine.engine.pool.match(written)
    engine.load(trainer.weights, 3)
    assert not engine.engine.pool.match(written)
    assert all(torch.equal(weight, trainer.weights[name]) for name, weight in engine.model.named_parameters())


def test_without_a_better_reply_no_weight_changes():
    task = rollout.Task(prompts=((1, 2),), samples=2, reply=3, reward=lambda prompt, reply: 1.0)
    run = rollout.run(task, rollout.plan(task, trainer=Layout(), generator=Layout(), steps=2))
    start = build(CONFIG, task.seed).double().state_dict()
    assert run.results[0].trainer.losses == [] and run.results[0].trainer.rewards == [1.0, 1.0]
    assert all(torch.equal(start[name], weight) for name, weight in run.results[0].trainer.weights.items())


@each_of("bound, pause", [(0, False), (0, True), (1, False), (3, False)])
def test_equal_lengths_take_the_time_of_the_closed_form(bound, pause):
    for length, train in ((10, 4), (4, 10)):
        found = long_tail.simulate_tail([length] * 80, 8, 8, train, bound, "started", pause)
        step = max(length, train) if bound >= 1 else length + train
        first = length + train if bound >= 1 else step  # the pipeline fills
        assert found.seconds == pytest.approx(first + 9 * step)
        assert found.staleness <= bound


def test_one_rollout_on_each_gpu_idles_as_the_closed_forms_say():
    lengths = [3, 5, 9, 1]
    assert long_tail.simulate_tail(lengths, 4, 4, 0).idle == pytest.approx(1 - np.mean(lengths) / max(lengths))
    coin = np.random.default_rng(1)
    found = long_tail.simulate_tail(list(coin.exponential(1.0, 16 * 400)), 16, 16, 0)
    assert found.idle == pytest.approx(long_tail.exponential_idle(16), abs=0.02)
    assert long_tail.exponential_idle(1) == 0


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


HELD, NEEDED = holdings(CONFIG, Layout(tp=2, dp=2, zero=3)), holdings(CONFIG, Layout(), 4)
NAN, FULL = torch.full((1, 2), torch.nan), torch.ones(1, 2, dtype=torch.bool)


@each_of(
    "refused, why",
    [
        (lambda: policy.advantages(torch.ones(3), 1), "its own mean"),
        (lambda: policy.advantages(torch.ones(5), 2), "do not form groups"),
        (lambda: policy.advantages(torch.ones(0), 2), "do not form groups"),
        (lambda: policy.advantages(torch.tensor([1.0, torch.nan]), 2), "NaN or infinite"),
        (lambda: policy.ratios(NAN, torch.zeros(1, 2), FULL), "answer 0, token 0 is NaN"),
        (lambda: policy.truncated_weights(-torch.inf + torch.zeros(1, 2), torch.zeros(1, 2) - torch.inf, FULL), "NaN"),
        (lambda: adding.write_answers(nn.Identity(), [], 2, 0), "no question"),
        (lambda: sft.pack([], 8), "no conversation"),
        (lambda: sft.pack([[("user", [1, 2])]], 8), "No token"),
        (lambda: lora.add_lora(build(lora.SMALL), 0, 1.0), "rank"),
        (lambda: adding.Plan(group=1), "its own mean"),
        (lambda: adding.Plan(trainers=2), "need generators"),
        (lambda: adding.Plan(questions=101), "100 different"),
        (lambda: adding.Plan(lora=-1), "lora is -1"),
        (lambda: adding.Plan(rate=float("nan")), "rate must be positive"),
        (lambda: adding.Plan(beta=-0.1), "beta not negative"),
        (lambda: holdings(CONFIG, Layout(pp=2)), "pp=2 cannot be mapped"),
        (lambda: holdings(CONFIG, Layout(dp=2, zero=1)), "zero=1 leaves weights whole"),
        (lambda: holdings(CONFIG, Layout(tp=3)), "cannot be split over 3 ranks"),
        (lambda: weight_sync.sync_map({0: HELD[0], 1: HELD[1]}, NEEDED), "cannot be mapped: rank 4 needs"),
        (lambda: weight_sync.buckets(weight_sync.sync_map(HELD, NEEDED), 100, 2), "one rank moves"),
        (lambda: weight_sync.buckets([], 0, 2), "limit"),
        (lambda: loops.Plan(rows=1), "leaves a replica without any"),
        (lambda: loops.Plan(generator=Layout(tp=2)), "tp=2 does not"),
        (lambda: loops.record("sometimes"), "way is"),
        (lambda: simulate(loops.disaggregated, 3, (loops.Plan(), (None, None))), "a plan for 2 \\+ 2"),
        (lambda: rollout.Task(prompts=()), "there must be a prompt"),
        (lambda: rollout.Task(prompts=((),)), "each prompt needs a token"),
        (lambda: rollout.plan(rollout.Task(prompts=((1,) * 12,))), "the context is 16"),
        (lambda: rollout._axes(rollout.plan(TASK, trainer=Layout(dp=2, zero=3))), "zero=0, not 3"),
        (lambda: rollout._trainer(None, rollout.plan(TASK, trainer=Layout(dp=4)), TASK), "compared on one replica"),
        (lambda: long_tail.simulate_tail([], 2, 4, 1), "give enough of them"),
        (lambda: long_tail.simulate_tail([1, 0, 2, 3], 2, 4, 1), "each with a token"),
        (lambda: long_tail.simulate_tail([1, 2], 0, 2, 1), "slots"),
        (lambda: long_tail.simulate_tail([1, 2], 1, 2, 1, order="longest"), "order is"),
        (lambda: post_plan.memory({"judge": "llama3-8b"}, 8, 4096), "no role 'judge'"),
        (lambda: post_plan.PostJob(gpus=8, tp=8), "the trainer at least one more"),
        (lambda: post_plan.PostJob().train_seconds(65), "65 GPUs for one side; the job has 64"),
        (lambda: post_plan.best_split(post_plan.PostJob(gpus=4, roles=("actor", "critic"))), "No split of 4"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_reason(refused, why):
    with pytest.raises((ValueError, RankError), match=why):
        refused()
