"""Chapter 20's pictures and tables of data, validation and energy."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from IPython.display import Markdown

from course_chapters.ch20 import energy, validation
from course_chapters.ch20.data_mixture import Mixture, Sample, share
from course_chapters.ch20.prefetch import depth_for, play
from course_chapters.table import columns
from course_lib.draw.explore import Explorer, explore, menu, slider
from course_lib.draw.explore import play as film
from course_lib.draw.palette import BLUE, EMPTY, INK, ORANGE, SKY, SOFT, VERMILION, YELLOW, ink_on
from course_lib.draw.sheets import Plot, Sheet
from course_lib.estimate import compute, facts
from course_lib.estimate.running_plan import CHECKPOINT_BYTES, DEVICE, EXACT, GPUS, MFU, PARAMS, SEQ, TOKENS
from course_lib.estimate.units import DAY, HOUR, MiB, bytes_text, count_text, duration_text, number_text, percent_text
from course_runs import evidence

TOKEN_BYTES, BLOCK = 2, 4 * MiB  # of the shards; of a read from an object store, a choice
STEP = 1.0  # s of a step in the picture of the buffer
READS = 24
MIXTURE = Mixture({"web": 60, "code": 30, "math": 20}, {"web": 0.5, "code": 0.3125, "math": 0.1875}, seed=1)
HUES = {"web": SKY, "code": ORANGE, "math": YELLOW}
BATCH, BEFORE, STOP, STEPS = 12, 4, 3, 6
LOADERS = ("one stream", "a list for each rank")


def tokens_per_second() -> float:
    """Of the course's plan on all its GPUs."""
    return 1 / compute.train_seconds(PARAMS, 1, float(facts.device(DEVICE).dense_flops), MFU, GPUS)


def bandwidth_table() -> Markdown:
    """What the plan reads per second: tokens, tokens read at random from large blocks, and a checkpoint."""
    tokens, sample = tokens_per_second(), TOKEN_BYTES * (SEQ + 1)
    checkpoint = CHECKPOINT_BYTES * EXACT
    rows = [
        ("tokens of 2 bytes, in the order of the shards", TOKEN_BYTES * tokens),
        (f"the same, each sample from a block of {bytes_text(BLOCK)} of its own", BLOCK * tokens / SEQ),
        (f"a checkpoint of {bytes_text(checkpoint)}, within a minute", checkpoint / 60),
    ]
    said = f"{tokens:,.0f} tokens/s on all {GPUS} GPUs; a sample of {SEQ:,} tokens has {bytes_text(sample)}"
    return columns("what is read | bandwidth", [(what, f"{bytes_text(rate)}/s") for what, rate in rows], said)


# --- the buffer


def draw_prefetch(depth: int = 2, read: float = 0.7, pause: float = 2.0) -> Sheet:
    """Reads of the store and steps of the training, with one read that pauses."""
    seconds = [read + (pause if number == 8 else 0) for number in range(READS)]
    found, sheet = play(seconds, STEP, depth), Sheet(2.7)
    longest = play([1.2 + (4.0 if number == 8 else 0) for number in range(READS)], STEP, 0)
    later = sum(found.waits[1:])
    try:
        need = f"A full buffer of {count_text(depth_for(read, pause, STEP), 'batch', 'batches')} hides the pause"
    except ValueError:
        need = "No buffer hides a store that is slower than the step"
    ahead = f"{count_text(depth, 'batch', 'batches')} ahead" if depth else "nothing read ahead"
    title = f"{ahead.capitalize()}: after the first batch, the steps wait {later:.1f} s"
    sheet.head(title, f"A step takes {STEP:g} s, a read {read:g} s, one read {pause:g} s longer. {need}.")
    panel = Plot(0.75, 0.75, 6.4, 1.2, (0, longest.steps[-1][1]), (2, 0))
    panel.frame(sheet, {at: str(at) for at in range(0, int(longest.steps[-1][1]) + 1, 10)}, {}, "seconds")
    for row, name in enumerate(("store", "steps")):
        sheet.text(0.68, float(panel.at(0, row + 0.5)[1]), name, ha="right", va="center")
    panel.bars(sheet, [(*found.reads[8], 0.1, 0.9)], VERMILION, edge=SOFT)
    panel.bars(sheet, [(*each, 0.1, 0.9) for at, each in enumerate(found.reads) if at != 8], SKY, edge=SOFT)
    ends = [0.0, *(end for _, end in found.steps)]
    panel.bars(sheet, [(end, begun, 1.1, 1.9) for end, (begun, _) in zip(ends, found.steps, strict=False)], EMPTY)
    panel.bars(sheet, [(*each, 1.1, 1.9) for each in found.steps], BLUE, edge=SOFT)
    sheet.keys(0.3, 0.18, {"reads a batch": SKY, "reads, with a pause": VERMILION, "step": BLUE, "waits": EMPTY})
    sheet.alt = (
        f"{title}. {READS} batches; a step takes {STEP:g} s, a read {read:g} s, the ninth {pause:g} s more. {need}."
    )
    return sheet


