"""Plans in words: what binds a plan, and what the next one gives up."""

from course_lib.estimate.units import bytes_text, duration_text, percent_text
from course_lib.parallel.planner.search import Plan

CAUSES = {
    "matmul": "matrix products",
    "attention": "attention",
    "other": "elementwise kernels and the loss",
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
    words += [f"zero={where.zero}", f"micro-batch={plan.job.sequences // (where.dp * where.microbatches)}"]
    several = "" if where.microbatches == 1 else "es"
    words += [f"{where.microbatches} micro-batch{several}", f"recompute={plan.job.recompute}"]
    chunks = f"{where.schedule} of {where.virtual}" if where.virtual > 1 else where.schedule
    return ", ".join([*words, chunks] if where.pp > 1 else words)


def binding(plan: Plan) -> str:
    """The cause that takes the most time next to the model's own products and attention."""
    parts = {name: float(each) for name, each in plan.estimate.step.parts.items() if name not in USEFUL}
    return max(parts, key=lambda name: parts[name])


def explain(plans: list[Plan], tokens: float | None = None) -> list[str]:
    """Each plan in three lines: what it is, what it costs and what binds it, what it gives up compared with the best."""
    lines: list[str] = []
    for place, plan in enumerate(plans, start=1):
        found = plan.estimate
        cause = binding(plan)
        share = float(found.step.parts[cause]) / plan.seconds
        price = f"${plan.usd(tokens):,.0f}" if tokens and plan.cluster.usd_per_hour else "price unknown"
        run = f", {plan.days(tokens):.1f} days, {price}" if tokens else ""
        lines.append(f"{place}. {degrees(plan)}")
        lines.append(
            f"   {duration_text(plan.seconds)} a step, MFU {percent_text(float(found.mfu))} "
            f"({percent_text(float(found.attention_mfu))} with attention), "
            f"{bytes_text(plan.memory)} of {bytes_text(plan.cluster.memory)}{run}"
        )
        full = " Memory is nearly full." if plan.memory > TIGHT * plan.cluster.memory else ""
        lines.append(
            f"   Bound by {CAUSES[cause]}: {percent_text(share, 2)} of the step.{full}{_given_up(plan, plans[0])}"
        )
    return lines


def _given_up(plan: Plan, best: Plan) -> str:
    """What a plan loses against the best one, and the cause whose time grew the most."""
    if plan is best:
        return ""
    slower = plan.seconds / best.seconds - 1
    if slower < SAME:
        return " As quick as the best."
    ours, theirs = plan.estimate.step.parts, best.estimate.step.parts
    grown = max(ours, key=lambda name: float(ours[name]) - float(theirs[name]))
    return f" {percent_text(slower, 2)} slower than the best, most of it in {CAUSES[grown]}."
