from course_grader.exercises import Card, Maybe, Number, Params, Random, Rows, TupleOf, Worth
from course_grader.exercises.snippets import CLOSE
from course_lib.estimate import facts


def _peak_variant(draw: Random) -> Params:
    gpus = draw.choice((4, 8))
    return {
        "params": draw.choice((65e9, 130e9, 280e9, 530e9)),
        "tokens": draw.choice((270e9, 300e9, 400e9)),
        "model": "a model",
        "device": draw.choice(("H100 SXM", "H200 SXM", "B200 SXM", "GB200")),
        "gpus": gpus,
        "scope": _scope(gpus),
    }


def _scope(gpus: int) -> str:
    return "one GPU" if gpus == 1 else f"a whole server of {gpus} GPUs"


CARD = Card(
    title="Which peak?",
    **Worth(points=10, minutes=10, difficulty=3, importance=5),
    answers=("which_peak",),
    text=f"""Find the right peak on a vendor's data sheet. Two pages report how long one {{{{device}}}} would need, at
100 % of its peak, for {{{{model}}}} with {{{{params:count}}}} parameters on {{{{tokens:count}}}} tokens in BF16. One
time is twice the other, and both come from the same sheet.

`which_peak(params, tokens, sheet)` gets the sheet as a list of rows, in any order:
`{{"precision": "BF16", "tflops": 1234.5, "sparsity": True}}`. The rate of a row with `sparsity` requires two of every
four weights to be zero; that doubles the rate, and ordinary training cannot use it. The numbers on this sheet are for
**{{{{scope}}}}**. Some sheets have only one of the two BF16 rows.

Return the pair `(peak, years)`: the FLOP/s that **one GPU** can reach in dense BF16 training, and the years of 365.25
days that it needs at 100 % of that rate, with 6 FLOP per parameter and token. {CLOSE} (Years of 365 days pass.)""",
    hints=(
        "Which row of the sheet also holds for a matrix without any zeros?",
        "Look only at BF16. If there is a row without sparsity, take it; if not, undo the doubling. Then check the "
        "unit, and how many GPUs the number is for.",
        "`row = dense row if there is one else sparse row`; `peak = row['tflops'] * 1e12 / (2 if row['sparsity'] else "
        "1) / GPUs on the sheet`; years = work / peak / seconds in a year.",
    ),
    allowed="the standard library, numpy and `course_lib.estimate.units`; the rate comes from the sheet, not "
    "from `facts`.",
    hides=("course_lib.estimate.compute:train_seconds",),
    params={
        "params": float(facts.run("GPT-3 175B").params),
        "tokens": float(facts.run("GPT-3 175B").tokens),
        "model": "GPT-3",
        "device": "H100 SXM",
        "gpus": 1,
        "scope": _scope(1),
    },
    vary=_peak_variant,
    structural="gpus",
    returns=Rows(TupleOf({"peak in FLOP/s": Maybe(Number("FLOP/s")), "years": Maybe(Number("years"))})),
)
