"""Runs of the trainer on the metered cluster, held against the library's own training; and the name of a part that does
not fit."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from course_app.own_trainer.answers import Part, course_parts, write_parts
from course_app.own_trainer.axes import Axis
from course_app.own_trainer.kit.run import on_cluster
from course_app.own_trainer.kit.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One run of an axis, beside the library's."""

    axis: str
    ranks: int
    losses: tuple[float, ...] = ()  # nats per token, of each step
    library: tuple[float, ...] = ()  # of the library's one process
    sent: float = 0.0  # bytes that the busiest rank sends in a step
    messages: float = 0.0  # in a step
    wall: float = 0.0  # seconds of the whole run on this machine
    error: str = ""  # why there are no losses

    @property
    def difference(self) -> float:
        """The largest difference of a loss from the library's, in nats."""
        return max(abs(a - b) for a, b in zip(self.losses, self.library, strict=True))


@cache
def library_losses(s: Settings) -> tuple[float, ...]:
    """The losses of one process of the course's own trainer; for fp16 and experts, those of its parts on one rank."""
    if s.layout in ("half", "experts"):
        with tempfile.TemporaryDirectory() as folder:
            write_parts(course_parts(), Path(folder))
            return tuple(on_cluster(s, 1, [folder])["losses"])
    from course_lib.model import optimizer, training, transformer

    sizes = {name: getattr(s, name) for name in ("vocab", "layers", "hidden", "heads")}
    config = transformer.Config(**sizes, seq_len=s.seq, gated=False, positions="learned")
    model = transformer.build(config, seed=s.seed)
    update = optimizer.AdamW(model.parameters(), lr=s.peak, betas=s.betas, eps=s.eps, weight_decay=s.decay)

    def rate(step: int) -> float:
        return optimizer.cosine(step, s.total, s.warmup, s.peak, s.floor)

    return tuple(training.train(model, update, s.steps, s.sequences, rate, most=s.most).losses)


def trial(axis: Axis, ranks: int, folders: Sequence[Path], s: Settings) -> Trial:
    """Run an axis with the parts of `folders`; an error of a part is in the result."""
    want = library_losses(replace(s, stop=0))
    try:
        got = on_cluster(s, ranks, [str(folder) for folder in folders])
    except Exception as error:
        first = str(error).strip().splitlines()
        said = f"{type(error).__name__}: {first[0] if first else 'no message'}"
        return Trial(axis=axis.name, ranks=ranks, library=want, error=said)
    return Trial(
        axis=axis.name,
        ranks=ranks,
        losses=tuple(got["losses"]),
        library=want,
        sent=got["bytes"],
        messages=got["messages"],
        wall=got["wall"],
    )


def objection(made: Trial, axis: Axis) -> str:
    """Why a run is not the library's training, "" if it is."""
    if made.error:
        return made.error
    for step, (got, want) in enumerate(zip(made.losses, made.library, strict=True), 1):
        if not abs(got - want) <= axis.tolerance:
            return (
                f"the loss of step {step} is {got:.4f} on {made.ranks} rank{'s' * (made.ranks > 1)}; the library's "
                f"is {want:.4f}"
            )
    return ""


class Assembly:
    """The parts of one trainer in a folder, and which of the learner's were left out because they do not fit."""

    def __init__(self, parts: Mapping[str, Part], folder: Path) -> None:
        self.parts, self.folder = dict(parts), folder
        self.left_out: list[str] = []  # exercises whose answer by the learner does not fit
        self.course = folder / "course"
        self.mine = folder / "parts"
        write_parts(course_parts(), self.course)
        write_parts(self.parts, self.mine)

    def run(self, axis: Axis, ranks: Sequence[int], s: Settings) -> list[Trial]:
        """The axis on each number of ranks. A part that does not fit is replaced by the course's, with the reason."""
        made = [trial(axis, count, [self.mine], s) for count in ranks]
        if any(objection(each, axis) for each in made) and self._replace_misfits(axis, ranks, s):
            made = [trial(axis, count, [self.mine], s) for count in ranks]
        return made

    def _replace_misfits(self, axis: Axis, ranks: Sequence[int], s: Settings) -> list[str]:
        """Try each of the learner's parts alone among the course's; the files of those that fail."""
        found = []
        for file in axis.parts:
            part = self.parts[file]
            if part.yours and (reason := self._misfit(part, axis, ranks, s)):
                self.parts[file] = replace(course_parts()[file], why=reason)
                found.append(file)
                self.left_out.append(part.exercise)
        write_parts(self.parts, self.mine)
        return found

    def _misfit(self, part: Part, axis: Axis, ranks: Sequence[int], s: Settings) -> str:
        with tempfile.TemporaryDirectory(dir=self.folder) as alone:
            write_parts({part.file: part}, Path(alone))
            for count in ranks:
                made = trial(axis, count, [Path(alone), self.course], s)
                if reason := objection(made, axis):
                    return reason
        return ""
