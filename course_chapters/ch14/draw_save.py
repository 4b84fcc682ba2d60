"""The picture of a checkpoint from save to load. All rows share one axis: the bytes of the state, end to end."""

from collections.abc import Mapping, Sequence
from itertools import pairwise, product

from course_chapters.ch14.save_film import DISKS, LAYERS, NEW, OLD, ROLES, Moment, Span, cuts, loaded, saved
from course_lib.draw.explore import Explorer, explore, in_notebook, play, slider, toggle
from course_lib.draw.explorer import Setting
from course_lib.draw.palette import EMPTY, GREY, INK, SHADES, SKY, SOFT, VERMILION, ink_on
from course_lib.draw.sheets import Sheet
from course_lib.estimate.units import bytes_text, count_text

WRITERS, READERS = range(2, 5), range(1, 7)
_LEFT, _WIDTH, _TALL = 1.42, 5.8, 0.27  # inches: where the state begins, how wide it is, and a row's height
_OLD, _MEMORY, _PARTS, _RECORDS, _NEW, _READERS, _KILL, _POWER = 3.98, 3.5, 3.13, 2.76, 2.39, 1.88, 1.2, 0.86
_HOLDS = {"written": 0.3, "synced": 0.6, "durable": 1.0}  # opacity, by what of a file would survive
_INKS = {OLD: GREY, NEW: SKY, 0: VERMILION}  # of the steps that the next start loads


def moments(writers: int, readers: int, fsync: bool) -> tuple[Moment, ...]:
    """The rounds of saving; and those of loading, if the disk keeps what was saved."""
    return saved(writers, fsync)[0] + (loaded(writers, readers)[0] if fsync else ())


def draw_save(moment: int = 0, writers: int = 3, readers: int = 2, fsync: bool = True) -> Sheet:
    """A round of a checkpoint: the files and what of them is safe, what a crash leaves, what the new ranks have."""
    film, sheet, old = moments(writers, readers, fsync), Sheet(4.72), cuts(writers)
    moment = min(moment, len(film) - 1)
    now, whole = film[moment], (0, old[-1])
    _tensors(sheet)
    for step, top, ink in ((OLD, _OLD, _INKS[OLD]), (NEW, _NEW, _INKS[NEW])):
        _file(sheet, now, whole, top, step, "manifest.json", ink)
    for rank, span in enumerate(pairwise(old)):
        _box(sheet, span, _MEMORY, SHADES[rank], f"rank {rank}")
        _file(sheet, now, span, _PARTS, NEW, f"part-{rank}.bin", SHADES[rank])
        _file(sheet, now, span, _RECORDS, NEW, f"part-{rank}.json", SHADES[rank])
    for span in pairwise(cuts(readers)):
        _box(sheet, span, _READERS, EMPTY, "")
    for each in film[:moment]:
        _reads(sheet, each, old)
    _reads(sheet, now, old, now=True)
    for rank, (start, stop) in enumerate(pairwise(cuts(readers))):
        sheet.text(_at((start + stop) / 2), _READERS - _TALL - 0.03, f"rank {rank}", ha="center", va="top")
    _crash(sheet, _KILL, {now.killed: 1}, 1)
    _crash(sheet, _POWER, now.power, DISKS)
    _labels(sheet)
    title = f"{moment}. {now.did}"
    if now.reads:
        title += f", {bytes_text(sum(stop - start for _, (start, stop) in now.reads))} in this round"
    power = ", ".join(f"{_loads(step)} on {count} of {DISKS} possible disks" for step, count in now.power.items())
    more = f"A crash here: after a kill {_loads(now.killed)}, after a power failure {power}."
    plan = f"{count_text(writers, 'rank')} save step {NEW}, and {count_text(readers, 'rank')} will load it."
    sheet.head(title, f"{plan} All rows share one axis: the bytes of the state, tensor after tensor.")
    held = {how: sum(each == how for each in now.files.values()) for how in _HOLDS}
    sheet.alt = f"{title}. {more} Files: {', '.join(f'{count} {how}' for how, count in held.items())}."
    return sheet


def _loads(step: int) -> str:
    return f"step {step} is loaded" if step else "nothing is loaded"


def _at(nbytes: float) -> float:
    return _LEFT + _WIDTH * nbytes / cuts(1)[-1]


def _tensors(sheet: Sheet) -> None:
    """The names of the tensors above the state in memory."""
    start = 0
    for role in ROLES:
        for layer, elements in LAYERS.items():
            stop = start + 4 * elements
            sheet.lines([[(_at(stop), _MEMORY + 0.13), (_at(stop), _MEMORY)]], SOFT, 0.7)
            words = f"{role}, {layer}" if elements > 100 else layer
            sheet.text(_at((start + stop) / 2), _MEMORY + 0.04, words, size=7, ink=SOFT, ha="center")
            start = stop


