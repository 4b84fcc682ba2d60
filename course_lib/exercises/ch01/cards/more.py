"""More exercises of chapter 01: imperfect scaling, a bug from a real thread, triage, and the price of a point of MFU."""

import random
from collections.abc import Mapping
from typing import Any

from course_lib import facts
from course_lib.exercises import Card, Worth
from course_lib.exercises.card_parts import CLOSE, functions
from course_lib.exercises.ch01.cards.core import DEVICES, peak_of
from course_lib.exercises.drilling import pick
from course_lib.exercises.probes import rows
from course_lib.exercises.returns import Anything, ListOf, Maybe, Number, Rows, TupleOf, Word

_LAWS = {
    "doubling": (
        "**each doubling of the GPUs keeps `keep` of every GPU's speed**: N GPUs run at mfu × keep^(log₂ N) of their peak. "
        "`keep` lies above 0.5 and is at most 1, so more GPUs always help"
    ),
    "serial": (
        "**a fraction 1 − `keep` of the one-GPU time never gets shorter**, and the rest is divided by N. If no number "
        "of GPUs meets the deadline, the second value is `None`"
    ),
}


def _law(name: str, keep: float) -> dict[str, Any]:
    return {"law": name, "rule": _LAWS[name], "keep": keep}


def _plan_variant(draw: random.Random) -> Mapping[str, Any]:
    return {
        **peak_of(draw.choice([each for each in DEVICES if "A100" not in each])),  # no number of those is enough
        **_law("serial", draw.choice((0.9996, 0.9997, 0.9998))),
        "params": draw.choice((30e9, 65e9, 100e9)),
        "tokens": draw.choice((8e12, 10e12, 12e12)),
        "gpus": draw.choice((512, 1024, 2048)),
        "weeks": draw.choice((20, 26, 30)),
    }


