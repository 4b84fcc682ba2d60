"""Where a run's steps are shown while it goes on: TensorBoard's files and Weights & Biases. Rank 0 writes; no other
rank does."""

import argparse
import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch.distributed as dist

from course_lib.messages import Trouble
from course_runs.evidence_fields import StepRow
from course_runs.process_group import Place
from course_runs.retrying import SAVED

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

Logged = Literal["loss", "gradient_norm", "learning_rate", "seconds"]
LOGGED: tuple[Logged, ...] = ("loss", "gradient_norm", "learning_rate", "seconds")
PROJECT = "training-at-scale"  # in Weights & Biases, where WANDB_PROJECT does not name another


class Boards:
    """The boards that the command line asks for; none of them is opened before `begin`."""

    def __init__(self, given: argparse.Namespace, place: Place) -> None:
        self.given, self.place = given, place
        self.tensorboard: SummaryWriter | None = None
        self.wandb: Any = None
        self.logged = 0  # rows
        self.before: Callable[..., object] | int | None = None

    def begin(self, setup: Mapping[str, object]) -> None:
        """Open the boards, once nothing can refuse the run any more. Trouble, on every rank, where rank 0 cannot."""
        if self.given.tensorboard and self.place.first:
            self.tensorboard = _writer()(f"{self.given.out}/tensorboard")
        if not self.given.wandb:
            return
        problem = [self._open_wandb(setup) if self.place.first else ""]
        dist.broadcast_object_list(problem)
        if problem[0]:
            raise Trouble(
                f"Weights & Biases did not start: {problem[0]}",
                "wandb login, or set WANDB_MODE=offline to keep the run on this machine until `wandb sync`",
            )

    def _open_wandb(self, setup: Mapping[str, Any]) -> str:
        """Start a run, or go on with that of the folder where `--resume` is given; what went wrong, in words."""
        given = self.given
        note = Path(given.out) / "wandb-run-id.txt" if given.out else None
        known = note.read_text(encoding="utf-8").strip() if note and given.resume and note.exists() else None
        if given.out:
            Path(given.out).mkdir(parents=True, exist_ok=True)
        try:
            self.wandb = _wandb().init(
                project=os.environ.get("WANDB_PROJECT") or PROJECT,
                name=given.name or f"{given.size} {setup['layout']['name']}",
                dir=str(Path(given.out).resolve()) if given.out else None,
                id=known,
                resume="allow" if known else None,
                config=dict(setup),
            )
        except Exception as error:  # its kinds differ from version to version
            return str(error).strip() or type(error).__name__
        if note:
            note.write_text(f"{self.wandb.id}\n", encoding="utf-8")
        # torchrun ends its ranks by SIGTERM, and Weights & Biases must not show such a run as still running.
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self.before = signal.signal(signal.SIGTERM, _terminate)
        return ""

    def log(self, rows: Sequence[StepRow], tokens: int) -> None:
        """The rows that were not logged yet; all of them have their numbers. `tokens` of a step."""
        for row in rows[self.logged :]:
            numbers = {str(name): row[name] for name in LOGGED} | {"tokens_per_s": tokens / row["seconds"]}
            if self.tensorboard is not None:
                for name, number in numbers.items():
                    self.tensorboard.add_scalar(name, number, row["step"])
            if self.wandb is not None:
                self.wandb.log(numbers, step=row["step"])
        self.logged = len(rows)

    def close(self, code: int) -> None:
        """Close all of them; a code other than 0 marks the run as failed."""
        if self.tensorboard is not None:
            self.tensorboard.close()
        if self.wandb is not None:
            self.wandb.finish(exit_code=code)
        if self.before is not None:
            signal.signal(signal.SIGTERM, self.before)
        self.tensorboard = self.wandb = self.before = None


@contextlib.contextmanager
def boards(given: argparse.Namespace, place: Place) -> Iterator[Boards]:
    """The boards of a run, closed however it ends. Trouble, on every rank, where one is asked for and not installed."""
    if given.tensorboard:
        if not given.out:
            raise Trouble("TensorBoard needs a folder.", "give --out")
        _writer()
    if given.wandb:
        _wandb()
    opened = Boards(given, place)
    try:
        yield opened
    except BaseException as error:
        with contextlib.suppress(Exception):  # what ended the run is what must be reported
            opened.close(_code(error))
        raise
    opened.close(0)


def _code(error: BaseException) -> int:
    """The exit code that a board shows for a run which ended so."""
    from course_runs.saving import Stopped

    if isinstance(error, Stopped):
        return SAVED
    if isinstance(error, SystemExit) and isinstance(error.code, int):
        return error.code
    return 130 if isinstance(error, KeyboardInterrupt) else 1


def _terminate(*_: object) -> None:
    raise SystemExit(SAVED)


def _writer() -> "type[SummaryWriter]":
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise Trouble(
            "TensorBoard is not installed here.", "pip install tensorboard, or leave out --tensorboard"
        ) from error
    return SummaryWriter


def _wandb() -> Any:
    """The package; a folder of that name, which earlier runs leave, is importable too and has no `init`."""
    try:
        import wandb
    except ImportError:
        wandb = None
    if not hasattr(wandb, "init"):
        raise Trouble("Weights & Biases is not installed here.", "pip install wandb, or leave out --wandb")
    return wandb
