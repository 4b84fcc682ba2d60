"""The closing section of a chapter: the learner's trainer, one axis richer."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from course_lib.chapters.table import table
from course_lib.install import Trouble
from course_lib.learner import work
from course_lib.own_trainer.answers import collected
from course_lib.own_trainer.axes import AXES, Axis, new_in
from course_lib.own_trainer.report import Compared, part_rows, summary, trial_rows
from course_lib.own_trainer.trials import Assembly, library_losses, trial

RANKS = (1, 2, 4)
STEPS = 3


def show(chapter: str) -> None:
    """Show whose the parts of this chapter's axes are, and train with them on 1, 2 and 4 ranks. It never raises."""
    from IPython.display import Markdown, display

    axes = new_in(chapter) or list(AXES.values())
    try:
        parts = collected(work.folders())
    except Trouble as trouble:
        display(Markdown(f"The trainer cannot be assembled here. {trouble.problem} Way out: {trouble.way_out}."))
        return
    files = [file for axis in axes for file in axis.parts]
    with tempfile.TemporaryDirectory() as folder:
        assembly = Assembly(parts, Path(folder))
        if chapter == "15":
            rows = _on_processes(assembly, [AXES["data"], AXES["sharded"]])
        else:
            rows = trial_rows([each for axis in axes for each in compared(assembly, axis, RANKS, STEPS, small=True)])
        display(Markdown(summary(assembly.parts, files)), table(part_rows(assembly.parts, files)), table(rows))


def compared(assembly: Assembly, axis: Axis, ranks: Sequence[int], steps: int, small: bool = False) -> list[Compared]:
    """An axis on each number of ranks, beside the course's parts where any part is the learner's."""
    s = axis.settings(steps, small)
    made = assembly.run(axis, ranks, s)
    own = any(assembly.parts[file].yours for file in axis.parts)
    return [
        Compared(yours=each, course=trial(axis, each.ranks, [assembly.course], s) if own and each.ranks > 1 else None)
        for each in made
    ]


def _on_processes(assembly: Assembly, axes: Sequence[Axis]) -> list[dict[str, str]]:
    """Each axis on two processes of this machine: losses and speed with the learner's parts and with the course's."""
    from course_lib.cluster import launch
    from course_lib.own_trainer.kit.run import on_rank

    rows = []
    for axis in axes:
        s = axis.settings(steps=6, small=True)
        for whose, folder in (("your trainer", assembly.mine), ("the course's parts", assembly.course)):
            got = launch(on_rank, 2, args=(s, [str(folder)])).results[0]
            fast = sorted(got["seconds"])[len(got["seconds"]) // 2]
            rows.append(
                {
                    "axis": axis.name,
                    "parts": whose,
                    "last loss": f"{got['losses'][-1]:.4f}",
                    "the library's": f"{library_losses(s)[-1]:.4f}",
                    "tokens/s on 2 processes": f"{s.sequences * s.seq / fast:,.0f}",
                }
            )
    return rows