YEARS_TO_WEEKS = Card(
    id="years-to-weeks",
    chapter="01",
    title="From years to weeks, with GPUs that slow each other down",
    **Worth(points=15, minutes=15, difficulty=3, importance=4),
    kind="more",
    answers=("plan_run",),
    text=f"""Compute how many weeks a run takes on {{{{gpus:int}}}} GPUs, and how many GPUs finish it in {{{{weeks:int}}}} weeks. On one
{{{{device}}}}, {{{{params:count}}}} parameters on {{{{tokens:count}}}} tokens take years at {{{{mfu:percent}}}} MFU. Scaling is not perfect here: {{{{rule}}}}. In this run `keep` is {{{{keep:plain}}}}.

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
    allowed="the standard library, numpy and `course_lib.units`.",
    hides=("compute:train_seconds", "compute:devices_for_deadline"),
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
    probe=rows,
    returns=Rows(TupleOf({"weeks": Maybe(Number("weeks")), "GPUs": Maybe(Number("GPUs"))})),
)

_SCOPES = {
    "all": ("of **all GPUs together**", "gpu_flops", "the mistake"),
    "each": ("of **each GPU**", "(gpus * gpu_flops)", "the mirror image of the mistake"),
}


def _scope(name: str) -> dict[str, Any]:
    return {"scope": name, **dict(zip(("batch_of", "peak", "likeness"), _SCOPES[name], strict=True))}


def _bug_variant(draw: random.Random) -> Mapping[str, Any]:
    return {
        **_scope("each"),
        "gpus": draw.choice((8, 32, 64)),
        "params": draw.choice((7e9, 13e9, 34e9)),
        "batch": draw.choice((2, 4)),
        "steps": draw.choice((400, 600, 800)),
        "hours": draw.choice((1.5, 2.5, 4.5)),
    }


MFU_BUG = Card(
    id="mfu-bug",
    chapter="01",
    title="Find the bug: a utilization in an article",
    **Worth(points=10, minutes=10, difficulty=3, importance=4),
    kind="more",
    form="bug",
    answers=("mfu_fixed",),
    text=f"""Find the bug in a published MFU. Readers of a public article on fine-tuning a large model
[could not reproduce its MFU](https://github.com/huggingface/blog/issues/1649), and the calculation has since
been removed. This function, which is ours, makes {{{{likeness}}}}:

```python
def mfu(params, sequence, batch, steps, seconds, gpus, gpu_flops):
    tokens = sequence * batch * steps
    flops_per_s = 6 * params * tokens / seconds
    return flops_per_s / {{{{peak:plain}}}}
```

`sequence` is the tokens of one sequence, `batch` the sequences {{{{batch_of}}}} in one step, `seconds` the length of
the run, `gpu_flops` the dense peak of one GPU. In the run: {{{{params:count}}}} parameters, sequences of
{{{{sequence:int}}}}, batch {{{{batch:int}}}}, {{{{steps:int}}}} steps in {{{{hours:plain}}}} hours on {{{{gpus:int}}}} {{{{device}}}} of
{{{{flops:tflops}}}}.

Write `mfu_fixed` with the same arguments: the MFU of the whole run, as a fraction of one. The gradients are recomputed
from checkpointed activations; that work does not count as model FLOPs. {CLOSE}""",
    hints=(
        "The numerator and the denominator each refer to some number of GPUs. Which?",
        "Change nothing that is right: 6 FLOP per parameter and token, and the dense peak. Then make the tokens and the "
        "peak belong to the same GPUs.",
        "`tokens_of_all_gpus = …`; `return 6 * params * tokens_of_all_gpus / seconds / (gpus * gpu_flops)`.",
    ),
    allowed="the standard library and numpy.",
    hides=("compute:mfu", "compute:hfu"),
    params={
        **_scope("all"),
        "params": 70e9,
        "sequence": 2048,
        "batch": 16,
        "steps": 500,
        "hours": 13.5,
        "gpus": 16,
        **peak_of("A100 SXM 80GB"),
    },
    vary=_bug_variant,
    structural="scope",
    probe=rows,
    returns=Rows(Number()),
)

RESPONSES = {
    "memory": "shard the state",
    "deadline": "split the data",
    "latency": "split each replica",
    "traffic": "replicate the server",
}
STAY = "stay on one GPU"


TRIAGE_SIX = Card(
    id="triage-six",
    chapter="01",
    title="Do you need this at all?",
    **Worth(points=10, minutes=10, difficulty=2, importance=5),
    kind="more",
    answers=("triage",),
    text=f"""Write `triage(job)`, which says whether a project needs more than one GPU. Distributing a model costs time and money, and not
every project has to pay. `job` is a dictionary:

| key | is |
|---|---|
| `params` | parameters of the model |
| `tokens`, `deadline_s` | training tokens and seconds allowed; `tokens` is 0 if nothing is trained |
| `gpu_memory`, `gpu_flops`, `gpu_bandwidth` | bytes, dense FLOP/s and bytes/s of one GPU |
| `mfu` | fraction of the peak that training reaches |
| `qps`, `replica_qps` | requests a second that arrive, and that one replica can answer; `qps` is 0 if nothing is served |
| `user_tokens_s` | tokens a second that one user must see |

Check four conditions for **one GPU**, in this order; an exact fit is no wall:

| wall | is hit if | first response |
|---|---|---|
| `"memory"` | it trains, and 16 bytes per parameter exceed the memory | `"{RESPONSES["memory"]}"` |
| `"deadline"` | it trains, and 6 FLOP per parameter and token take longer than allowed | `"{RESPONSES["deadline"]}"` |
| `"latency"` | it serves, and the weights (2 bytes per parameter) exceed the memory, or reading them once per token is too slow for a user | `"{RESPONSES["latency"]}"` |
| `"traffic"` | it serves, and one replica cannot answer all requests | `"{RESPONSES["traffic"]}"` |

All divisors are positive. Return `(response, walls)`: the list of **all** walls that are hit, in this order, and the
response to the first of them; `("{STAY}", [])` if there is none. You see six projects on {{{{device}}}}; grading adds
unseen ones.""",
    hints=(
        "What would a project that neither trains nor serves much gain from a second GPU?",
        "There are four independent yes-or-no conditions; collect the names in order and look up the first one's "
        "response. Only a job with tokens can hit the first two, only one with requests the last two.",
        '`walls = [name for name, hit in (("memory", trains and 16 * p > memory), …) if hit]`; '
        '`return (RESPONSES[walls[0]] if walls else "stay on one GPU", walls)`.',
    ),
    allowed="the standard library and numpy.",
    hides=("walls:triage", "compute:train_seconds", "memory:state_bytes"),
    params={"device": "H100 SXM", "mfu": 0.4, "params": 1e9},
    vary=pick(device=("H100 SXM", "A100 SXM 80GB"), mfu=(0.35, 0.4, 0.45), params=(0.6e9, 0.8e9, 1.1e9)),
    probe=rows,
    returns=Rows(TupleOf({"response": Anything("a response"), "walls": ListOf(Word(tuple(RESPONSES)), what="wall")})),
)

_ASKED = {
    "point": (
        "what the **next percentage point** of MFU saves: the cost at `mfu` less the cost at `mfu + 0.01` (`mfu` is at "
        "most 0.9)"
    ),
    "slope": (
        "the **slope**: minus the derivative of the cost with respect to MFU at `mfu`, in dollars per percentage point"
    ),
}


def _point_variant(draw: random.Random) -> Mapping[str, Any]:
    return {
        **peak_of(draw.choice(DEVICES)),
        "asked": "slope",
        "question": _ASKED["slope"],
        "params": draw.choice((30e9, 65e9, 110e9)),
        "tokens": draw.choice((8e12, 10e12, 18e12)),
        "usd_per_hour": draw.choice((1.5, 2.0, 2.5, 3.0)),
        "mfu": draw.choice((0.3, 0.35, 0.45)),
    }


COST_SENSITIVITY = Card(
    id="cost-sensitivity",
    chapter="01",
    title="What is one point of MFU worth?",
    **Worth(points=10, minutes=10, difficulty=3, importance=3),
    kind="more",
    answers=("cost_per_mfu_point",),
    text="""Compute what one percentage point of MFU is worth. The run trains {{params:count}} parameters on {{tokens:count}} tokens, on
{{device}} with {{flops:tflops}} dense, at {{usd_per_hour:usd}} per GPU-hour and {{mfu:percent}} MFU.

`cost_per_mfu_point(params, tokens, gpu_flops, usd_per_hour, mfu)` returns, in US dollars, {{question}}. Money saved is positive. `gpu_flops` is one GPU's peak in FLOP/s, `mfu` a fraction of one; count 6 FLOP per parameter and token,
and pay for GPU-hours only. Numbers within 0.1 % pass, so the slope and the next point are different answers.""",
    hints=(
        "The number of GPUs is not given. Why is it not needed?",
        "Cost is proportional to 1 / MFU. Write `cost(mfu)` once, and ask how fast it falls.",
        "`cost = lambda u: 6 * params * tokens / (gpu_flops * u) / 3600 * usd_per_hour`; a difference of two costs, or "
        "`cost(mfu) / mfu` for a whole unit of MFU, of which a point is a hundredth.",
    ),
    allowed="the standard library, numpy and `course_lib.units`.",
    hides=functions("compute", "points_of_mfu_usd", "cost_slope", "elasticity", "wasted_fraction", "budget_wasted"),
    params={
        "asked": "point",
        "question": _ASKED["point"],
        **peak_of("H100 SXM"),
        "params": 70e9,
        "tokens": 15e12,
        "usd_per_hour": float(facts.price("H100 hour")),
        "mfu": 0.4,
    },
    vary=_point_variant,
    structural="asked",
    probe=rows,
    returns=Rows(Number("US dollars")),
)

PROBLEMS = (YEARS_TO_WEEKS, MFU_BUG, TRIAGE_SIX, COST_SENSITIVITY)
