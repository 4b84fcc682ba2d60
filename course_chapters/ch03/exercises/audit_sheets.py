from course_grader.exercises import Card, Worth
from course_grader.exercises.audits import AUDIT, Item, rules, short_table
from course_lib.estimate import facts
from course_lib.estimate.units import rate_text

CAUSES = {
    "as printed": "the statement is right",
    "dense or sparse": "a sparse peak is used where a dense one is meant",
    "both ways for one way": "both directions were added, or one such number was compared with a one-way number",
    "wrong scope": "the number belongs to a smaller part, or to a larger whole, than the statement says",
    "slope drawn flat": "something that grows with the intensity was drawn as constant",
    "two quantities on one axis": "two different numbers share one axis",
    "unit": "the number has the wrong unit",
    "missing factor": "a factor that the statement itself names is missing from its number",
}
STEP = {"flop": 3.4e15, "memory_bytes": 7.0e11, "network_bytes": 3.5e10}  # of the statement about one axis


ITEMS = (
    Item("b200-5000", "its dense peak in TFLOP/s", scale=1e12),
    Item("thousand-times", "the ratio of the dense peaks (a K40 has FP32 only)"),
    Item("ridge-295", "the ridge in FLOP per byte"),
    Item("tensor-cores-989", "the product in TFLOP/s", scale=1e12),
    Item("flat-ceiling", "the memory roof at 100 FLOP per byte over the one at 50, on an H100"),
    Item(
        "one-axis",
        f"network intensity over memory intensity of a step of {STEP['flop']:.2g} FLOP that moves "
        f"{STEP['memory_bytes'] / 1e9:.0f} GB through memory and sends {STEP['network_bytes'] / 1e9:.0f} GB",
    ),
    Item("eighteen-fold", "the ratio of the two wires, like for like"),
    Item("any-two-900", "GB/s that one GPU can send to another at most", scale=1e9),
    Item("server-50", "GB/s that one server can send, all its adapters together", scale=1e9),
    Item("pod-245", "TB of memory in a pod", scale=1e12),
    Item("decode-one", "FLOP per byte of generating for one user in 16 bits"),
)


def _sheet() -> str:
    names = ("K40", "H100 SXM", "B200 SXM")
    said = []
    for name in names:
        one = facts.device(name)
        peak = one.get("dense_flops") or one.fp32_flops
        said.append(f"{name} {rate_text(peak)} ({peak.condition})")
    h100 = facts.device("H100 SXM")
    wire = (
        f"{h100.link_both_ways.text} over its links ({h100.link_both_ways.condition}) and "
        f"{h100.network_one_way.text} over its network"
    )
    return (
        f"{'; '.join(said)}. An H100 SXM has {h100.bandwidth.text} of memory bandwidth, {wire} "
        f"({h100.network_one_way.condition})"
    )


CARD = Card(
    title="Audit: sheets, roofs, wires",
    **Worth(points=22, minutes=20, difficulty=3, importance=5),
    **AUDIT,
    answers=("audit_sheets",),
    text=f"""Recompute and judge eleven statements from public lessons on this subject. The data sheets say: {_sheet()}.

{short_table(ITEMS)}

{rules("audit_sheets", CAUSES, " (a figure that draws two things at the same height claims a ratio of 1)")}""",
    hints=(
        "Ask three things about every number before you calculate: dense or sparse, one way or both, one "
        "device or many?",
        "Recompute all of them from the sheets above the table. A ratio of 2 between the published number and yours "
        "has two usual causes; a ratio of 8 has one.",
        '`link_one_way = both_ways / 2`; `adapters * network_one_way`; `dense / bandwidth`; `"some-id": (number, '
        '"wrong", "wrong scope")`.',
    ),
)
