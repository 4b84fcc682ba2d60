"""Chapter 12's runs: one layer on the metered cluster, whole trainings for several divisions of the experts, and
matmuls timed here."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from IPython.display import Markdown
from torch import Tensor
from torch.nn import functional as F

from course_chapters.ch12.traffic_matrix import traffic_matrix
from course_chapters.table import table
from course_chapters.timing import best_seconds
from course_lib.cluster import Comm, Run, Topology, simulate
from course_lib.draw.style import Picture
from course_lib.estimate import facts
from course_lib.estimate.units import bytes_text, duration_text, number_text, percent_text
from course_lib.model.modules import gradient
from course_lib.parallel import expert as ep
from course_lib.parallel.expert import costs
from course_lib.parallel.expert.layer import Mixture, MixtureLayer
from course_lib.parallel.expert.model import part_of
from course_lib.parallel.expert.training import SMALL
from course_runs.peaks import half

HIDDEN, EXPERTS, RANKS, TOKENS = 16, 8, 4, 32  # of the measured layer
STEPS = 8  # of the trainings that are compared


def small_layer(hidden: int = HIDDEN, experts: int = EXPERTS, seed: int = 0, **settings) -> MixtureLayer:
    """A mixture with weights that follow from the seed."""
    layer = MixtureLayer(hidden, Mixture(experts=experts, ffn=2 * hidden, **settings))
    coin = torch.Generator().manual_seed(seed)
    for weight in layer.parameters():
        torch.nn.init.normal_(weight, std=weight.shape[-1] ** -0.5, generator=coin)
    return layer


@dataclass(frozen=True, slots=True)
class Measured:
    """One layer forward and backward on the metered cluster."""

    run: Run
    counts: list[list[int]]  # copies by source rank and expert

    def bytes_table(self, predicted: Sequence[float]) -> Markdown:
        """Predicted and metered bytes of each rank."""
        rows = []
        for rank, (want, got) in enumerate(zip(predicted, self.run.meter.bytes_sent, strict=True)):
            received = sum(sum(row[2 * rank : 2 * rank + 2]) for row in self.counts)
            rows.append(
                {
                    "rank": rank,
                    "copies for its experts": received,
                    "bytes predicted": f"{want:,.0f}",
                    "bytes metered": f"{got:,}",
                    "metered / predicted": f"{got / want:.3f}",
                }
            )
        return table(rows)

    def matrix(self) -> Picture:
        """Copies from each rank to each rank."""
        return traffic_matrix(costs.rank_counts(self.counts).tolist())


def measured_layer(seed: int = 0) -> Measured:
    """Forward and backward of one mixture: eight experts on four ranks, 32 tokens each, two experts per token."""
    whole = small_layer(seed=seed)

    def work(comm: Comm, x: Tensor) -> list[int]:
        layer = part_of(whole, comm)
        layer(x.requires_grad_()).square().sum().backward()
        assert layer.routing is not None
        return layer.routing.counts.tolist()

    tokens = torch.randn(RANKS, TOKENS, HIDDEN, generator=torch.Generator().manual_seed(seed + 1))
    run = simulate(work, RANKS, per_rank=[(part.clone(),) for part in tokens])
    return Measured(run, run.results)


def same_losses(**settings) -> Markdown:
    """Losses of one process, and of four ranks with the experts divided among 1, 2 and 4 of them."""
    mixture, rows = replace(Mixture(experts=4, top_k=2, ffn=8, shared=1, balance="loss"), **settings), []
    for name, ranks, size in (("one process", 1, 1), *((f"4 ranks, EP = {size}", 4, size) for size in (1, 2, 4))):
        run = simulate(ep.train, ranks, args=(SMALL, mixture, STEPS), per_rank=[(4, size)] * ranks)
        trace = run.results[0]
        losses = (trace.losses[at] for at in (0, STEPS // 2, STEPS - 1))
        rows.append(
            {
                "run": name,
                **{f"loss {at}": f"{loss:.5f}" for at, loss in zip((1, STEPS // 2 + 1, STEPS), losses, strict=True)},
                "gradient norm, last": f"{trace.norms[-1]:.4f}",
                "bytes sent by rank 0": bytes_text(run.meter.bytes_sent[0]),
            }
        )
    return table(rows)


def wrong_scale() -> Markdown:
    """How large the gradient of an expert is, relative to one process, for two ways of averaging on four ranks with
    EP = 2."""
    whole = small_layer()
    tokens = torch.randn(4, TOKENS, HIDDEN, generator=torch.Generator().manual_seed(3))
    for part in tokens:
        (whole(part).square().mean() / 4).backward()

    def work(comm: Comm, x: Tensor, wrong: bool) -> tuple[Tensor, Tensor]:
        group, replicas = ep.expert_groups(comm, 2)
        layer = part_of(whole, group)
        layer(x).square().mean().backward()
        dense, experts = list(layer.router.parameters()), list(layer.experts.parameters())
        if wrong:
            for who, parameters in ((comm, dense), (replicas, experts)):
                for parameter in parameters:
                    grad = gradient(parameter)
                    who.all_reduce(grad)
                    grad /= who.size
        else:
            ep.average_gradients(comm, replicas, dense, experts)
        return gradient(layer.router.weight), gradient(layer.experts.down)

    rows = []
    for words, wrong in (("mean over the replicas of an expert", True), ("sum over the replicas, divided by N", False)):
        router, down = simulate(work, 4, per_rank=[(part, wrong) for part in tokens]).results[0]
        ratios = (
            router.norm() / gradient(whole.router.weight).norm(),
            down.norm() / gradient(whole.experts.down)[:4].norm(),
        )
        rows.append(
            {"expert gradients": words}
            | {f"{name}: size / one process": f"{r:.3f}" for name, r in zip(("router", "expert"), ratios, strict=True)}
        )
    return table(rows)


def two_hops(limits: Sequence[int | None] = (None, 2, 1)) -> Markdown:
    """Bytes over the network for one dispatch: eight ranks in four nodes, 16 experts, four per token, by node limit."""
    rows, topology = [], Topology.nodes(2)
    tokens = torch.randn(8, TOKENS, 128, generator=torch.Generator().manual_seed(5))
    scores = torch.randn(8, TOKENS, 16, generator=torch.Generator().manual_seed(6))

    def work(comm: Comm, x: Tensor, logits: Tensor, limit: int | None, once: bool) -> float:
        routing = ep.route(logits, 4, "sigmoid", nodes=4, node_limit=limit)
        _ = ep.dispatch_by_node(x, routing, comm, 2) if once else ep.dispatch(x, routing, comm)
        return (routing.experts // 4).sort().values.diff().ne(0).sum(-1).add(1).float().mean().item()

    for limit in limits:
        sent = {}
        for once in (False, True):
            per_rank = [(x, logits, limit, once) for x, logits in zip(tokens, scores, strict=True)]
            run = simulate(work, 8, per_rank=per_rank, topology=topology)
            sent[once] = run.meter.levels["network"][0]
        rows.append(
            {
                "nodes per token, at most": limit or "no limit",
                "nodes per token, mean": number_text(sum(run.results) / 8, 3),
                "a row per copy": bytes_text(sent[False]),
                "a row per node": bytes_text(sent[True]),
            }
        )
    return table(rows)


def shared_expert_times(shares: Sequence[float] = (0.0, 0.5, 1.0, 1.5)) -> Markdown:
    """Seconds that each rank waits for the two exchanges, with a shared expert of several lengths before or during the
    dispatch."""
    exchange = ep.even_bytes(512, 64, 2, RANKS, 4) / 1e9  # s of one exchange at 1 GB/s
    topology = Topology.flat(0.0, 1e9)

    def work(comm: Comm, shared: float, during: bool) -> None:
        sent = torch.ones(1024, 64)
        there, home = torch.empty_like(sent), torch.empty_like(sent)
        if not during:
            comm.compute(shared, label="shared expert")
        dispatched = comm.all_to_all_single(there, sent, async_op=True)
        if during:
            comm.compute(shared, label="shared expert")
        assert dispatched is not None
        dispatched.wait()
        comm.compute(exchange, label="experts")
        comm.all_to_all_single(home, there)

    rows = []
    for share in shares:
        both = [
            simulate(work, RANKS, args=(share * exchange, during), topology=topology).exposed()[0]
            for during in (False, True)
        ]
        names = ("waiting, shared expert first", "waiting, shared expert during the dispatch")
        rows.append(
            {"shared expert / one exchange": f"{share:g}"}
            | {name: duration_text(seconds) for name, seconds in zip(names, both, strict=True)}
        )
    return table(rows)


def router_flips(tokens: int = 4096, experts: int = 64, hidden: int = 256, top_k: int = 8) -> Markdown:
    """How many choices change if the router computes in bf16 instead of fp32, and how many logits become ties."""
    coin = torch.Generator().manual_seed(0)
    x, weight = torch.randn(tokens, hidden, generator=coin), torch.randn(experts, hidden, generator=coin) * hidden**-0.5
    exact = x @ weight.T
    rows = []
    for words, logits in (
        ("bf16 inputs, fp32 result", (x.bfloat16().float() @ weight.bfloat16().float().T)),
        ("bf16 inputs, bf16 result", (x.bfloat16() @ weight.bfloat16().T).float()),
    ):
        chosen = [set(map(tuple, _pairs(ep.route(each, top_k).experts))) for each in (exact, logits)]
        ties = (logits.sort(-1).values.diff() == 0).any(-1).double().mean().item()
        changed = len(chosen[0] - chosen[1]) / (tokens * top_k)
        rows.append(
            {
                "router": words,
                "choices that differ from fp32": percent_text(changed, 2),
                "tokens with two equal logits": percent_text(ties, 2),
            }
        )
    return table(rows)


def _pairs(experts: Tensor) -> list[list[int]]:
    tokens = torch.arange(len(experts))[:, None].expand_as(experts)
    return torch.stack([tokens, experts], -1).flatten(0, 1).tolist()


def expert_matmuls(device: str | None = None) -> Markdown:
    """The same FLOPs as one matmul, as a loop over experts, and as torch's grouped matmul; on a GPU if there is one."""
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    gpu = device == "cuda"
    experts, hidden, ffn, tokens = (64, 2048, 1024, 65_536) if gpu else (16, 256, 128, 2048)
    kind = half(torch.device(device)) if gpu else torch.float32
    x = torch.randn(tokens, hidden, device=device, dtype=kind)
    weights = torch.randn(experts, hidden, ffn, device=device, dtype=kind)
    even = torch.full((experts,), tokens // experts)
    skewed = (even * torch.linspace(0.25, 1.75, experts)).long()
    skewed[-1] += tokens - skewed.sum()
    offsets = even.cumsum(0).to(device, torch.int32)
    ways = {
        "one matmul, one expert": lambda: x @ weights[0],
        "a loop over experts, even": lambda: [
            part @ w for part, w in zip(x.split(even.tolist()), weights, strict=True)
        ],
        "a loop, loads from 1/4 to 7/4": lambda: [
            part @ w for part, w in zip(x.split(skewed.tolist()), weights, strict=True)
        ],
        "torch's grouped_mm": lambda: F.grouped_mm(x, weights, offs=offsets),
        "padded to twice the mean": lambda: torch.bmm(x.view(experts, -1, hidden).repeat(1, 2, 1), weights),
    }
    rows, flops, threads = [], 2 * tokens * hidden * ffn, torch.get_num_threads()
    torch.set_num_threads(1)  # small matmuls on several threads measure the threads
    for name, work in ways.items():
        try:
            seconds = best_seconds(_finished(work) if gpu else work)
        except RuntimeError as error:
            rows.append({"on this GPU" if gpu else "on this CPU": name, "time": "–", "useful FLOP/s": str(error)[:60]})
            continue
        row = {"on this GPU" if gpu else "on this CPU": name, "time": duration_text(seconds)}
        rows.append({**row, "useful FLOP/s": f"{number_text(flops / seconds / 1e9)} GFLOP/s"})
    torch.set_num_threads(threads)
    if not gpu:
        peak = number_text(float(facts.device("H100 SXM").dense_flops) / 1e12)
        print(
            f"No GPU here: small fp32 matmuls on this CPU. On a GPU, the cell runs larger ones in bf16; compare them "
            f"with its peak (H100: {peak} TFLOP/s)."
        )
    return table(rows)


def _finished(work):
    def run() -> None:
        work()
        torch.cuda.synchronize()

    return run
