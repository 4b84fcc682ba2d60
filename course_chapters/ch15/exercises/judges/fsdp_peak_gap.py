from course_grader.judging import Case, Judging, Params, Random, Worked, generality, hidden, shown
from course_grader.judging.per_row import Breakdown, one_verdict, table

PEAK = Breakdown(
    "peak",
    "bytes",
    words=lambda j: f"{len(j['units'])} units, {j['ranks']} ranks, width {j['width']}, reshard={j['reshard']}",
)
Job = dict[str, object]  # numbers, lists of numbers, and one bool
UNITS, ACTIVATIONS, WORK = [each * 10**6 for each in (2, 3, 9, 6)], [8.5e6, 6.1e6, 9.25e6, 7.1e6], [1e6, 3e6, 30e6, 2e6]
MIXED: Job = {"units": UNITS, "rest": 2_500_000, "ranks": 4, "width": 2, "reshard": True}
MIXED |= {"activations": ACTIVATIONS, "work": WORK}


def job(rng: Random, **wish: object) -> tuple[Job]:
    """A job whose units differ; some have many activations, and some nearly none."""
    count = rng.randrange(2, 9)
    units, much = [rng.randrange(10, 400) * 100_000 for _ in range(count)], rng.choice((1e-3, 1, 4))
    made = {"units": units, "rest": rng.randrange(0, 900) * 10_000, "ranks": rng.choice((2, 3, 4, 8, 64))}
    made |= {"width": rng.choice((2, 4)), "reshard": rng.random() < 0.6}
    made["activations"] = [round(much * unit * rng.uniform(1, 4)) for unit in units]
    return ({**made, "work": [round(unit * rng.uniform(0, 2)) for unit in units], **wish},)


def _cases(params: Params, rng: Random) -> list[Case]:
    both = (True, False)
    other, drawn = [job(rng, width=2, reshard=reshard) for reshard in both], [job(rng) for _ in range(25)]
    changes: list[Job] = [{}, {"reshard": False}, {"ranks": 1}, {"rest": 10**6}, {"width": 4}]
    changes += [{"units": UNITS[::-1]}, {"activations": ACTIVATIONS[::-1]}, {"work": WORK[::-1]}]
    one = {"units": [7_000_000], "activations": [5e6], "work": [1e6]}
    return [
        shown("the recorded runs", "values:recorded", 0, [(one,) for one in params["jobs"]]),
        shown("mixed precision, units that differ", "values:mixed", 0, [({**MIXED, "reshard": how},) for how in both]),
        hidden("mixed precision, other units", "values:mixed", 0, other),
        generality("jobs", 0, "other jobs", drawn),
        generality("jobs", 0, "jobs that differ in one thing", [({**MIXED, **change},) for change in changes]),
        generality("jobs", 0, "one unit", [job(rng, **one, reshard=reshard) for reshard in both]),
    ]


JUDGING = Judging(
    shares={"values:recorded": 0.4, "values:mixed": 0.2, "generality:jobs": 0.4},
    cases=_cases,
    verdicts=one_verdict(table(PEAK, right=Worked("fsdp-peak-gap"))),
    why="""A peak is one moment, and the parts are not largest at the same one. Where activations dominate, the peak is
the beginning of the backward pass, when no gradients exist; where state dominates, it is the end. However many ranks
share state and gradients, two units, one whole gradient and a unit's work space remain.""",
    pytorch="""`torch.cuda.max_memory_allocated()` gives the peak, and `torch.cuda.memory._record_memory_history()`
shows what was there; `fully_shard(..., reshard_after_forward=False)` keeps units gathered.""",
)

