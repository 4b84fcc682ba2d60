"""Chapter 19's algorithm: each part against a plain form, packs and adapters against the whole, a run that learns."""

import itertools
from dataclasses import replace

import pytest
import torch
from torch import nn

from course_chapters.ch19 import adding, lora, plots, policy, posttrain, sft
from course_lib.cluster import simulate
from course_lib.estimate import facts
from course_lib.model.transformer import build
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
    found = policy.loss_gradient(new, old, reference, advantage, mask, clip=clip, beta=beta, weights=weights)
    torch.testing.assert_close(found, wanted)


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


def test_advantages_compare_with_the_group_and_equal_rewards_teach_nothing():
    rewards = torch.tensor([1.0, 0, 0, 0, 0.1, 0.1, 0.1, 0.1])
    found = policy.advantages(rewards, 4)
    assert found[4:].tolist() == [0, 0, 0, 0] and found[:4].mean().abs() < 1e-6 and found[:4].std() == pytest.approx(1)
    assert policy.advantages(rewards, 4, scaled=False)[:2].tolist() == [0.75, -0.25]


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
        (lambda: adding.Plan(group=1), "its own mean"),
        (lambda: adding.Plan(trainers=2), "need generators"),
        (lambda: adding.Plan(questions=101), "100 different"),
        (lambda: adding.Plan(generators=-1), "generators is -1"),
        (lambda: adding.Plan(lora=-1), "lora is -1"),
        (lambda: adding.Plan(rate=float("nan")), "rate must be positive"),
        (lambda: adding.Plan(beta=-0.1), "beta not negative"),
    ],
)
def test_what_has_no_meaning_is_refused(refused, why):
    with pytest.raises(ValueError, match=why):
        refused()


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
    model = lora.add_lora(build(lora.SMALL).double(), 4, 8.0)
    tokens, base = torch.arange(8)[None], build(lora.SMALL).double()
    torch.testing.assert_close(model(tokens), base(tokens))
    for layer in lora.adapters(model).values():
        layer.up.data.copy_(draws(*layer.up.shape))
    base.load_state_dict(lora.merged_state(model))
    torch.testing.assert_close(model(tokens), base(tokens))
    for call, why in ((0, "rank"), (2.5, "rank")):
        with pytest.raises(ValueError, match=why):
            lora.add_lora(build(lora.SMALL), call, 1.0)


@each_of("layout", ["FSDP", "tensor parallelism"])
def test_sharded_adapters_take_the_steps_of_the_whole(layout):
    (alone,) = simulate(lora.small_steps, 1, args=("one rank",)).results
    for ranks in (1, 2):
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


@each_of("layout, count", [("FSDP", 28), ("tensor parallelism", 28)])
def test_every_gradient_of_an_adapter_is_that_of_the_whole(layout, count):
    for found, wanted in simulate(_gradients, 2, args=(layout,)).results:
        assert found.keys() == wanted.keys() and len(found) == count
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
    return [step.reward for step in adding.reinforce(model, plan, comm)], lora.merged_state(model)


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
    for refused, why in (["--group", "1"], "at least 2"), (["--compare"], "several processes"):
        assert posttrain.main(refused) == 2 and why in capsys.readouterr().err
    shipped = [each for origin, _, each in evidence.found("posttraining") if origin == "recorded"][0]
    assert shipped["measured"]["accuracy_after"] > 2 * shipped["measured"]["accuracy_before"]
    assert shipped["setup"]["compared"] and shipped["measured"]["largest_difference"] <= posttrain.TOLERANCE


def test_the_tables_show_what_the_text_says():
    assert "+0.91" in plots.answers_table().data and "bf16" in plots.mismatch_table().data
    trained = lora.adapter_params(lora.matrices(facts.model("llama3-70b")), 16)
    assert f"{trained / 1e6:,.0f} million" in plots.lora_table().data
    assert "from 1.22 to 2.00" in plots.draw_clip().alt and "from 0.20 to 0.78" in plots.draw_clip(sign="wrong").alt
