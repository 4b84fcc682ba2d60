"""Tokens on their way through a mixture of experts in pictures: the memory of all ranks before and after one step.

`python -m course_chapters.ch12.moe_film` writes the chapter's copy of one of them again.
"""

from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from course_chapters.ch12.moe_run import EXPERTS, LOCAL, POPULAR, RANKS, STAGES, TOKENS, Copy, Journey, record
from course_lib.draw.explore import Explorer, explore, menu, play, slider
from course_lib.draw.palette import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, SKY, SOFT, VERMILION, YELLOW, ink_on
from course_lib.draw.sheets import Sheet
from course_lib.estimate.units import count_text

CHAPTER_COPY = (
    Path(__file__).resolve().parents[2] / "solutions" / "12_expert_parallel" / "figures" / "at_the_experts.svg"
)
HUES = (BLUE, SKY, VERMILION, ORANGE, GREEN, YELLOW, PURPLE, GREY)  # of the experts: two shades for a rank
PLAIN = "#d5dae0"  # of a token that is not routed yet
SORTED, DISPATCHED, BY_EXPERT, COMPUTED, RETURNED, COMBINED, ADDED = range(2, 9)  # stages
WIDTH, WIDE, HIGH = 5.3, 0.42, 0.125  # inches: of the sheet, and of a row in memory
BEFORE, AFTER = 1.42, 3.5  # left edges of the two columns
APART, BETWEEN = 0.03, 0.11  # inches between blocks of rows, and between ranks


class Row(NamedTuple):
    """A copy in a rank's memory, and how far below the first row of all ranks it is."""

    copy: Copy
    rank: int
    down: float  # inches


def rows_of(journey: Journey, stage: int) -> list[Row]:
    """The memory of all ranks at a stage, from the top down."""
    found, down = [], 0.0
    for rank, memory in enumerate(journey.memory[stage]):
        for _, block in groupby(memory, key=lambda copy: _key(stage, copy)):
            for copy in block:
                found.append(Row(copy, rank, down))
                down += HIGH
            down += APART
        down += BETWEEN
    return found


def _key(stage: int, copy: Copy) -> int:
    """What the rows of a block have in common: a rank, or an expert of one rank."""
    if stage in (SORTED, COMBINED):
        return copy.expert // LOCAL
    return copy.expert if stage in (BY_EXPERT, COMPUTED) else copy.token // TOKENS


def _block_words(journey: Journey, stage: int, rank: int, key: int, rows: int) -> str:
    """What a block of rows is; how many cross to or come from another rank is what the meter counts."""
    if stage in (BY_EXPERT, COMPUTED):
        return f"expert {key}: {rows}"
    crossing = journey.rows[stage in (RETURNED, COMBINED)]
    if stage not in (SORTED, RETURNED, DISPATCHED, COMBINED):
        return ""
    if key == rank:
        return f"own: {rows}"
    return f"to {key}: {crossing[rank][key]}" if stage in (SORTED, RETURNED) else f"from {key}: {crossing[key][rank]}"


def draw_journey(step: int = DISPATCHED, top_k: int = 2, routing: str = "even", rank: int = 1) -> Sheet:
    """One step of a recorded layer: every rank's memory before and after it, and a line for each copy of a token."""
    journey, follow = record(top_k, routing), rank * TOKENS + 1
    height = 1.6 + max(rows_of(journey, stage)[-1].down for stage in range(len(STAGES)))
    sheet = Sheet(height, WIDTH)
    title = f"{step + 1} of {len(STAGES)}: {STAGES[step]}"
    more = _more(journey, step)
    sheet.head(title, more)
    after = rows_of(journey, step)
    _column(sheet, journey, step, AFTER, follow)
    if step:
        _column(sheet, journey, step - 1, BEFORE, follow)
        for old in rows_of(journey, step - 1):
            for new in after:
                if _goes_on(old.copy, new.copy):
                    _line(sheet, old, new, old.copy.token == follow)
    sheet.text(0.17, 0.36, "expert", va="center", ink=SOFT)
    sheet.keys(0.72, 0.36, {str(expert): HUES[expert] for expert in range(EXPERTS)}, gap=0.3)
    sheet.text(0.17, 0.12, "Number: the token. Framed: the one that is followed. Counts of rows: metered.", ink=SOFT)
    held = "; ".join(
        f"rank {place}: " + ", ".join(_said(copy) for copy in memory)
        for place, memory in enumerate(journey.memory[step])
    )
    sheet.alt = f"{title}. {more}. {_where(journey, step, follow)} In memory, by token and expert, {held}."
    return sheet


def _goes_on(old: Copy, new: Copy) -> bool:
    """Whether a row of one stage becomes a row of the next: routing makes copies, and adding up makes one of them."""
    return old.token == new.token and (old.expert == new.expert or min(old.expert, new.expert) < 0)


def _said(copy: Copy) -> str:
    return f"{copy.token} for {copy.expert}" if copy.expert >= 0 else str(copy.token)


