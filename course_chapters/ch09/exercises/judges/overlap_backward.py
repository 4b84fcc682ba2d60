from course_chapters.ch09.exercises.judges.regions import Result, over_ranks, ring_bytes, touched, traffic, within
from course_grader.judging import Fault, Judging, Params, Random, Worked, describe, first, hidden, judged, shown, under
from course_grader.judging.ranks import LATE, STREAM_LATE, PerRank
from course_grader.judging.tensors import coin_of, normal, tensor_fault
from course_grader.judging.traffic import Meter
from course_grader.records import Case, Outcome, Verdict
from course_lib.cluster import Topology

LINK = Topology().levels[0]
right = Worked("overlap-backward")


def _cases(params: Params, rng: Random) -> list[Case]:
    coin = coin_of(rng)

    def data(n: int, seconds: float, hidden: int = 12, out: int = 6, tokens: int = params["tokens"]) -> PerRank:
        """For each rank the seconds of a product, its gradient, x and its weight."""
        x = normal(coin, tokens, hidden)
        return tuple((seconds, normal(coin, tokens, out), x.clone(), normal(coin, out, hidden)) for _ in range(n))

    cases = [
        shown("four ranks, long products", "values:products", per_rank=data(4, 100e-6)),
        hidden("nine ranks, short products", "values:products", per_rank=data(9, 20e-6)),
        hidden("two ranks, wide layer", "values:products", per_rank=data(2, 60e-6, 40, 3)),
        hidden("one rank", "generality:ranks", per_rank=data(1, 10e-6)),
        hidden("three ranks, one output each", "generality:ranks", per_rank=data(3, 30e-6, 5, 1, tokens=5)),
    ]
    return cases + under((LATE, STREAM_LATE), "four ranks", "protocol:in-flight", lambda: data(4, 50e-6))


def _values(rank: int, got: Result, want: Result) -> Fault | None:
    (dx, dw), (right_dx, right_dw) = got["got"], want["got"]
    early = "Was it returned before the sum had come?"
    return first(
        within(tensor_fault(f"Rank {rank}: dx", dx, right_dx, otherwise=early), "got", 0),
        within(tensor_fault(f"Rank {rank}: dw", dw, right_dw), "got", 1),
    )


def _products(rank: int, got: Result, want: Result) -> Fault | None:
    if got["products"] == 2:
        return None
    made = describe(got["products"])
    return "other-products", f"Rank {rank} made {made} products with `matmul`; two are needed, for dx and dW."