ANSWERS = r'''# %% right: worked
def fsdp_peak(job: dict) -> dict[str, float]:
    """Bytes of one rank at the fullest moment of the backward pass, by part."""
    units, ranks, width = job["units"], job["ranks"], job["width"]

    def during(u: int) -> dict[str, float]:
        """What the rank holds while unit u's backward runs."""
        first = max(u - 1, 0) if job["reshard"] else 0  # unit u - 1 is already on its way
        return {
            "state": (4 + 8) * (sum(units) + job["rest"]) / ranks,
            "gradients": 4 * sum(units[u + 1 :]) / ranks,
            "gathered": width * (sum(units[first : u + 1]) + job["rest"]),
            "whole gradient": width * units[u],
            "activations": sum(job["activations"][: u + 1]),
            "work": job["work"][u],
        }

    return max((during(u) for u in range(len(units))), key=lambda parts: sum(parts.values()))
# %% right: from the last unit back
# ~ (4 + 8) * (sum(units) + job["rest"]) / ranks ==> (4 / ranks + 8 / ranks) * (sum(units) + job["rest"])
# ~ sum(units[first : u + 1]) + job["rest"]
# ~~ ==> job["rest"] + (sum(units[max(u - 1, 0) : u + 1]) if job["reshard"] else sum(units) - sum(units[u + 1 :]))
# ~ for u in range(len(units))), key ==> for u in reversed(range(len(units)))), key
# %% wrong: most of each => values
# > this is the largest value that this part ever has; return the parts of **one** moment.
# ~ return max((during(u) for u in range(len(units))), key=lambda parts: sum(parts.values()))
# ~~ ==> return {name: max(during(u)[name] for u in range(len(units))) for name in during(0)}
# %% wrong: always the last => values
# > this is the moment of the last unit's backward; another moment is fuller here.
# ~ max((during(u) for u in range(len(units))), key=lambda parts: sum(parts.values())) ==> during(len(units) - 1)
# %% wrong: always the first => values
# > this is the moment of the first unit's backward; another moment is fuller here.
# ~ max((during(u) for u in range(len(units))), key=lambda parts: sum(parts.values())) ==> during(0)
# %% wrong: one number => values one-number
# ~ max((during(u) for u in range(len(units))), key=lambda parts: sum(parts.values()))
# ~~ ==> max(sum(during(u).values()) for u in range(len(units)))
# %% wrong: not shared out => values
# > this is the sum over all ranks; one rank holds its share.
# ~ (sum(units) + job["rest"]) / ranks ==> (sum(units) + job["rest"])
# ~ (units[u + 1 :]) / ranks ==> (units[u + 1 :])
# %% wrong: state without rest => values
# > parameters outside the units are sharded too, and they have moments.
# ~ (sum(units) + job["rest"]) ==> sum(units)
# %% wrong: state with gradients => values
# > gradients are a part of their own; state has the weights and moments.
# ~ (4 + 8) ==> (4 + 4 + 8)
# %% wrong: state narrow => values
# > mixed precision keeps the sharded weights in 4 bytes; `width` applies to what is gathered.
# ~ (4 + 8) ==> (width + 8)
# %% wrong: gradients narrow => values
# > a rank keeps its share of the gradients in 4 bytes.
# ~ "gradients": 4 ==> "gradients": width
# %% wrong: own gradient done => values
# > unit u's own gradient is not reduced yet; only those of later units are.
# ~ sum(units[u + 1 :]) ==> sum(units[u:])
# %% wrong: all gradients => values
# > units whose backward is still to come have no gradients yet.
# ~ sum(units[u + 1 :]) ==> sum(units)
# %% wrong: gradients of the wrong end => values
# > the backward pass begins with the last unit: the units after u are done.
# ~ sum(units[u + 1 :]) ==> sum(units[:u])
# %% wrong: one gathered => values
# > the next unit in turn is already on its way.
# ~ max(u - 1, 0) ==> u
# %% wrong: two of the largest => values
# > units differ in size: count those that are gathered at this moment.
# ~ sum(units[first : u + 1]) + job ==> (2 * max(units) if job["reshard"] else sum(units[: u + 1])) + job
# %% wrong: wrong neighbor => values
# > the backward pass goes from the last unit to the first: which unit is next?
# ~ sum(units[first : u + 1]) + job ==> sum(units[u : u + 2] if job["reshard"] else units[: u + 1]) + job
# %% wrong: not kept => values
# > without `reshard`, all units whose backward is still to come remain gathered.
# ~ (u - 1, 0) if job["reshard"] else 0 ==> (u - 1, 0)
# %% wrong: kept => values
# > with `reshard`, only unit u and the next one in turn are gathered.
# ~ max(u - 1, 0) if job["reshard"] else 0 ==> 0
# %% wrong: rest not gathered => values
# > the rest is gathered all the time.
# ~ (sum(units[first : u + 1]) + job["rest"]) ==> sum(units[first : u + 1])
# %% wrong: always wide => values
# > numbers of the arithmetic have `width` bytes each, whole gradients too.
# ~ "gathered": width ==> "gathered": 4
# ~ "whole gradient": width ==> "whole gradient": 4
# %% wrong: share of gradient => values
# > before the reduction, every rank holds a unit's whole gradient.
# ~ width * units[u], ==> width * units[u] / ranks,
# %% wrong: the first unit's gradient => values
# > this is the gradient of the first unit; count that of the unit whose backward runs.
# ~ width * units[u], ==> width * units[0],
# %% wrong: activations of done => values
# > the backward pass frees activations: those of later units are gone.
# ~ sum(job["activations"][: u + 1]) ==> sum(job["activations"][u:])
# %% wrong: all activations => values
# > the backward pass frees activations: those of later units are gone.
# ~ sum(job["activations"][: u + 1]) ==> sum(job["activations"])
# %% wrong: activations of one => values
# > the units whose backward is still to come hold their activations too.
# ~ sum(job["activations"][: u + 1]) ==> job["activations"][u]
# %% wrong: all work => values
# > work space is freed after each unit: only one unit's exists at a time.
# ~ job["work"][u] ==> sum(job["work"])
'''
