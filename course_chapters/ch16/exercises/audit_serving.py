from course_grader.exercises import Card, Worth
from course_grader.exercises.audits import AUDIT, Item, rules, short_table

CAUSES = {
    "as printed": "the statement is right",
    "query heads": "it counts a key and a value for each query head",
    "one GPU's share": "it is right for one of several GPUs that share the heads",
    "no token of its own": "it leaves out the token that the target adds in every step",
    "always busy": "it counts hours in which the GPU does nothing as busy",
    "decimal point": "it is off by a power of ten, nearly",
}

ITEMS = (
    Item("opt-13b-token", "keys and values of one token, in kB", "kB", 1e3),
    Item("llama-70b-128k", "the cache of one sequence, in GB", "GB", 1e9),
    Item("llama-70b-1m", "the cache of one sequence, in GB", "GB", 1e9),
    Item("llama-70b-4k", "the cache of one sequence, in MB", "MB", 1e6),
    Item("draft-four", "the speedup over one token a step", "a ratio"),
    Item("h200-70b-usd", "dollars for a million tokens", "dollars"),
    Item("h100-spot-usd", "dollars for a million tokens", "dollars"),
    Item("deepseek-day-cost", "dollars for a day", "dollars"),
)

CARD = Card(
    title="Audit: what was printed about serving",
    text=f"""Here are eight published statements about serving. Recompute each for the case in brackets, then judge it.
You may use the library. kB, MB and GB are powers of 1,000.

{short_table(ITEMS)}

{rules("audit_serving", CAUSES)}""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    **AUDIT,
    hints=(
        "Which heads have keys? How many bytes does a token take in all layers?",
        "A step of speculative decoding costs the target's step and all drafted tokens. It yields the accepted "
        "tokens and one more.",
        "2 · layers · KV heads · size · bytes · tokens; (1 + α + … + α^k) / (1 + k · cost); dollars per hour / "
        "(tokens per second · 3,600) · 10⁶.",
    ),
    answers=("audit_serving",),
)
