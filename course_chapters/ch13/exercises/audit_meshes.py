from course_grader.exercises import Card, Worth
from course_grader.exercises.audits import AUDIT, Item, rules, table
from course_lib.estimate.units import GB

CAUSES = {
    "as printed": "the statement is right",
    "not an axis": "a factor of the product does not cut the ranks any further",
    "both directions": "one of the two numbers adds both directions",
    "another cluster": "it is right for another number of GPUs",
    "no such product": "the degrees do not multiply to the GPUs",
    "does not fit": "the group holds less than it must",
}

ITEMS = (
    Item("mesh-product-sp", "the data-parallel replicas", "replicas"),
    Item("explorer-7b-dp", "one GPU's state", "GB", GB),
    Item("eighteen-fold-tp", "the factor, like for like", "a plain factor"),
    Item("llama3-dp-192", "the data-parallel replicas", "replicas"),
    Item("llama3-stage-layers", "layers of a stage", "layers"),
    Item("llama3-dp-4", "the data-parallel replicas", "replicas"),
    Item("explorer-405b-128", "one GPU's state", "GB", GB),
    Item("hsdp-groups-of-eight", "GPUs of the smallest group that fits", "GPUs"),
)

CARD = Card(
    title="Audit: do the degrees multiply?",
    text=f"""Here are eight published statements about meshes and layouts. Recompute each for the case in brackets, then
judge it. You may use the library.

{table(ITEMS)}

{rules("audit_meshes", CAUSES)}""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    **AUDIT,
    hints=(
        "Multiply the degrees of each mesh: is the product the number of GPUs? For state, which axes divide it?",
        "Megatron's sequence parallelism uses the ranks of the tp group again; context parallelism has ranks of its "
        "own. A layout's state is cut by tp, pp and the ranks that FSDP shards over.",
        "`16384 / (8 * 16)`; `12 * 7`; `450 / 50`; `16384 / (8 * 16)`; `126 / 16`; `16384 / (8 * 16 * 16)`; `12 * 405 "
        "/ 128`; the first power of two from `16 * 405 / 80` on.",
    ),
    answers=("audit_meshes",),
    needs=("02", "03", "08"),
)