def _box(sheet: Sheet, span: tuple[float, float], top: float, fill: str, words: str, opacity: float = 1.0) -> None:
    box = (_at(span[0]) + 0.012, _at(span[1]) - 0.012, top - _TALL, top)
    if opacity < 1:
        sheet.boxes([box], EMPTY, order=1)
    sheet.boxes([box], fill, alpha=opacity)
    if words:
        ink = INK if opacity < 1 else ink_on(fill)
        sheet.text((box[0] + box[1]) / 2, top - _TALL / 2, words, ink=ink, ha="center", va="center")


def _file(sheet: Sheet, now: Moment, span: Span, top: float, step: int, name: str, fill: str) -> None:
    """A file, under its own name or, until it is whole, another one."""
    path = f"step-{step:08d}.a/{name}"
    found = next((each for each in (path, f"{path}.part") if each in now.files), None)
    if found is None:
        _box(sheet, span, top, EMPTY, "")
    else:
        _box(sheet, span, top, fill, found.rpartition("/")[2], _HOLDS[now.files[found]])


def _reads(sheet: Sheet, each: Moment, old: Sequence[int], now: bool = False) -> None:
    """What new ranks read in a round, in the color of the rank that wrote it."""
    for _, (start, stop) in each.reads:
        writer = next(rank for rank, end in enumerate(old[1:]) if start < end)
        box = (_at(start) + 0.012, _at(stop) - 0.012, _READERS - _TALL, _READERS)
        sheet.boxes([box], SHADES[writer])
        if now:
            sheet.boxes([box, (*box[:2], _PARTS - _TALL, _PARTS)], "none", edge=VERMILION, thick=1.6, order=3)
            sides = [[(x, _PARTS - _TALL), (x, _READERS)] for x in box[:2]]
            sheet.lines(sides, VERMILION, 1.0, dashed=True, order=3)


def _crash(sheet: Sheet, top: float, found: Mapping[int, int], disks: int) -> None:
    """Which step the next start loads, by the share of the possible disks."""
    at = 0.0
    for step, count in found.items():
        span = (at, at + cuts(1)[-1] * count / disks)
        share = f", {count} of {disks}" if count < disks else ""
        _box(sheet, span, top, _INKS[step], (f"step {step}" if step else "nothing") + (share if count > 1 else ""))
        at = span[1]


def _labels(sheet: Sheet) -> None:
    rows = {
        f"step {OLD}": _OLD,
        "in memory": _MEMORY,
        f"step {NEW}: parts": _PARTS,
        "records": _RECORDS,
        "manifest": _NEW,
        "new ranks": _READERS,
        "killed here": _KILL,
        "power cut here": _POWER,
    }
    for words, top in rows.items():
        sheet.text(_LEFT - 0.1, top - _TALL / 2, words, size=9, ha="right", va="center")
    sheet.text(_LEFT, _KILL + 0.05, "A crash here. The next start loads:", ink=SOFT)
    at = _LEFT
    for text, opacity in zip(("written", "its bytes synced", "its name, too"), _HOLDS.values(), strict=True):
        sheet.boxes([(at, at + 0.12, 0.2, 0.32)], EMPTY, order=1)
        sheet.boxes([(at, at + 0.12, 0.2, 0.32)], SHADES[0], alpha=opacity)
        sheet.text(at + 0.18, 0.26, text, va="center")
        at += 0.4 + 0.07 * len(text)
    sheet.boxes([(at, at + 0.12, 0.2, 0.32)], "none", edge=VERMILION, thick=1.6)
    sheet.text(at + 0.18, 0.26, "read in this round", va="center")


def save_and_load(loading: bool = False) -> Explorer:
    """Play a save, or from its first read a load; change who writes and who reads, and leave out fsync."""
    if in_notebook():  # a run is too long for a slider
        for writers, fsync in product(WRITERS, (True, False)):
            saved(writers, fsync)
    first, longest = len(saved(3)[0]), max(len(moments(writers, 1, True)) for writers in WRITERS)
    return explore(
        draw_save,
        moment=play(range(longest), first if loading else 5, label="round", interval=900, last=_last),
        writers=slider(WRITERS, 3, label="written by", text=lambda count: count_text(count, "rank")),
        readers=slider(READERS, 2, label="read by", text=lambda count: count_text(count, "rank")),
        fsync=toggle(True, label="fsync"),
    )


def _last(setting: Setting) -> int:
    return len(moments(setting["writers"], setting["readers"], setting["fsync"])) - 1
