import math
from collections.abc import Mapping

from course_chapters.ch15.exercises.judges.trainings import SEEDS, SMOKE, Training, shipped
from course_grader.judging import Case, Judging, Outcome, Params, Random, Verdict, hidden, judged, shown
from course_grader.judging.diagnoses import diagnosis_fault, numbered

LOOK: Mapping[str, str] = {
    "sound": "It is repeatable, all of it moves, and fresh text improves, though not below the floor.",
    "explodes": "Look at every training loss, not only at the last.",
    "not repeatable": "Compare everything that the two runs return, without rounding.",
    "frozen": "Look at what moved, parameter by parameter.",
    "leak": "Compare the losses of fresh text with `floor`: how could a model know so much?",
    "memorizes": "Compare what happened to the training loss with what happened to fresh text.",
    "learns nothing": "Is the difference of `before` and `after` larger than the noise?",
}


def _up(values: list[float], place: int) -> list[float]:
    """The same numbers, one of them larger by its last bit."""
    return [math.nextafter(each, math.inf) if at == place else each for at, each in enumerate(values)]


def moved_programs(kept: Mapping[str, list[Training]], rng: Random) -> list[tuple[list[Training], str]]:
    """Two faults at once, and numbers that are nearly equal; `kept` has the shipped runs by fault."""
    sound, leak, frozen, explodes = (kept[fault][0] for fault in ("sound", "leak", "frozen block", "explodes"))
    some, moved = rng.choice(sorted(sound["moved"])), sound["moved"]
    again = [
        sound | {"losses": _up(sound["losses"], rng.randrange(5, 30))},
        sound | {"after": _up(sound["after"], rng.randrange(8))},
        sound | {"before": _up(sound["before"], rng.randrange(8))},
        sound | {"moved": moved | {some: math.nextafter(moved[some], math.inf)}},
    ]
    return [
        *(([sound, other], "not repeatable") for other in again),
        ([sound | {"moved": moved | {some: 1e-12}}], "sound"),
        ([frozen, frozen | {"after": _up(frozen["after"], 2)}], "not repeatable"),
        ([explodes, explodes | {"losses": _up(explodes["losses"], 1)}], "explodes"),
        ([leak | {"moved": leak["moved"] | {some: 0.0}}], "frozen"),
    ]


LIMIT = 1.5  # the floor of the programs at a limit


def programs_at_limits(run: Training) -> list[tuple[list[Training], str]]:
    """Exactly at a limit, and just beyond it. Every number is a binary fraction, so no sum is rounded."""
    unit = 2.0**-6
    spread = [unit * each for each in (-1.5, -1.0, -0.5, 0.0, 0.0, 0.5, 1.0, 1.5)]  # its sample variance is unit ** 2
    noise = 1.5 * unit  # of two such sets
    means = (-3 * noise, -noise, 0.0, unit / 16, 1.0)  # from the floor
    leaking, low, middle, above, high = ([LIMIT + mean + each for each in spread] for mean in means)
    fours = [4.0] * (len(run["losses"]) - 3)
    made = [
        (high, low, [4.0, 8.0, *fours, 2.0], "sound"),
        (above, low, [4.0, 3.5, *fours, 1.0], "sound"),
        (middle, low, [4.0, 4.0, *fours, 2.0], "learns nothing"),
        (middle, low, [4.0, 3.5, *fours[1:], 1.0, 2.0], "learns nothing"),
        (middle, low, [4.0, 3.5, *fours, 1.875], "memorizes"),
        (leaking, leaking, [4.0, 3.5, *fours, 1.0], "leak"),
        (middle, low, [4.0, 8.5, *fours, 2.0], "explodes"),
        (high, low, [4.0, -math.inf, *fours, 2.0], "explodes"),
    ]
    return [([run | {"before": before, "after": after, "losses": each}], word) for before, after, each, word in made]


def _cases(params: Params, rng: Random) -> list[Case]:
    pool, others = params["pool"], [seed for seed in SEEDS if seed != params["pool"]]
    kept, floors = shipped()["smoke"], shipped()["floors"]

    def program(fault: str, seed: int) -> tuple[list[Training], float, str]:
        return kept[f"{fault}/{seed}"], floors[seed], SMOKE[fault]  # one run stands for two that are equal

    drawn = [(fault, rng.choice(others)) for fault in SMOKE if fault != "explodes"]
    drawn += [("explodes", seed) for seed in others]  # one of them ends where it began
    unseen = [program(*each) for each in rng.sample(drawn, len(drawn))]
    seed = rng.choice(others)
    moved = moved_programs({fault: kept[f"{fault}/{seed}"] for fault in SMOKE}, rng)
    unseen += [(runs, floors[seed], word) for runs, word in moved]
    unseen += [(runs, LIMIT, word) for runs, word in programs_at_limits(kept[f"sound/{seed}"][0])]
    example = [program(fault, pool) for fault in ("sound", "leak", "unseeded")]
    return [
        *numbered(shown, "program {}", "values:shown", example),
        *numbered(hidden, "another program ({})", "generality:unseen", unseen),
    ]


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    word, runs = outcome.value["word"], outcome.value["runs"]
    dear = "too-many-runs", f"{case.name}: you ran one program {runs} times; two runs are enough."
    fault = diagnosis_fault(case.name, word, case.secret, "sound", LOOK)
    return judged(case, fault, ("cost", "runs", dear if runs > 2 else None))