def _where(journey: Journey, stage: int, token: int) -> str:
    """The places of a token's copies, counted from 0."""
    found = [
        f"place {place} of rank {rank}" + (f" for expert {copy.expert}" if copy.expert >= 0 else "")
        for rank, memory in enumerate(journey.memory[stage])
        for place, copy in enumerate(memory)
        if copy.token == token
    ]
    return f"Token {token} is at {' and at '.join(found)}."


def _more(journey: Journey, stage: int) -> str:
    """What a step does, with counts of the run."""
    crossed = count_text(sum(map(sum, journey.rows[stage == COMBINED])), "row")
    loads = ", ".join(str(len(memory)) for memory in journey.memory[COMPUTED])
    return (
        f"{TOKENS} tokens on each of {RANKS} ranks",
        "One copy of a token for each chosen expert, in its color",
        "One block of rows for each rank: rank r holds experts 2r and 2r + 1",
        f"{crossed} went to other ranks and arrived by source rank",
        "One block of rows for each expert of the rank",
        f"Each expert is called once; rows computed by each rank: {loads}",
        "The second sort is undone: one block for each source again",
        f"{crossed} went back; each is where it was when it left",
        "Each output is weighted and added to its token",
    )[stage]


def _top(sheet: Sheet, down: float) -> float:
    return sheet.height - 0.86 - down


def _column(sheet: Sheet, journey: Journey, stage: int, left: float, follow: int) -> None:
    """The memory of all ranks at a stage, with what its blocks are beside it."""
    outside = left - 0.08 if left == BEFORE else left + WIDE + 0.08
    side = "right" if left == BEFORE else "left"
    sheet.text(left + WIDE / 2, sheet.height - 0.77, "before" if left == BEFORE else "now", ink=SOFT, ha="center")
    for (rank, key), group in groupby(rows_of(journey, stage), key=lambda row: (row.rank, _key(stage, row.copy))):
        rows = list(group)
        top = _top(sheet, rows[0].down)
        words = _block_words(journey, stage, rank, key, len(rows))
        sheet.text(outside, top - HIGH * len(rows) / 2, words, size=7.0, ink=SOFT, ha=side, va="center")
        for row in rows:
            _row(sheet, journey, stage, row, left, row.copy.token == follow)
    for rank, group in groupby(rows_of(journey, stage), key=lambda row: row.rank):
        rows = list(group)
        middle = _top(sheet, (rows[0].down + rows[-1].down + HIGH) / 2)
        sheet.text(
            0.15 if left == BEFORE else WIDTH - 0.15,
            middle,
            f"rank {rank}",
            ha="left" if left == BEFORE else "right",
            va="center",
            bold=True,
        )


def _row(sheet: Sheet, journey: Journey, stage: int, row: Row, left: float, framed: bool) -> None:
    """A row in the color of its expert, or of all experts of its token in the end; a token's number in it."""
    experts = [row.copy.expert] if row.copy.expert >= 0 else []
    if stage == ADDED:
        experts = [copy.expert for memory in journey.memory[1] for copy in memory if copy.token == row.copy.token]
    fills = [HUES[expert] for expert in experts] or [PLAIN]
    top, wide = _top(sheet, row.down), WIDE / len(fills)
    for part, fill in enumerate(fills):
        sheet.boxes([(left + part * wide, left + (part + 1) * wide, top - HIGH + 0.01, top)], fill)
    place = (left + wide / 2, top - HIGH / 2)
    sheet.text(*place, str(row.copy.token), size=7.0, ink=ink_on(fills[0]), ha="center", va="center", bold=framed)
    if framed:
        sheet.boxes([(left, left + WIDE, top - HIGH + 0.01, top)], "none", edge=INK, thick=1.8, order=4)


def _line(sheet: Sheet, old: Row, new: Row, bold: bool) -> None:
    """From where a copy was to where it is."""
    expert = max(old.copy.expert, new.copy.expert)
    ends = [(edge, _top(sheet, row.down) - HIGH / 2) for edge, row in ((BEFORE + WIDE, old), (AFTER, new))]
    sheet.lines([ends], INK if bold else HUES[expert], 2.0 if bold else 1.1, order=3 if bold else 1)


def journey(step: int = DISPATCHED) -> Explorer:
    """Play a layer: copies are sorted, sent, sorted again, computed, and come back the same way."""
    return explore(
        draw_journey,
        step=play(range(len(STAGES)), step, label="step", text=lambda place: str(place + 1), interval=1500),
        top_k=slider((1, 2), 2, label="experts per token", text=str),
        routing=menu(tuple(POPULAR), "even", label="routing"),
        rank=slider(range(RANKS), 1, label="follow token", text=lambda rank: f"{rank * TOKENS + 1}, of rank {rank}"),
    )


def still() -> str:
    """The dispatch, as the chapter shows it first."""
    return draw_journey().svg(outlines=True)


if __name__ == "__main__":
    CHAPTER_COPY.write_text(still(), encoding="utf-8", newline="\n")
