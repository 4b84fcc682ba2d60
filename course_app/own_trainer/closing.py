"""The closing section of a chapter: the learner's trainer, one axis richer."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from course_app.learner import work
from course_app.own_trainer.answers import collected
from course_app.own_trainer.axes import AXES, Axis, new_in
from course_app.own_trainer.kit.settings import Settings
from course_app.own_trainer.report import Compared, part_rows, summary, trial_rows
from course_app.own_trainer.trials import Assembly, library_losses, trial
from course_chapters.table import table
from course_lib.cluster import ClusterError, Comm
from course_lib.messages import Trouble

Rows = list[dict[str, str]]

RANKS = (1, 2, 4)
STEPS = 3
ANSWERING_STEPS = 60  # updates before the model answers in chapter 16
PROMPT, LENGTH = "Ada has ", 24  # characters


def show(chapter: str) -> None:
    """Show whose the parts of this chapter's axes are, and train with them beside the library. It never raises."""
    from IPython.display import Markdown, display

    axes = _axes_of(chapter)
    files = [file for axis in axes for file in axis.parts]
    try:
        parts = collected(work.folders())
        with tempfile.TemporaryDirectory() as folder:
            assembly = Assembly(parts, Path(folder))
            rows = _rows(chapter, assembly, axes)
    except Trouble as trouble:
        display(Markdown(f"The trainer cannot be assembled here. {trouble.problem} Way out: {trouble.way_out}."))
        return
    except ClusterError as error:
        display(Markdown(f"The trainer failed on this machine. {type(error).__name__}: {str(error).splitlines()[0]}"))
        return
    display(Markdown(summary(assembly.parts, files)), table(part_rows(assembly.parts, files)), table(rows))


def _axes_of(chapter: str) -> list[Axis]:
    """The axes that a chapter shows: its own; two in 15, one in 16, all in 17."""
    others = {"15": [AXES["data"], AXES["sharded"]], "16": [AXES["data"]]}
    return new_in(chapter) or others.get(chapter) or list(AXES.values())


def _rows(chapter: str, assembly: Assembly, axes: Sequence[Axis]) -> Rows:
    if chapter == "15":
        return _on_processes(assembly, axes)
    if chapter == "16":
        return _answers(assembly, axes[0])
    ranks = RANKS if new_in(chapter) else RANKS[-1:]
    return trial_rows([each for axis in axes for each in compared(assembly, axis, ranks, STEPS, small=True)])


def compared(assembly: Assembly, axis: Axis, ranks: Sequence[int], steps: int, small: bool = False) -> list[Compared]:
    """An axis on each number of ranks, beside the course's parts where any part is the learner's."""
    s = axis.settings(steps, small)
    made = assembly.run(axis, ranks, s)
    own = any(assembly.parts[file].yours for file in axis.parts)
    return [
        Compared(yours=each, course=trial(axis, each.ranks, [assembly.course], s) if own and each.ranks > 1 else None)
        for each in made
    ]


def _on_processes(assembly: Assembly, axes: Sequence[Axis]) -> Rows:
    """Each axis on two processes of this machine: losses and speed with the learner's parts and with the course's."""
    from course_app.own_trainer.kit.run import on_rank
    from course_runs.real_ranks import launch

    rows = []
    for axis in axes:
        s = axis.settings(steps=6, small=True)
        assembly.run(axis, [2], s)  # on the metered cluster, which names a part that does not fit
        own = any(assembly.parts[file].yours for file in axis.parts)
        for whose, folder in [("yours", assembly.mine)] * own + [("the course's", assembly.course)]:
            got = launch(on_rank, 2, args=(s, [str(folder)])).results[0]
            rows.append(
                {
                    "axis": axis.name,
                    "parts": whose,
                    "last loss": f"{got['losses'][-1]:.4f}",
                    "the library's": f"{library_losses(s)[-1]:.4f}",
                    "tokens/s, fastest step": f"{s.sequences * s.seq / min(got['seconds'][1:]):,.0f}",
                }
            )
    return rows


def _answers(assembly: Assembly, axis: Axis) -> Rows:
    """Train on two ranks, then let the model write on from a prompt, without a cache and with one."""
    import torch

    from course_lib.cluster import simulate
    from course_lib.model import text, transformer
    from course_lib.operate.serving import generate

    assembly.run(axis, [2], axis.settings(STEPS, small=True))
    s = replace(axis.settings(ANSWERING_STEPS), layers=2, total=ANSWERING_STEPS)
    losses, weights = simulate(_trained, 2, args=(s, str(assembly.mine))).results[0]
    sizes = {name: getattr(s, name) for name in ("vocab", "layers", "hidden", "heads")}
    model = transformer.Transformer(transformer.Config(**sizes, seq_len=s.seq, gated=False, positions="learned"))
    model.load_state_dict(weights)
    prompt = text.encode(PROMPT).tolist()
    return [
        {
            "cache": cache,
            "loss after training": f"{losses[-1]:.3f}",
            "prompt": f"`{PROMPT}`",
            "the model's answer": f"`{text.decode(torch.tensor(generate(model, prompt, LENGTH, cache)))}`",
        }
        for cache in ("none", "contiguous", "paged")
    ]


def _trained(comm: Comm, s: Settings, folder: str) -> tuple[list[float], Mapping[str, Tensor]]:
    """The losses of a training, and its weights."""
    from course_app.own_trainer.kit.parts import load_parts
    from course_app.own_trainer.kit.run import TRAINERS

    trainer = TRAINERS[s.layout](comm, s, load_parts(Path(folder)))
    losses = [trainer.step()[0] for _ in range(s.steps)]
    return losses, {name: weight.detach() for name, weight in trainer.model.named().items()}
