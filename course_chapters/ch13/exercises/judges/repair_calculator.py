from collections.abc import Mapping, Sequence

from course_grader.judging import Breakdown, Case, Judging, Params, Random, Worked, each_changed, hidden, judged, shown
from course_lib.estimate.units import BILLION

right = Worked("repair-calculator")
ABOUT: Mapping[str, Sequence[str]] = {  # the numbers that a part of the points is for; by default the one of its name
    "states": ["gradients", "optimizer"],
    "recompute": ["activations"],
    "together": [],  # all of them
}


def _estimate_words(model: Mapping[str, float], job: Mapping[str, object], tp: int, pp: int, dp: int, zero: int) -> str:
    return f"{model['parameters'] / BILLION:.3g}B, tp {tp}, pp {pp}, dp {dp}, ZeRO {zero}, recompute {job['recompute']}"


def _calculator(part: str) -> Breakdown:
    return Breakdown(part, "bytes", want=right, words=_estimate_words, only=ABOUT.get(part, [part]), floor=0.0)


def _calculator_cases(params: Params, rng: Random) -> list[Case]:
    def row(recompute: str, tp: Sequence[int], zero: Sequence[int], grouped: bool = True) -> tuple[object, ...]:
        heads = rng.choice((32, 48, 64))
        layers, width = rng.choice((32, 48, 96)), heads * rng.choice((64, 128))
        model: dict[str, float] = {"layers": layers, "hidden": width, "heads": heads}
        model |= {"kv_heads": 8 if grouped else heads, "parameters": rng.randint(3, 180) * BILLION}
        job = {"length": rng.choice((2048, 4096, 8192)), "micro": rng.choice((1, 2, 3)), "recompute": recompute}
        job["state"] = rng.choice((6, 8, 12, 16))
        return model, job, rng.choice(tp), rng.choice((1, 2, 4)), rng.choice((2, 3, 16)), rng.choice(zero)

    cut, one, every = (2, 4, 8), (1,), (0, 1, 2, 3)
    model = {"layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "parameters": params["billions"] * BILLION}
    job = {"length": 8192, "micro": 1, "recompute": "selective", "state": 12}
    rows = {
        "weights": [row("none", cut, (3,)) for _ in range(3)] + [row("none", one, every), row("none", cut, (2,))],
        "states": [row("none", cut, (zero,)) for zero in every],
        "activations": [row(recompute, cut, every) for recompute in ("none", "selective", "none")],
        "recompute": [row("full", one, every) for _ in range(3)] + [row("selective", one, every)],
        "cache": [row("none", cut, every) for _ in range(3)] + [row("none", cut, every, grouped=False)],
    }
    everything = [row(rng.choice(("none", "selective", "full")), cut, every) for _ in range(8)]
    wide = {"layers": 96, "hidden": 8192, "heads": 64, "kv_heads": 1, "parameters": 2000 * BILLION}
    large = {"length": 65_536, "micro": 5, "state": 20, "recompute": "full"}
    alike = each_changed((model, job | {"recompute": "none"}, 4, 2, 4, 1), (wide, large, 16, 8, 128, 0))
    return [
        *(
            shown(f"tp {params['tp']}, ZeRO {zero}", f"values:{part}", 0, [(model, job, params["tp"], 1, 4, zero)])
            for zero, part in ((0, "states"), (3, "weights"))
        ),
        *(hidden(f"other models: {part}", f"values:{part}", 0, given) for part, given in rows.items()),
        hidden("everything together", "generality:together", 0, everything + alike),
    ]


JUDGING = Judging(
    shares="values:weights 0.15, values:states 0.2, values:activations 0.2, values:recompute 0.15, values:cache 0.15, "
    "generality:together 0.15",
    cases=_calculator_cases,
    verdicts=lambda params, case, outcome: judged(case, _calculator(case.part).fault(case, outcome.value)),
    why="Each number must fall when the axis that cuts it grows, and no axis may cut it twice. Double every degree in "
    "turn and look at what halves: that test finds four of the five defects without a single known value.",
    pytorch="`torch.cuda.memory_stats()` gives the peak that an estimate must explain; chapter 02 compares the two.",
)

ANSWERS = r'''# %% right: worked
def estimate(model, job, tp, pp, dp, zero):
    """Bytes of one GPU by purpose."""
    layers, params = model["layers"] / pp, model["parameters"] / pp / tp
    tokens = job["length"] * job["micro"]
    scores = 5 * model["heads"] * job["length"] / model["hidden"]
    factor = {"none": 34 + scores, "selective": 34, "full": 2}[job["recompute"]]
    keys = model["hidden"] / model["heads"] * model["kv_heads"]
    return {
        "weights": 2 * params / (dp if zero == 3 else 1),
        "gradients": 2 * params / (dp if zero >= 2 else 1),
        "optimizer": job["state"] * params / (dp if zero >= 1 else 1),
        "activations": layers * tokens * model["hidden"] * factor / tp,
        "cache": 2 * layers * tokens * keys * 2 / tp,
    }
# %% right: the width of a head first
# ~ model["hidden"] / model["heads"] * model["kv_heads"] ==> model["hidden"] // model["heads"] * model["kv_heads"]
# %% wrong: as it was => values states-defect  from: the card
# %% wrong: weights defect => values
# > ZeRO-3 shares out over dp what tp has already cut, not over tp again.
# ~ (dp if zero == 3 else 1) ==> (tp * dp if zero == 3 else 1)
# %% wrong: states defect => values
# > tp cuts gradients and optimizer state as it cuts weights.
# ~ "gradients": 2 * params ==> "gradients": 2 * tp * params
# ~ job["state"] * params ==> job["state"] * tp * params
# %% wrong: the optimizer's defect is left => values states-defect
# ~ job["state"] * params ==> job["state"] * tp * params
# %% wrong: the gradients' defect is left => values states-defect
# ~ "gradients": 2 * params ==> "gradients": 2 * tp * params
# %% wrong: activations defect => values
# > tp cuts the activations too.
# ~ factor / tp ==> factor
# %% wrong: recompute defect => values
# > full recomputation keeps one 16-bit input for each layer and token: 2 bytes a number.
# ~ "full": 2} ==> "full": 34}
# %% wrong: cache defect => values
# > only kv_heads heads have keys and values.
# ~ model["hidden"] / model["heads"] * model["kv_heads"] ==> model["hidden"]
# %% wrong: width of a head => values
# > `hidden` is the width of all heads together; one key head is hidden / heads wide.
# ~ model["hidden"] / model["heads"] * model["kv_heads"] ==> model["hidden"] * model["kv_heads"]
# %% wrong: full in 32 bits => values
# > full recomputation was given 4 bytes a number; the inputs have 16 bits.
# ~ "full": 2} ==> "full": 4}
# %% wrong: no stage includes another => values
# > a stage of ZeRO also shards what the stages below it do.
# ~ (dp if zero >= 2 else 1) ==> (dp if zero == 2 else 1)
# ~ (dp if zero >= 1 else 1) ==> (dp if zero == 1 else 1)
# %% wrong: zero stages => values
# > ZeRO-1 shards the optimizer state alone; the gradients are sharded from ZeRO-2 on.
# ~ zero >= 2 ==> zero >= 1
# %% wrong: weights from ZeRO-2 => values
# > ZeRO-2 shards the weights here; only ZeRO-3 does.
# ~ (dp if zero == 3 else 1) ==> (dp if zero >= 2 else 1)
# %% wrong: whole cache => values
# > tp cuts the key heads, and the cache with them.
# ~ keys * 2 / tp ==> keys * 2
# %% half: the activations' two defects are left => 5.0
# ~ "full": 2} ==> "full": 34}
# ~ factor / tp ==> factor
# %% wrong: both defects of activations => values activations-defect
# > two defects are left in the activations: tp, and full recomputation.
# ~ "full": 2} ==> "full": 34}
# ~ factor / tp ==> factor
# %% wrong: four stages at most => generality ~
# ~ model["layers"] / pp ==> model["layers"] / min(pp, 4)
'''