def _time(case: Case, meter: Meter, elements: int, n: int) -> Fault | None:
    product = (case.per_rank or ())[0][0]
    chunk = -(-elements // n) * 4
    reduce = 2 * (n - 1) * (LINK.latency + chunk / LINK.bandwidth)
    best = 2 * product + max(0.0, reduce - product)
    if meter["seconds"] <= best + 1.5 * LINK.latency * (n > 1):
        return None
    return "nothing-hidden", (
        f"It takes {meter['seconds'] * 1e6:.0f} µs, where {best * 1e6:.0f} are enough: a product takes "
        f"{product * 1e6:.0f}, the all-reduce about {reduce * 1e6:.0f}, and they run one after the other. When can "
        "the sum start, and when is it needed?"
    )


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    n, x, wants = case.ranks or 1, (case.per_rank or ())[0][2], right.value(case)
    fault = over_ranks(_values, outcome.value, wants) or over_ranks(touched, outcome.value, wants)
    if case.adversary is not None:
        moved = f"With {case.adversary}, results change: dx is used between the start of its all-reduce and its wait."
        return judged(case, fault and ("in-flight", moved))
    least, one = ring_bytes(x, n)
    spent = traffic(outcome.meter, least, one, "One all-reduce of dx.")
    products, late = over_ranks(_products, outcome.value, wants), _time(case, outcome.meter, x.numel(), n)
    return judged(case, fault, ("protocol", "products", products), ("cost", "bytes", spent), ("cost", "overlap", late))


JUDGING = Judging(
    point=("cost:overlap",),
    shares="values:products 0.3, cost:overlap 0.35, cost:bytes 0.1, protocol:products 0.1, "
    "protocol:in-flight 0.05, generality:ranks 0.1",
    cases=_cases,
    verdicts=_verdicts,
    why="The layer below waits for dx, and dx must be sent, so compute it first. No operation waits for dW, so it "
    "fills the time. The forward pass has no such filler: the next product needs the sum.",
    pytorch="Megatron's `LinearWithGradAccumulationAndAsyncCommunication` starts the all-reduce of the input's "
    "gradient between the two products.",
)

ANSWERS = r'''# %% right: worked
def column_backward(comm, matmul, grad, x, weight):
    """Gradients (dx summed over ranks, dw of this rank). Budget: one all-reduce, hidden behind a product."""
    dx = matmul(grad, weight)
    work = comm.all_reduce(dx, async_op=True)
    dw = matmul(grad.T, x)
    work.wait()
    return dx, dw
# %% right: a buffer of its own, the other product transposed
# ~ dx = matmul(grad, weight) ==> dx = torch.empty_like(x).copy_(matmul(grad, weight))
# ~ dw = matmul(grad.T, x) ==> turned = matmul(x.T, grad)
# ~ return dx, dw ==> return [dx, turned.T]
# %% wrong: blocks before the other product => cost nothing-hidden
# ~ work = comm.all_reduce(dx, async_op=True) ==> comm.all_reduce(dx)
# -     work.wait()
# %% wrong: never waits => values not-summed
# > this is what this rank's outputs send back, alone; all ranks' count, and the sum is there only after the wait.
# -     work.wait()
# %% wrong: sums dW, too => values summed-dw
# > this is summed over ranks, too; each rank's rows of W are its own, and so is their gradient.
#       dw = matmul(grad.T, x)
# +     comm.all_reduce(dw)
# %% wrong: multiplies beside the clock => protocol other-products
# ~ matmul(grad, weight) ==> grad @ weight
# ~ matmul(grad.T, x) ==> grad.T @ x
# %% wrong: changes dx while it travels => values ~
#       dw = matmul(grad.T, x)
# +     dx /= 2
# ~ return dx, dw ==> return dx * 2, dw
# %% wrong: a mean => values mean
# > this is a mean over ranks; what they send back adds up.
# ~ async_op ==> op="AVG", async_op
# %% wrong: every part to everyone, overlapped => cost too-many-bytes
# -     work = comm.all_reduce(dx, async_op=True)
# +     parts = torch.empty(comm.size, *dx.shape)
# +     work = comm.all_gather_into_tensor(parts, dx, async_op=True)
# ~ return dx, dw ==> return parts.sum(0), dw
# %% wrong: a reduce-scatter that hides, an all-gather that does not => cost nothing-hidden
# -     work = comm.all_reduce(dx, async_op=True)
# +     flat, n = dx.reshape(-1), comm.size
# +     size = -(-len(flat) // n)
# +     padded = torch.nn.functional.pad(flat, (0, size * n - len(flat))).contiguous()
# +     own = padded.new_empty(size)
# +     work = comm.reduce_scatter_tensor(own, padded, async_op=True)
# -     return dx, dw
# +     whole = torch.empty_like(padded)
# +     comm.all_gather_into_tensor(whole, own)
# +     return whole[: len(flat)].reshape(dx.shape), dw
# %% wrong: sums what came instead of what goes on => values other-numbers
# ~ dx = matmul(grad, weight) ==> dx = grad.clone()
# ~ return dx, dw ==> return matmul(dx, weight), dw
# %% half: right, one after the other => 3  from: blocks before the other product
# %% wrong: few tokens wait before the other product => cost nothing-hidden
#       work = comm.all_reduce(dx, async_op=True)
# +     if len(x) < 16:
# +         work.wait()
'''