JUDGING = Judging(
    shares={"values:shown": 0.3, "cost:runs": 0.1, "generality:unseen": 0.6},
    measured_by_worker=("cost:runs",),
    cases=_cases,
    verdicts=_verdicts,
    why="""A falling loss is the weakest of the signs: it falls when labels leak, when the model memorizes one batch,
when half of the model is frozen, and when no two runs agree. Each fault has its own sign: the entropy, fresh text, what
moved, and a second run compared bit by bit.""",
    pytorch="""`torch.use_deterministic_algorithms(True)` makes sums repeatable or names the operation that is not;
seeds are per process: call `torch.manual_seed` on every rank.""",
)

ANSWERS = r'''from statistics import mean, pvariance, variance
# %% right: worked
def smoke(run, floor: float) -> str:
    """Whether a training is sound, or what is wrong with it, in one of the words above. Budget: two runs."""
    first, again = run(), run()
    losses, before, after = first["losses"], mean(first["before"]), mean(first["after"])
    if not all(map(math.isfinite, losses)) or max(losses) > 2 * losses[0]:
        return "explodes"
    noise = 3 * math.sqrt((variance(first["before"]) + variance(first["after"])) / len(first["after"]))
    if first != again:
        return "not repeatable"
    if not all(first["moved"].values()):
        return "frozen"
    if after < floor - noise:
        return "leak"
    if before - after <= noise:
        return "memorizes" if losses[-1] < losses[0] / 2 else "learns nothing"
    return "sound"
# %% right: repeats are compared as text, other comparisons
# ~ not all(map(math.isfinite, losses)) or max(losses) > 2 * losses[0]
# ~~ ==> any(not -math.inf < x <= 2 * losses[0] for x in losses)
# ~ first != again ==> repr(first) != repr(again)
# ~ not all(first["moved"].values()) ==> 0.0 in first["moved"].values()
# ~ after < floor - noise ==> floor - after > noise
# %% wrong: only whether anything moved => generality unnoticed
# ~ if not all(first["moved"].values()): ==> if not any(first["moved"].values()):
# %% wrong: no question of a leak => values unnoticed
# ~ after < floor - noise ==> False
# %% wrong: whether the numbers are numbers is not asked => generality not-explodes
# ~ not all(map(math.isfinite, losses)) or max(losses) > 2 * losses[0] ==> False
# %% wrong: training loss in place of fresh text => generality unnoticed
# ~ before - after ==> losses[0] - losses[-1]
# %% wrong: what is learnt by heart is no learning => generality not-memorizes
# ~ return "memorizes" if losses[-1] < losses[0] / 2 else "learns nothing" ==> return "learns nothing"
# %% wrong: five runs, to be sure => values raised
# ~ again = run(), run() ==> again, *_ = [run() for _ in range(5)]
# %% wrong: three runs => cost too-many-runs
# ~ again = run ==> again, _ = run(), run
# %% wrong: a yes or no => values no-such-word  from: worked
def smoke(run, floor):
    return run() == run()
# %% wrong: what moved is not compared => generality unnoticed
# ~ first != again ==> any(first[name] != again[name] for name in ("losses", "before", "after"))
# %% wrong: repeats before explosions => generality not-explodes
#       losses, before, after = first["losses"], mean(first["before"]), mean(first["after"])
# +     if first != again:
# +         return "not repeatable"
# %% wrong: what stands still before repeats => generality not-not-repeatable
# ~ if first != again: ==> if first != again and all(first["moved"].values()):
# %% wrong: the leak before what stands still => generality not-frozen
# ~ if not all(first["moved"].values()): ==> if after >= floor - noise and not all(first["moved"].values()):
# %% wrong: learning by heart before the leak => generality not-leak
# ~ after < floor - noise ==> after < floor - noise and (before - after > noise or losses[-1] >= losses[0] / 2)
# %% wrong: the variance of a population => generality false-alarm
# ~ variance(first["before"]) + variance(first["after"]) ==> pvariance(first["before"]) + pvariance(first["after"])
# %% wrong: any loss below the floor is a leak => generality false-alarm
# ~ floor - noise ==> floor
# %% half: right, with three runs => 4.5  from: three runs
# %% wrong: minus infinity is a loss => generality unnoticed
# ~ not all(map(math.isfinite, losses)) or max(losses) > 2 * losses[0] ==> any(not x <= 2 * losses[0] for x in losses)
'''
