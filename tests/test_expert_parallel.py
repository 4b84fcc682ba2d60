"""A mixture over ranks is the mixture on one process: outputs, every gradient, whole trainings; and its bytes are those
predicted."""

import itertools

import pytest
import torch

from course_lib.cluster import Topology, simulate
from course_lib.cluster.parity import adam_tolerance, apart
from course_lib.estimate import facts
from course_lib.model import text, transformer
from course_lib.model.optimizer import AdamW
from course_lib.parallel import expert as ep
from course_lib.parallel.expert import costs
from course_lib.parallel.expert.layer import MixtureLayer
from course_lib.parallel.expert.model import build, layers, part_of, split_parameters
from course_lib.parallel.expert.training import SMALL
from tests.tables import each_of

HIDDEN, EXPERTS = 8, 8


def layer_of(seed: int = 0, dtype: torch.dtype = torch.float64, **settings) -> MixtureLayer:
    mixture = ep.Mixture(**{"experts": EXPERTS, "top_k": 2, "ffn": 4} | settings)
    layer, coin = MixtureLayer(HIDDEN, mixture), torch.Generator().manual_seed(seed)
    for weight in layer.parameters():
        torch.nn.init.normal_(weight, std=0.5, generator=coin)
    return layer.to(dtype)


def tokens_of(counts: list[int], seed: int = 1, dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    coin = torch.Generator().manual_seed(seed)
    return [torch.randn(n, HIDDEN, generator=coin, dtype=torch.float64).to(dtype) for n in counts]


def gradients(layer: MixtureLayer) -> dict[str, torch.Tensor]:
    return {name: weight.grad for name, weight in layer.named_parameters()}


def dense_run(layer: MixtureLayer, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The looped reference: its output and the gradient of x, for the loss Σ output²."""
    x = x.clone().requires_grad_()
    routing = ep.route(layer.router(x), layer.mixture.top_k, layer.mixture.score)
    out = ep.dense_mixture(x, routing, layer.experts)
    out = out if layer.shared is None else out + layer.shared.one(0, x)
    out.square().sum().backward()
    return out.detach(), x.grad


def on_ranks(layer: MixtureLayer, parts: list[torch.Tensor], **more):
    def work(comm, x):
        mine, x = part_of(layer, comm).to(x.dtype), x.clone().requires_grad_()
        out = mine(x)
        out.square().sum().backward()
        return out.detach(), x.grad, gradients(mine), mine.routing.counts.tolist()

    return simulate(work, len(parts), per_rank=[(x,) for x in parts], **more)


# --- parallel equals plain -------------------------------------------------------------------------


@each_of("dtype", [torch.float64, torch.float32, torch.bfloat16])
@each_of("score", ["softmax", "chosen", "sigmoid"])
@each_of("counts", [[13], [7, 5], [6, 0, 9, 1]])
def test_output_and_every_gradient_are_the_dense_loops(counts: list[int], score: str, dtype: torch.dtype) -> None:
    layer, parts = layer_of(score=score, shared=1, dtype=dtype), tokens_of(counts, dtype=dtype)
    want, x_grad = dense_run(layer, torch.cat(parts))
    run = on_ranks(layer, parts)
    terms = EXPERTS * HIDDEN + sum(counts)
    assert apart(torch.cat([out for out, *_ in run.results]), want, terms) <= 1
    assert apart(torch.cat([grad for _, grad, *_ in run.results]), x_grad, terms) <= 1
    for name, whole in gradients(layer).items():
        found = [of_rank[name] for _, _, of_rank, _ in run.results]
        got = torch.cat(found) if name.startswith("experts.") else sum(found)
        assert apart(got, whole, terms) <= 1, name


def test_the_grouped_pass_equals_the_loop_with_drops_and_without() -> None:
    layer, (x,) = layer_of(), tokens_of([24])
    routing = ep.route(layer.router(x), 2)
    for kept in (None, ep.keep(routing, 3), ep.keep(routing, 3, "weight"), ep.keep(routing, 0)):
        got, want = (mixture(x, routing, layer.experts, kept) for mixture in (ep.grouped_mixture, ep.dense_mixture))
        assert torch.allclose(got, want, atol=1e-12)


def test_a_view_of_any_layout_is_dispatched_like_its_copy() -> None:
    layer, parts = layer_of(), [x.T.contiguous().T for x in tokens_of([6, 4])]
    assert not parts[0].is_contiguous()
    run = on_ranks(layer, parts)
    want, _ = dense_run(layer, torch.cat(parts))
    assert torch.allclose(torch.cat([out for out, *_ in run.results]), want, atol=1e-12)


@pytest.mark.slower
@each_of("balance", ["none", "loss", "bias"])
def test_a_training_is_the_same_for_every_division_of_the_experts(balance: str) -> None:
    mixture = ep.Mixture(experts=4, top_k=2, ffn=8, shared=1, balance=balance, z_weight=1e-3)
    with_ranks = {(1, 1): 1, **{(4, size): size for size in (1, 2, 4)}}
    traces = {
        key: simulate(ep.train, key[0], args=(SMALL, mixture, 6), per_rank=[(4, size)] * key[0]).results[0]
        for key, size in with_ranks.items()
    }
    plain = traces[1, 1]
    for trace in traces.values():
        assert trace.losses == pytest.approx(plain.losses, rel=2e-5)
        assert trace.norms == pytest.approx(plain.norms, rel=1e-4)
        assert trace.counts[:3] == plain.counts[:3]  # later, rounding may turn a choice that is nearly a tie
    assert plain.losses[-1] < plain.losses[0]


def test_weights_after_three_steps_are_those_of_one_process() -> None:
    mixture, tokens, rate = ep.Mixture(experts=4, top_k=2, ffn=8), text.batch(0, 4, SMALL.seq_len), 1e-3

    def work(comm, size):
        group, copies = ep.expert_groups(comm, size)
        model = build(SMALL, mixture, comm=group)
        dense, experts = split_parameters(model)
        optimizer = AdamW([*dense, *experts], lr=rate)
        smallest = {name: torch.full_like(weight, torch.inf) for name, weight in model.named_parameters()}
        largest = 0.0
        for _ in range(3):
            optimizer.zero_grad()
            mine, targets = (part.chunk(comm.size)[comm.rank] for part in tokens)
            transformer.loss(model(mine), targets).backward()
            ep.average_gradients(comm, copies, dense, experts)
            for name, weight in model.named_parameters():
                largest = max(largest, weight.grad.abs().max().item())
                smallest[name] = torch.minimum(smallest[name], weight.grad.abs())
            optimizer.step()
        return {name: weight.detach() for name, weight in model.named_parameters()}, smallest, largest

    ((plain, smallest, largest),) = simulate(work, 1, per_rank=[(1,)]).results
    for size in (2, 4):
        results = simulate(work, 4, per_rank=[(size,)] * 4).results
        for name, want in plain.items():
            held = [found[name] for found, *_ in results[:size]]
            got = torch.cat(held) if ".experts." in name else held[-1]
            allowed = adam_tolerance(torch.float32, 4 * SMALL.seq_len, 3, rate, largest, smallest[name])
            assert ((got - want).abs() <= allowed + 1e-6).all(), (name, size)


def test_averaging_experts_over_their_copies_is_ep_times_too_large() -> None:
    layer, parts = layer_of(), tokens_of([5] * 4)
    dense_run(layer, torch.cat(parts))
    want = layer.experts.gate.grad / 4

    def work(comm, x):
        group, copies = ep.expert_groups(comm, 2)
        mine = part_of(layer, group).double()
        mine(x).square().sum().backward()
        naive = mine.experts.gate.grad.clone()
        copies.all_reduce(naive)
        dense = [mine.router.weight]
        ep.average_gradients(comm, copies, dense, list(mine.experts.parameters()))
        norm = ep.global_norm(comm, copies, [p.grad for p in dense], [p.grad for p in mine.experts.parameters()])
        return naive / copies.size, mine.experts.gate.grad, dense[0].grad, norm

    results = simulate(work, 4, per_rank=[(x,) for x in parts]).results
    assert torch.allclose(torch.cat([results[0][1], results[1][1]]), want)
    assert torch.allclose(torch.cat([results[0][0], results[1][0]]), 2 * want)
    assert torch.allclose(results[3][2], layer.router.weight.grad / 4)
    whole = sum((weight.grad / 4).square().sum() for weight in layer.parameters()).sqrt()
    assert all(norm == pytest.approx(whole.item()) for *_, norm in results)


# --- bytes -----------------------------------------------------------------------------------------


@each_of("counts", [[8], [9, 4], [6, 0, 9, 1]])
def test_metered_bytes_are_those_of_the_routing(counts: list[int]) -> None:
    run = on_ranks(layer_of(), tokens_of(counts))
    routed = [found for *_, found in run.results]
    assert run.meter.bytes_sent == costs.layer_bytes(routed, HIDDEN, 8)
    assert run.meter.collectives == [5] * len(counts)


def test_even_routing_sends_what_the_formula_says_and_split_experts_more() -> None:
    counts = [[4] * 8] * 4  # 16 tokens a rank, two copies each
    counted = 8 * 6  # an int64 for each expert of the other ranks
    assert costs.layer_bytes(counts, HIDDEN) == [4 * costs.even_bytes(16, HIDDEN, 2, 4) + counted] * 4
    assert costs.tensor_bytes(16, HIDDEN, 4) / costs.even_bytes(16, HIDDEN, 2, 4) == 4 / 2


def test_two_hops_bring_the_same_rows_and_cross_the_network_once_a_node() -> None:
    parts, topology = tokens_of([9, 6, 0, 8]), Topology.nodes(2)
    logits = tokens_of([9, 6, 0, 8], seed=5)

    def work(comm, x, scores, by_node):
        routing = ep.route(scores, 3)
        if not by_node:
            sent = ep.dispatch(x, routing, comm)
            return sent.rows, sent.counts, ep.network_rows(routing, comm.rank // 2, 2)
        return *ep.dispatch_by_node(x, routing, comm, 2), None

    def rows(by_node: bool):
        per_rank = [(x, scores, by_node) for x, scores in zip(parts, logits, strict=True)]
        return simulate(work, 4, per_rank=per_rank, topology=topology)

    plain, hops = rows(False), rows(True)
    for (got, counts, _), (want, expected, _) in zip(hops.results, plain.results, strict=True):
        assert counts == expected
        for one, other in zip(got.split(counts), want.split(counts), strict=True):
            assert torch.equal(one[one[:, 0].argsort()], other[other[:, 0].argsort()])
    copies, once = (sum(found[i] for *_, found in plain.results) for i in (0, 1))
    assert plain.meter.levels["network"][0] == copies * HIDDEN * 8 + 4 * 2 * 2 * 8  # counts of two experts on two ranks
    assert hops.meter.levels["network"][0] == once * (HIDDEN + 3) * 8 + 2 * 4 * 2 * 8 and once < copies


# --- routing, capacity, balance --------------------------------------------------------------------


def test_routing_rules() -> None:
    logits = torch.tensor([[0.0, 2.0, 1.0, 2.0], [1.0, 1.0, 1.0, 1.0]])
    every, chosen = ep.route(logits, 2), ep.route(logits, 2, "chosen")
    assert every.experts.tolist() == [[1, 3], [0, 1]] and torch.equal(every.experts, chosen.experts)
    assert torch.allclose(every.weights[1], torch.tensor([0.25, 0.25]))
    assert torch.allclose(chosen.weights, torch.tensor(0.5))
    assert torch.allclose(chosen.weights, logits.gather(1, chosen.experts).softmax(-1))
    biased = ep.route(logits, 2, "sigmoid", bias=torch.tensor([9.0, 0, 0, 0]))
    assert biased.experts.tolist() == [[0, 1], [0, 1]]
    assert torch.allclose(biased.weights[0], torch.tensor([0.5, 0.8808]) / 1.3808, atol=1e-4)
    assert ep.route(logits.bfloat16(), 2).weights.dtype == torch.float32


@each_of("limit", [1, 2, 3, 4])
def test_a_node_limit_holds_and_keeps_the_best_nodes(limit: int) -> None:
    scores = torch.rand(200, 16, generator=torch.Generator().manual_seed(0))
    routing = ep.route(scores, 4, nodes=4, node_limit=limit)
    reached = [len(set((row // 4).tolist())) for row in routing.experts]
    assert max(reached) <= limit
    if limit == 4:
        assert torch.equal(routing.experts, ep.route(scores, 4).experts)
    best = {
        frozenset(
            max(
                itertools.combinations(range(4), limit),
                key=lambda c: sum(row.view(4, 4)[n].topk(-(-4 // limit)).values.sum() for n in c),
            )
        )
        for row in scores[:1].softmax(-1)
    }
    assert set((routing.experts[0] // 4).tolist()) <= set().union(*best)


def test_capacity_keeps_the_first_or_the_heaviest() -> None:
    experts = torch.tensor([[0, 1], [0, 2], [0, 1], [0, 1]])
    weights = torch.tensor([[0.1, 0.9], [0.6, 0.4], [0.7, 0.3], [0.6, 0.4]])
    routing = ep.Routing(experts, weights, torch.zeros(4, 3))
    assert ep.keep(routing, 2).tolist() == [[True, True], [True, True], [False, True], [False, False]]
    assert ep.keep(routing, 2, "weight").tolist() == [[False, True], [True, True], [True, False], [False, True]]
    assert not ep.keep(routing, 0).any() and ep.keep(routing, 9).all()


def test_expected_drops_are_those_of_a_simulation() -> None:
    coin, shares = torch.Generator().manual_seed(0), []
    for _ in range(400):
        routing = ep.route(torch.rand(64, 8, generator=coin), 2)
        shares.append((~ep.keep(routing, ep.capacity(64, 8, 2, 1.0))).double().mean())
    assert torch.stack(shares).mean().item() == pytest.approx(ep.drop_share(64, 8, 2, 1.0), rel=0.03)
    assert ep.drop_share(64, 8, 8, 1.0) == 0 and ep.drop_share(64, 8, 2, 4.0) == pytest.approx(0, abs=1e-9)
    assert ep.capacity(64, 8, 2, 1.25) == 20 and ep.capacity(10, 3, 1, 1.2) == 4 and ep.capacity(0, 4, 1, 1) == 0


def test_balance_terms() -> None:
    even = ep.route(torch.eye(4).repeat(3, 1) * 1e-9, 1)
    assert ep.balance_loss(even).item() == pytest.approx(1)
    logits = torch.tensor([[5.0, 0, 0, 0]] * 6, requires_grad=True)
    skewed = ep.balance_loss(ep.route(logits, 1))
    skewed.backward()
    assert skewed.item() > 3.8 and logits.grad[0, 0] > 0 > logits.grad[0, 1]
    assert ep.z_loss(torch.zeros(5, 4)).item() == pytest.approx(torch.log(torch.tensor(4.0)).item() ** 2)
    bias = ep.update_bias(torch.zeros(3), torch.tensor([5, 2, 2]), 0.1)
    assert torch.allclose(bias, torch.tensor([-0.1, 0.1, 0.1]))

    def ranks(comm, scores):
        return ep.balance_loss(ep.route(scores, 2), comm).item(), ep.balance_loss(ep.route(scores, 2)).item()

    parts = torch.tensor([3.0, 2, 1, 0]) + torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(2)) / 9
    parts[1] = parts[1].flip(1)  # each rank prefers two experts, and together they use all four
    results = simulate(ranks, 2, per_rank=[(part,) for part in parts]).results
    together = sum(loss for loss, _ in results) / 2
    assert together == pytest.approx(ep.balance_loss(ep.route(parts.flatten(0, 1), 2)).item())
    assert together < sum(alone for _, alone in results) / 2


@pytest.mark.slower
def test_both_ways_of_balancing_lower_the_imbalance_of_a_training() -> None:
    found = {}
    for balance in ("none", "loss", "bias"):
        mixture = ep.Mixture(
            experts=8, top_k=2, ffn=8, score="sigmoid", balance=balance, balance_weight=0.1, bias_rate=0.02
        )
        trace = simulate(ep.train, 1, args=(SMALL, mixture, 40)).results[0]
        found[balance] = sum(ep.imbalance(layer) for step in trace.counts[-5:] for layer in step) / 10
    assert found["loss"] < 0.8 * found["none"] and found["bias"] < 0.8 * found["none"]


def test_capacity_drops_the_same_copies_for_every_division_of_the_experts() -> None:
    mixture = ep.Mixture(experts=4, top_k=1, ffn=8, capacity_factor=1.0)
    traces = [
        simulate(ep.train, 4, args=(SMALL, mixture, 3), per_rank=[(4, size)] * 4).results[0] for size in (1, 2, 4)
    ]
    assert traces[0].dropped[0] > 0 and all(trace.dropped == traces[0].dropped for trace in traces)
    assert all(trace.losses == pytest.approx(traces[0].losses, rel=1e-5) for trace in traces)


# --- counts of published models, and bad input -----------------------------------------------------


def test_published_mixtures_have_the_parameters_that_the_shape_says() -> None:
    mixtral = facts.model("mixtral-8x7b")
    shape = ep.MoEShape(hidden=mixtral.hidden, ffn=mixtral.expert_ffn, experts=mixtral.experts, top_k=mixtral.top_k)
    rest = mixtral.params - mixtral.layers * shape.total
    assert rest == mixtral.active_params - mixtral.layers * shape.active  # attention, norms, embedding and head
    assert ep.expected_nodes(1, 4, 8) == 1 and ep.expected_nodes(8, 4, 8) == 4


def test_placement_spreads_the_hot_experts() -> None:
    loads = [90, 80, 10, 10, 10, 10, 10, 20]
    placed = ep.placement(loads, 4)
    assert sorted(itertools.chain(*placed)) == list(range(8)) and {len(one) for one in placed} == {2}
    assert max(sum(loads[e] for e in one) for one in placed) == 100


@each_of(
    "call, words",
    (lambda: ep.Mixture(experts=4, top_k=5), "1 to 4"),
    (lambda: ep.route(torch.zeros(2, 4), 0), "1 to 4"),
    (lambda: ep.route(torch.zeros(4), 1), "one row per token"),
    (lambda: ep.route(torch.zeros(2, 4), 1, "top"), "softmax"),
    (lambda: ep.Mixture(capacity_factor=0.9), "Use 1 or more"),
    (lambda: ep.capacity(8, 4, 2, 0.5), "below 1"),
    (lambda: ep.placement([1.0] * 6, 4), r"\[1, 2, 3, 6\]"),
    (lambda: ep.limit_nodes(torch.zeros(2, 8), 5, 4, 2), "at least 3 nodes"),
    (lambda: ep.limit_nodes(torch.zeros(2, 8), 1, 4, 5), "from 1 to 4"),
    (lambda: ep.keep(ep.route(torch.zeros(2, 4), 1), 2, "age"), "position"),
    (lambda: ep.Mixture(balance="luck"), "bias"),
    (lambda: ep.keep(ep.route(torch.zeros(2, 4), 1), -1), "0 or more"),
)
def test_bad_input_is_an_error_that_says_what_fits(call, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()


@each_of(
    "work, words",
    (lambda comm: MixtureLayer(8, ep.Mixture(experts=4), comm), r"\[1, 2, 4\] ranks"),
    (lambda comm: ep.expert_groups(comm, 2), r"\[1, 3\]"),
    (lambda comm: ep.all_to_all(torch.zeros(4, 2), comm, [1, 1, 1], [1, 1, 1]), "describes 3 rows"),
    (lambda comm: ep.train(comm, SMALL, ep.Mixture(), 1, 4), "multiple of 3"),
    (lambda comm: ep.dispatch_by_node(torch.zeros(1, 4), ep.route(torch.zeros(1, 6), 1), comm, 2), "divisor of 3"),
)
def test_bad_input_on_ranks(work, words: str) -> None:
    with pytest.raises(Exception, match=words):
        simulate(work, 3)


def test_the_model_holds_only_its_experts() -> None:
    def work(comm):
        model = build(SMALL, ep.Mixture(), comm=comm)
        return sum(p.numel() for p in split_parameters(model)[1]), len(layers(model))

    (held, count), _ = simulate(work, 2).results
    assert held == count * 4 * ep.MoEShape(hidden=16, ffn=32, experts=8, top_k=2).expert
