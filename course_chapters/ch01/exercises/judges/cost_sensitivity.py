from course_grader.judging import Case, Column, Judging, Params, Random, Worked, shown, table
from course_grader.judging.random_inputs import draw_rows, logarithmic, one_apart, plain, rounded, unseen
from course_lib.estimate.units import money_text, number_text

right = Worked("cost-sensitivity")


def _point_words(p: float, d: float, f: float, c: float, u: float) -> str:
    return f"{number_text(p)} parameters, {number_text(d)} tokens, {money_text(c)}/h, {100 * u:g} % MFU"


def _point_cases(params: Params, rng: Random) -> list[Case]:
    run = tuple(params[name] for name in ("params", "tokens", "flops", "usd_per_hour", "mfu"))
    peaks = (312e12, 989e12, 2250e12)
    work = logarithmic(1e8, 1e12), logarithmic(1e10, 3e13)
    others = draw_rows(rng, 20, *work, peaks, (0.8, 1.99, 2, 3.5, 12.0), rounded(0.05, 0.9, 3))
    work = logarithmic(1e9, 1e12), logarithmic(1e11, 2e13)
    usual = draw_rows(rng, 3, *work, peaks[:2], (1.5, 3.0), rounded(0.2, 0.5, 3))
    ends = [(1e9, 1e10, 989e12, 2.0, 0.01235), (7e10, 1e12, 989e12, 2.0, 0.9), (3e6, 1e8, 312e12, 0.01, 0.3)]
    return [
        shown("the run", "values:saved", 0, [run]),
        plain("saved", 0, "three more runs", usual),
        unseen(rng, "saved", 0, "other runs", [*others, *one_apart(others, right), *ends]),
    ]


JUDGING = Judging(
    shares={"values:saved": 0.4, "generality:saved": 0.6},
    cases=_point_cases,
    verdicts=table(Column("saved", "US dollars", words=_point_words), right=right),
    why="Cost scales as 1/MFU and the number of GPUs cancels: half the GPUs for twice as long are the same GPU-hours. "
    "The slope is cost/MFU per unit, so a point is worth most where the MFU is low. One per cent more MFU always "
    "saves one per cent of the cost (elasticity −1). A whole point saves a little less than the slope says, "
    "because the curve flattens.",
)

ANSWERS = r'''# %% right: worked
asked = params("cost-sensitivity").asked  # leave as is: "point" or "slope": which of the two your variant asks for


def cost_per_mfu_point(params: float, tokens: float, gpu_flops: float, usd_per_hour: float, mfu: float) -> float:
    """US dollars that one percentage point of MFU saves."""

    def cost(reached: float) -> float:
        return 6 * params * tokens / (gpu_flops * reached) / HOUR * usd_per_hour

    return cost(mfu) - cost(mfu + 0.01) if asked == "point" else cost(mfu) / mfu / 100
# %% right: closed form
# ~ cost(mfu) - cost(mfu + 0.01) if asked == "point" else cost(mfu) / mfu / 100
# ~~ ==> cost(mfu) * 0.01 / (mfu + 0.01 if asked == "point" else mfu)
# %% wrong: slope => values
# > the slope at `mfu` and the saving of the next whole point differ, and this is the one not asked for.
# ~ if asked == "point" ==> if asked != "point"
# %% wrong: per unit => values
# > this is per whole unit of MFU; a point is a hundredth.
# ~ cost(mfu) - cost(mfu + 0.01) if asked == "point" else cost(mfu) / mfu / 100 ==> cost(mfu) / mfu
# %% wrong: a point for each hundredth => values per-unit
# ~ cost(mfu) - cost(mfu + 0.01) if asked == "point" else cost(mfu) / mfu / 100
# ~~ ==> 100 * (cost(mfu) - cost(mfu + 0.01)) if asked == "point" else cost(mfu) / mfu
# %% wrong: one per cent of cost => values
# > 1 % *more* MFU saves this; a point is not 1 %.
# ~ cost(mfu) - cost(mfu + 0.01) if asked == "point" else cost(mfu) / mfu / 100 ==> cost(mfu) * 0.01
# %% wrong: one per cent more => values
# > this raises `mfu` by 1 % of itself; a percentage point adds 0.01.
# ~ cost(mfu) - cost(mfu + 0.01) if asked == "point" else cost(mfu) / mfu / 100 ==> cost(mfu) - cost(1.01 * mfu)
# %% wrong: point below => values
# > that is the point below `mfu`.
# ~ cost(mfu) - cost(mfu + 0.01) if asked == "point" else cost(mfu) / mfu / 100 ==> cost(mfu - 0.01) - cost(mfu)
# %% wrong: the cost => values
# > this is the whole cost of the run.
# ~ cost(mfu) - cost(mfu + 0.01) if asked == "point" else cost(mfu) / mfu / 100 ==> cost(mfu)
# %% wrong: seconds as hours => values
# > the price is per hour, the time in seconds.
# ~ / HOUR * ==> *
# %% wrong: days as hours => values
# > the price is per hour, the time in days.
# ~ / HOUR * ==> / HOUR / 24 *
# %% wrong: percent of cost => values
# > this is a share; give dollars.
# ~ return cost(mfu) - cost(mfu + 0.01) if asked == "point" else cost(mfu) / mfu / 100
# ~~ ==> return (1 - cost(mfu + 0.01) / cost(mfu)) if asked == "point" else 0.01 / mfu
# %% wrong: the H100 by heart => values
# > this takes the peak of one device, whatever `gpu_flops` is.
# ~ (gpu_flops * reached) ==> (989e12 * reached)
# %% wrong: the example by heart => values only-the-example
# ~ cost(mfu) - cost(mfu + 0.01) if asked == "point" else cost(mfu) / mfu / 100 ==> 215_800
# %% wrong: asks the library => raised
# ~ cost(mfu) - cost(mfu + 0.01) if asked == "point" else cost(mfu) / mfu / 100
# ~~ ==> compute.points_of_mfu_usd(cost(mfu), mfu)
# %% wrong: GPUs cost half a dollar at least => generality -
# ~ / HOUR * usd_per_hour ==> / HOUR * max(usd_per_hour, 0.5)
'''
