from course_grader.exercises import Card, Worth
from course_grader.exercises.audits import AUDIT, Item, rules, short_table

CAUSES = {
    "as printed": "the statement is right",
    "16-bit recipe": "it is right for 16-bit weights and gradients, not for the precision it names",
    "weights alone": "it compares the weights alone and leaves gradients and optimizer states out",
    "trained models alone": "it leaves the frozen models out",
    "decimal point": "it is off by a power of ten, nearly",
}

ITEMS = (
    Item("finetune-65b-fp32", "weights, gradients and moments, in GB", "GB", 1e9),
    Item("weights-65b", "the weights, in GB", "GB", 1e9),
    Item("qlora-less", "how many times less memory", "a ratio"),
    Item("grpo-halves", "FLOPs of a training step with PPO over those with GRPO", "a ratio"),
    Item("sync-30x", "how many times faster", "a ratio"),
    Item("lora-18m", "trainable parameters, in millions", "million", 1e6),
    Item("gradients-7b", "the gradients, in GB", "GB", 1e9),
)

CARD = Card(
    title="Audit: what was printed about post-training",
    text=f"""Here are seven published statements about post-training. Recompute each for the case in brackets, then
judge it. You may use the library. GB are powers of 1,000.

{short_table(ITEMS)}

{rules("audit_post_training", CAUSES)}""",
    **Worth(points=7, minutes=12, difficulty=2, importance=4),
    **AUDIT,
    hints=(
        "How many bytes does a parameter take in the precision that the statement names?",
        "Full precision: 4 bytes each for the weight, its gradient and two moments.",
        "16 · 65 GB; 2 · 65 GB; 780 / 48; 6 FLOPs per parameter and token of a trained model, 2 of a frozen one; "
        "600 / 20; 175 billion / 10,000; 4 · 7 GB.",
    ),
    answers=("audit_post_training",),
)
