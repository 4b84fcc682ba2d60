from course_chapters.ch01.exercises.shared import DEVICES, peak_of
from course_grader.exercises import Card, Maybe, Number, Params, Random, Rows, TupleOf, Worth
from course_grader.exercises.snippets import CLOSE

_LAWS = {
    "doubling": (
        "**each doubling of the GPUs keeps `keep` of every GPU's speed**: N GPUs run at mfu × keep^(log₂ N) of their "
        "peak. `keep` lies above 0.5 and is at most 1, so more GPUs always help"
    ),
    "serial": (
        "**a fraction 1 − `keep` of the one-GPU time never gets shorter**, and the rest is divided by N. If no number "
        "of GPUs meets the deadline, the second value is `None`"
    ),
}


def _law(name: str, keep: float) -> dict[str, object]:
    return {"law": name, "rule": _LAWS[name], "keep": keep}


def _plan_variant(draw: Random) -> Params:
    return {
        **peak_of(draw.choice([each for each in DEVICES if "A100" not in each])),  # no number of those is enough
        **_law("serial", draw.choice((0.9996, 0.9997, 0.9998))),
        "params": draw.choice((30e9, 65e9, 100e9)),
        "tokens": draw.choice((8e12, 10e12, 12e12)),
        "gpus": draw.choice((512, 1024, 2048)),
        "weeks": draw.choice((20, 26, 30)),
    }


CARD = Card(
    title="From years to weeks, with GPUs that slow each other down",
    **Worth(points=15, minutes=15, difficulty=3, importance=4),
    kind="more",
    answers=("plan_run",),
    text=f"""Compute how many weeks a run takes on {{{{gpus:int}}}} GPUs, and how many GPUs finish it in
{{{{weeks:int}}}} weeks. On one {{{{device}}}}, {{{{params:count}}}} parameters on {{{{tokens:count}}}} tokens take
years at {{{{mfu:percent}}}} MFU. Scaling is not perfect here: {{{{rule}}}}. In this run `keep` is {{{{keep:plain}}}}.

`plan_run(params, tokens, gpu_flops, mfu, keep, gpus, weeks)` returns a pair:

- the weeks that the run takes on `gpus` GPUs;
- the least whole number of GPUs (1 or more) that finish within `weeks`. Any number is allowed, not only powers of two.

Count 6 FLOP per parameter and token; `gpu_flops` is one GPU's dense peak in FLOP/s, `mfu` the fraction of it that
one GPU reaches alone. {CLOSE}""",
    hints=(
        "How long does the run take on N GPUs, as a function of N alone? Does it rise or fall as N grows?",
        "Write `weeks_on(n)` first. The inverse is a search: the least n with `weeks_on(n) <= weeks`, by doubling and "
        "halving, or by solving for n and rounding up.",
        "`hi = 1`; `while weeks_on(hi) > weeks: hi *= 2`; then bisect between hi // 2 and hi. Before the search, check "
        "that it can end.",
    ),
    allowed="the standard library, numpy and `course_lib.estimate.units`.",
    hides=("course_lib.estimate.compute:train_seconds", "course_lib.estimate.compute:devices_for_deadline"),
    params={
        **_law("doubling", 0.97),
        **peak_of("H100 SXM"),
        "params": 70e9,
        "tokens": 15e12,
        "mfu": 0.4,
        "gpus": 1024,
        "weeks": 26,
    },
    vary=_plan_variant,
    structural="law",
    returns=Rows(TupleOf({"weeks": Maybe(Number("weeks")), "GPUs": Maybe(Number("GPUs"))})),
)
