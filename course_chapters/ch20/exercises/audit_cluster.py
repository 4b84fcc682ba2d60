from course_grader.exercises import Card, Worth
from course_grader.exercises.audits import AUDIT, Item, rules, short_table

CAUSES = {
    "as printed": "the statement is right",
    "more models than it names": "it is the number of a family of models, not of the one it names",
    "watts for megawatt-hours": "it repeats the power of a GPU as an energy",
    "GPUs counted twice": "it multiplies GPU-hours by the GPUs once more",
    "cooling left out": "it is the energy of the servers without that of the building",
}

ITEMS = (
    Item("llama31-energy", "energy of the 405B model, in MWh"),
    Item("bloom-kwh", "energy, in kWh"),
    Item("llama2-400-mwh", "energy, in MWh"),
    Item("llama2-70b-co2", "tonnes of CO₂ for 70B, from those of 7B"),
    Item("card-1416-kwh", "energy with PUE, in kWh"),
    Item("dgx-years", "energy, in kWh"),
    Item("diloco-500", "bytes with DiLoCo, times less", "a ratio"),
)

CARD = Card(
    title="Audit: what was printed about energy and distance",
    text=f"""Here are seven published statements about the energy of training and about training far apart. Recompute
each for the case in brackets, then judge it. You may use the library.

{short_table(ITEMS)}

{rules("audit_cluster", CAUSES)}""",
    **Worth(points=7, minutes=12, difficulty=2, importance=4),
    **AUDIT,
    hints=(
        "Which GPU-hours belong to the model that the statement names?",
        "Energy is power times time; GPU-hours have the number of GPUs in them already.",
        "30.84 million · 0.0007 MWh; 1,082,990 · 0.4 kWh; 1,720,320 · 0.0004 MWh; 31.22 · 1,720,320 / 184,320; "
        "377.8 · 0.35 · 1.53 kWh; 3.7 · 365 · 24 · 10.2 kWh; one message in place of 500.",
    ),
    answers=("audit_cluster",),
)