def prefetch() -> Explorer:
    """Change the buffer, the store and its pause."""
    return explore(
        draw_prefetch,
        depth=slider((0, 1, 2, 3, 4, 6), 1, label="batches ahead"),
        read=slider((0.3, 0.7, 0.9, 1.2), 0.7, label="a read", text=lambda each: f"{each:g} s"),
        pause=slider((0.0, 1.0, 2.0, 4.0), 2.0, label="the pause", text=lambda each: f"{each:g} s"),
    )


# --- the stream and its resume


@lru_cache
def stream() -> list[Sample]:
    """The samples of all steps, in the global order."""
    return MIXTURE.batch(MIXTURE.start, STEPS * BATCH)[0]


def reads_of(loader: str, after: int) -> list[list[list[int]]]:
    """Places in the global order that each rank reads in each step: [step][rank]. Half of the steps come after a
    resume on `after` ranks.

    With "a list for each rank", rank r of R owns every R-th sample and keeps its own place in that list, also where R
    has changed.
    """
    found, places, per_rank = [], list(range(STEPS * BATCH)), [0] * max(BEFORE, after)
    for step in range(STEPS):
        ranks = BEFORE if step < STOP else after
        if loader == LOADERS[0]:
            batch = places[step * BATCH : (step + 1) * BATCH]
            found.append([share(batch, rank, ranks) for rank in range(ranks)])
            continue
        row = []
        for rank in range(ranks):
            own, first = places[rank::ranks], per_rank[rank]
            row.append(own[first : first + BATCH // ranks])
            per_rank[rank] += BATCH // ranks
        found.append(row)
    return found


def draw_stream(step: int = STEPS, after: int = 2, loader: str = LOADERS[0]) -> Sheet:
    """The samples of the stream in rows of a step; a number is the rank that read it, a second one reads it again."""
    sheet, done = Sheet(3.7), reads_of(loader, after)[:step]
    readers: dict[int, list[int]] = {}
    for row in done:
        for rank, places in enumerate(row):
            for place in places:
                readers.setdefault(place, []).append(rank)
    twice = sum(len(each) > 1 for each in readers.values())
    never = sum(place not in readers for place in range(step * BATCH))
    ranks = BEFORE if step <= STOP else after
    title = f"After {count_text(step, 'step')}: {twice} samples read twice, {never} of the first {step * BATCH} never"
    said = f"{BEFORE} ranks for {STOP} steps, then {after}. Now {ranks} ranks read; the numbers are theirs."
    sheet.head(title, f"{loader.capitalize()}; {said}")
    panel = Plot(0.95, 0.65, 6.1, 2.35, (0, BATCH), (STEPS, 0))
    for place, (name, _) in enumerate(stream()):
        line, column = divmod(place, BATCH)
        got = readers.get(place, [])
        fill = EMPTY if not got else HUES[name]
        box = [(column + 0.04, column + 0.96, line + 0.1, line + 0.9)]
        panel.bars(sheet, box, fill, edge=VERMILION if len(got) > 1 else SOFT, thick=2.0 if len(got) > 1 else 0.5)
        x, y = panel.at(column + 0.5, line + 0.5)
        words = " ".join(map(str, got)) if got else name
        sheet.text(float(x), float(y), words, ha="center", va="center", ink=ink_on(fill) if got else SOFT)
    for line in range(STEPS):
        sheet.text(0.85, float(panel.at(0, line + 0.5)[1]), f"step {line + 1}", ha="right", va="center")
    y = float(panel.at(0, STOP)[1])
    sheet.lines([[(0.3, y), (7.05, y)]], INK, 1.2, dashed=True, order=4)
    sheet.keys(
        0.3, 0.3, {**{f"read, {name}": hue for name, hue in HUES.items()}, "not read": EMPTY, "twice": VERMILION}
    )
    sheet.alt = f"{title}. The loader keeps {loader}; {BEFORE} ranks stop after {STOP} steps, and {after} resume."
    return sheet


def resume_film() -> Explorer:
    """Play the steps; change the ranks after the resume, and what the loader remembers."""
    return explore(
        draw_stream,
        step=film(range(1, STEPS + 1), STEPS, label="step", interval=700),
        after=menu((2, 3, 6), 3, label="ranks after the resume"),
        loader=menu(LOADERS, LOADERS[1], label="the loader keeps"),
    )


# --- validation

STEP_SECONDS, CHECK = 8.0, 120.0  # of the picture: a step, a validation
EVERY = [round(10 ** (1 + at / 24)) for at in range(61)]  # 10 to 3,162 steps


def draw_cadence(between: float = 3.0, needed: int = 1) -> Sheet:
    """What validations and late reports lose by the steps between validations; dots are drawn faults."""
    apart, often, sheet = between * DAY, count_text(between, "day"), Sheet(3.4)
    best = validation.best_every(STEP_SECONDS, CHECK, apart, needed)
    lost = [validation.lost_share(every, STEP_SECONDS, CHECK, apart, needed) for every in EVERY]
    checks = [validation.time_share(every, STEP_SECONDS, CHECK) for every in EVERY]
    late = [validation.mean_delay(every, STEP_SECONDS, CHECK, needed) / apart for every in EVERY]
    least = validation.lost_share(best, STEP_SECONDS, CHECK, apart, needed)
    title = f"Every {best:,} steps lose least: {percent_text(least, 2)} of the time"
    waits = duration_text(validation.mean_delay(best, STEP_SECONDS, CHECK, needed), 2)
    sheet.head(
        title, f"A fault every {often}, seen {count_text(needed, 'time')}; its report comes {waits} late on average."
    )
    top = 0.2
    panel = Plot(0.85, 0.95, 6.2, 1.75, (1, math.log10(EVERY[-1])), (0, top))
    panel.frame(
        sheet,
        {math.log10(at): f"{at:,}" for at in (10, 30, 100, 300, 1000, 3000)},
        {at / 100: f"{at} %" for at in (0, 5, 10, 15, 20)},
        "steps between validations",
    )
    for values, hue, dashed in ((checks, SKY, True), (late, ORANGE, True), (lost, BLUE, False)):
        seen = [(math.log10(every), value) for every, value in zip(EVERY, values, strict=True) if value <= top]
        panel.line(sheet, [x for x, _ in seen], [y for _, y in seen], hue, dashed=dashed)
    for every in (30, 100, 300, 1000):
        delays = validation.drawn_delays(every, STEP_SECONDS, CHECK, needed, draws=400)
        drawn = validation.time_share(every, STEP_SECONDS, CHECK) + sum(delays) / len(delays) / apart
        if drawn <= top:
            panel.dot(sheet, math.log10(every), drawn, size=5.0)
    panel.dot(sheet, math.log10(best), least, VERMILION, ring=True, size=10)
    keys = {"validations": SKY, "late reports": ORANGE, "both": BLUE, "both, drawn": INK, "least": VERMILION}
    sheet.keys(0.3, 0.22, keys)
    sheet.alt = f"{title}, at a step of {STEP_SECONDS:g} s, a validation of {CHECK:g} s and a fault every {often}."
    return sheet


def cadence() -> Explorer:
    """Change how often faults come, and how many validations must agree."""
    return explore(
        draw_cadence,
        between=slider((0.5, 1.0, 3.0, 10.0), 3.0, label="a fault every", text=lambda each: count_text(each, "day")),
        needed=slider((1, 2, 3), 1, label="validations that agree"),
    )


# --- energy


@dataclass(frozen=True, slots=True)
class Training:
    """A published training, with each GPU at its thermal design power."""

    name: str
    hours: float  # GPU-hours
    tonnes: float  # of CO₂ equivalent, location-based
    watts: float  # of a GPU

    @property
    def kwh(self) -> float:
        """Energy of the GPUs alone."""
        return energy.energy_kwh(1, self.hours * HOUR, self.watts)

    @property
    def grams(self) -> float:
        """Grams of CO₂ equivalent per kWh that both imply."""
        return energy.intensity(self.tonnes, self.kwh)


def published_energy() -> Sequence[Training]:
    """BLOOM, Llama 2 70B and Llama 3.1 405B, in the order of their years."""

    def training(name: str, hours: float, tonnes: str, device: str) -> Training:
        return Training(name, hours, facts.claim(tonnes).value, float(facts.device(device).power))

    return [
        training("BLOOM", facts.claim("bloom-hours").value, "bloom-co2", "A100 SXM 80GB"),
        training("Llama 2 70B", facts.claim("llama2-70b-hours").value, "llama2-70b-co2", "A100 SXM 80GB"),
        training("Llama 3.1 405B", float(facts.run("Llama 3.1 405B").device_hours), "llama31-405b-co2", "H100 SXM"),
    ]


def energy_table() -> Markdown:
    """Published emissions, the energy of the GPUs, and the intensity that both imply."""
    rows = [
        (
            each.name,
            f"{each.hours:,.0f}",
            f"{each.kwh / 1000:,.0f} MWh",
            f"{number_text(each.tonnes)} t",
            f"{each.grams:.0f} g/kWh",
        )
        for each in published_energy()
    ]
    return columns(
        "training | GPU-hours | energy of the GPUs | CO₂eq as published | implies",
        rows,
        "each GPU at its thermal design power; location-based emissions",
    )


def plan_energy_table() -> Markdown:
    """The plan's energy with what each boundary adds, and its carbon on two grids."""
    seconds, watts = TOKENS / tokens_per_second(), float(facts.device(DEVICE).power)
    bloom, *_, llama = published_energy()
    rows = []
    for name, each, pue in (
        ("GPUs alone", watts, 1.0),
        ("their servers", energy.WATTS_OF_SERVER, 1.0),
        ("and the building", energy.WATTS_OF_SERVER, energy.PUE),
    ):
        kwh = energy.energy_kwh(GPUS, seconds, each, pue)
        tonnes = (energy.carbon_tonnes(kwh, training.grams) for training in (bloom, llama))
        rows.append(
            (
                name,
                f"{each:,.0f} W",
                f"{pue:g}",
                f"{kwh / 1000:,.0f} MWh",
                *(f"{number_text(one, 2)} t" for one in tonnes),
            )
        )
    hours = compute.device_hours(seconds, GPUS) / 1e6
    said = f"{hours:.3g} million GPU-hours, on few GPUs or on many; intensities of BLOOM's and Llama 3.1's trainings"
    return columns("what is counted | of each GPU | PUE | energy | on BLOOM's grid | on Llama 3.1's", rows, said)


# --- the recorded run


def run_table() -> Markdown:
    """Waits of `course run data` in the newest evidence, one's own before the recorded, beside the prediction."""
    _, _, content = next(evidence.found("data"))
    found, said, setup = content["measured"], content["predicted"], content["setup"]
    rows = [
        (name, duration_text(said[key], 2), duration_text(found[key], 2))
        for name, key in (("nothing read ahead", "wait_without"), (f"{setup['depth']} batches ahead", "wait_with"))
    ]
    told = (
        f"{setup['before']} ranks, then {setup['after']}; a step computes for "
        f"{duration_text(found['step_seconds'], 2)}; "
        f"the losses differ from those of one process by at most {number_text(found['largest_difference'], 2)}"
    )
    return columns("buffer | a step waits, predicted | measured", rows, told)
