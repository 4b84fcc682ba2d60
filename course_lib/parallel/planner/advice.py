"""Plans in words: what binds a plan, and what the next one gives up."""

from collections.abc import Mapping

from course_lib.estimate.units import DAY, duration_text, number_text, percent_text
from course_lib.parallel.planner.estimating import memory_by_part
from course_lib.parallel.planner.search import Plan

CAUSES = {
    "matmul": "matrix products",
    "attention": "attention",
    "other": "elementwise kernels and the loss function",
    "recompute": "recomputation",
    "launch": "kernel launches",
    "tp": "tensor-parallel messages",
    "cp": "context-parallel messages",
    "ep": "expert-parallel messages",
    "pp": "messages between stages",
    "dp": "synchronization of data ranks",
    "bubble": "the pipeline's bubble",
    "optimizer": "the optimizer",
}
USEFUL = ("matmul", "attention")
TIGHT = 0.88  # of the device's memory
SAME = 1e-3  # relative: plans whose steps differ by less are equally quick


def degrees(plan: Plan) -> str:
    """The layout in one line."""
    where = plan.layout
    words = [f"{name}={getattr(where, name)}" for name in ("tp", "cp", "pp", "dp", "ep") if getattr(where, name) > 1]
    words += [f"replicas={where.replicas}"] * (where.replicas > 1)
    words += [f"zero={where.zero}"] * (where.shards > 1)  # ZeRO shards nothing on one data rank
    words += [f"micro-batch={plan.micro}"]
    several = "" if where.microbatches == 1 else "es"
    words += [f"{where.microbatches} micro-batch{several}", f"recompute={plan.job.recompute}"]
    words += [f"offload={plan.job.software.offloads}"] * plan.job.offload
    chunks = f"{where.schedule} of {where.virtual}" if where.virtual > 1 else where.schedule
    return ", ".join([*words, chunks] if where.pp > 1 else words)


def binding(plan: Plan) -> str:
    """The cause that takes the most time next to the model's own products and attention."""
    parts = {name: float(each) for name, each in plan.estimate.step.parts.items() if name not in USEFUL}
    return max(parts, key=lambda name: parts[name])


SHOWN = 0.005  # of the whole: smaller parts are summed up as "the rest"


def shares(parts: Mapping[str, float]) -> dict[str, float]:
    """Parts, largest first, those below half a percent together as "the rest"."""
    whole = sum(parts.values())
    large = {name: each for name, each in parts.items() if each >= SHOWN * whole}
    found = dict(sorted(large.items(), key=lambda item: -item[1]))
    rest = whole - sum(large.values())
    return found | ({"the rest": rest} if rest > 0 else {})


def memory_parts(plan: Plan) -> dict[str, float]:
    """Bytes of the fullest rank by purpose, in words."""
    return shares(memory_by_part(plan.job, plan.layout))


def time_parts(plan: Plan) -> dict[str, float]:
    """Seconds of a step by cause, in words."""
    return shares({CAUSES[name]: float(each) for name, each in plan.estimate.step.parts.items()})


def cost(plan: Plan, tokens: float) -> str:
    """Days and dollars of the run."""
    price = f"${plan.usd(tokens):,.0f}" if plan.cluster.usd_per_hour else "price unknown"
    days = plan.days(tokens)
    return f"{number_text(days)} days, {price}" if days >= 1 else f"{duration_text(days * DAY)}, {price}"


def verdict(plan: Plan, best: Plan) -> str:
    """What takes most of a plan's time, whether its memory is nearly full, what it loses against the best one, and
    whether its layers can be split."""
    cause = binding(plan)
    share = float(plan.estimate.step.parts[cause]) / plan.seconds
    full = " Memory is nearly full." if plan.memory > TIGHT * plan.cluster.memory else ""
    largest = (
        f"Besides products and attention, most time goes to {CAUSES[cause]}: {percent_text(share, 2)} of the step."
    )
    return f"{largest}{full}{_given_up(plan, best)}{_stages(plan)}"


def _stages(plan: Plan) -> str:
    """Why a model with an odd number of layers, such as DeepSeek-V3's 61, has no usual pipeline."""
    layers = plan.job.shape.layers
    if layers % 2 == 0:
        return ""
    return f" Its {layers} layers split evenly over no power of two of stages, even with embedding and head as layers."


def _given_up(plan: Plan, best: Plan) -> str:
    """What a plan loses against the best one, and the cause whose time grew the most."""
    if plan is best:
        return ""
    slower = plan.seconds / best.seconds - 1
    if abs(slower) < SAME:
        return " As quick as the quickest."
    if slower < 0:
        return f" {percent_text(-slower, 2)} quicker than the quickest of the search."
    ours, theirs = plan.estimate.step.parts, best.estimate.step.parts
    grown = max(ours, key=lambda name: float(ours[name]) - float(theirs[name]))
    return f" {percent_text(slower, 2)} slower than the quickest, most of it in {CAUSES[grown]}."
