from course_grader.exercises import Card, Worth
from course_grader.exercises.audits import AUDIT, Item, rules, table

CAUSES = {
    "as printed": "the statement is right",
    "shared parts twice": "attention and embeddings exist once, and are counted for each expert",
    "compute alone": "it is right for computation, and not for what is named",
    "forward alone": "it is right for the forward pass, and not for what is named",
    "parts averaged": "the ranks' values were averaged, and they do not add up that way",
    "another k": "it is right for another number of experts per token",
}

ITEMS = (
    Item("mixtral-14b", "parameters that one token uses", "billions", scale=1e9),
    Item("mixtral-same-cost", "bytes of the weights in memory, over those of a 12.9B model", "a plain factor"),
    Item("deepseek-37b", "parameters that one token uses, over all", "percent", scale=0.01),
    Item("alltoall-twice", "exchanges of rows per layer and step", "a plain number"),
    Item("dbrx-65x", "ways to choose the experts of a token, over Mixtral's", "a plain factor"),
    Item("router-bound", "the sum for a balanced router", "units of 0.001", scale=0.001),
    Item("half-per-rank", "the norm of all four gradients", "a plain number"),
    Item("ep-times", "the factor by which they are too large", "a plain factor"),
)

CARD = Card(
    title="Audit: what do experts cost and save?",
    text=f"""Here are eight published statements about models with experts. Recompute each for the case in brackets,
then judge it. You may use the library.

{table(ITEMS)}

{rules("audit_moe", CAUSES)}""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    **AUDIT,
    hints=(
        "Which parts of Mixtral exist once per layer, whatever the number of experts is? What must be in memory "
        "before a token is routed?",
        "`facts.model` has Mixtral's and DeepSeek-V3's parameters. Count dispatch and combine in both passes. Squares "
        "add up; norms do not.",
        "`12.88`; `46.7 / 12.9`; `37.55 / 671.0`; `2 + 2`; `comb(16, 4) / comb(8, 2)`; `8 * 0.0005 * 1`; `sqrt(20 + "
        "100)`; `32 / (32 / 8)`.",
    ),
    answers=("audit_moe",),
)
