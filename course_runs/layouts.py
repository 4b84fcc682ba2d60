"""How the ranks of a run share the work: `ddp`, `fsdp`, `cp`, `tp`, `pp` and products of them, as one line of text.

`ddp=2,fsdp=4` is HSDP: two replicas of a model that four ranks share. One degree may be left out; it takes the ranks
that the others leave. `sp` has no degree of its own: it adds sequence parallelism to `tp`. The mesh's last axis is
tensor parallel: neighbors by rank, on the fastest wire.
"""

from dataclasses import asdict, dataclass
from math import prod
from typing import TYPE_CHECKING

from course_lib.messages import Trouble, count_text

if TYPE_CHECKING:
    from course_lib.model.transformer import Config

AXES = ("pp", "ddp", "fsdp", "cp", "tp")  # outermost first
SCHEDULES = ("gpipe", "1f1b", "interleaved")
# what parity proves, and a tour repeats
PROVEN = {  # number of ranks -> layouts whose every step is held against one process
    1: (),
    2: ("ddp", "fsdp", "tp", "tp,sp", "cp", "pp:gpipe", "pp:1f1b", "pp:interleaved"),
    4: (
        "ddp",
        "fsdp",
        "tp",
        "ddp=2,fsdp=2",
        "ddp=2,tp=2",
        "fsdp=2,tp=2",
        "pp=2,ddp=2",
        "pp=2,fsdp=2",
        "pp=2,tp=2",
        "pp:1f1b",
        "cp",
        "ddp=2,cp=2",
        "fsdp=2,cp=2",
        "pp=2,cp=2",
        "cp=2,tp=2,sp",
        "ddp=2,tp=2,sp",
        "fsdp=2,tp=2,sp",
        "pp=2,tp=2,sp",
    ),
    8: (
        "fsdp",
        "ddp=2,fsdp=4",
        "pp=2,fsdp=2,tp=2",
        "pp=2,ddp=2,tp=2",
        "ddp=2,fsdp=2,tp=2",
        "fsdp=2,cp=2,tp=2,sp",
        "ddp=2,fsdp=2,cp=2",
    ),
}


@dataclass(frozen=True)
class RunLayout:
    """Degrees of parallelism of a real run, and its pipeline's schedule."""

    pp: int = 1
    ddp: int = 1  # replicas
    fsdp: int = 1  # ranks that share one replica's weights, gradients and optimizer state
    cp: int = 1  # ranks that share the tokens of each sequence
    tp: int = 1
    sp: bool = False  # sequence parallelism: tensor-parallel ranks also share the tokens between their matrices
    schedule: str = "1f1b"
    micro_batches: int = 1  # of one data-parallel rank in a step
    chunks: int = 1  # pieces of the model on one stage; more than one only when interleaved

    @property
    def ranks(self) -> int:
        """Processes in all."""
        return self.pp * self.ddp * self.fsdp * self.cp * self.tp

    @property
    def data(self) -> int:
        """Ranks that see different sequences."""
        return self.ddp * self.fsdp

    @property
    def shards(self) -> int:
        """Ranks that share one copy of weights, gradients and optimizer state: with FSDP, context-parallel ranks do so
        too."""
        return self.fsdp * self.cp if self.fsdp > 1 else 1

    @property
    def replicas(self) -> int:
        """Ranks that hold the same weights and average their gradients: without FSDP, context-parallel ranks are such
        replicas."""
        return self.ddp if self.fsdp > 1 else self.ddp * self.cp

    @property
    def name(self) -> str:
        """As it is typed: "ddp=2,tp=2", "single" for one rank."""
        parts = [f"{axis}={getattr(self, axis)}" for axis in AXES if getattr(self, axis) > 1]
        parts += ["sp"] if self.sp else []
        return ",".join(parts) or "single"

    def as_data(self) -> dict[str, object]:
        """Plain data, for an evidence file."""
        return {**asdict(self), "ranks": self.ranks, "name": self.name}


def parse(text: str, ranks: int, *, schedule: str = "1f1b", micro_batches: int | None = None) -> RunLayout:
    """The layout that `text` names, on `ranks` ranks; Trouble where it does not multiply out, with what would."""
    degrees: dict[str, int | None] = {}
    sequence = False
    for part in text.replace(" ", "").split(","):
        axis, _, number = part.partition("=")
        if axis == "single" and not number:
            continue
        if axis == "sp" and not number:
            sequence = True
            continue
        if axis not in AXES or (number and not (number.isascii() and number.isdigit() and int(number) > 0)):
            raise Trouble(
                f"{part!r} in --layout {text!r} is no degree of parallelism.",
                f"write for example fsdp, or ddp=2,tp=2; the axes are {', '.join(AXES)}, and sp goes with tp",
            )
        if axis in degrees:
            raise Trouble(f"--layout {text!r} names {axis} twice.", "give each axis once")
        degrees[axis] = int(number) if number else None
    given = prod(each for each in degrees.values() if each)
    open_axes = [axis for axis, each in degrees.items() if each is None]
    if len(open_axes) > 1:
        raise Trouble(f"--layout {text!r} leaves {' and '.join(open_axes)} open.", "give a number to all but one")
    if open_axes:
        degrees[open_axes[0]] = max(ranks // given, 1)
    total = prod(each or 1 for each in degrees.values())
    if total != ranks:
        raise Trouble(
            f"--layout {text!r} makes {count_text(total, 'rank')}, and {ranks} "
            f"{'is' if ranks == 1 else 'are'} running.",
            _what_would(text, ranks),
        )
    if schedule not in SCHEDULES:
        raise Trouble(f"There is no schedule {schedule!r}.", f"choose from {', '.join(SCHEDULES)}")
    if sequence and (degrees.get("tp") or 1) == 1:
        raise Trouble(
            "Sequence parallelism (sp) splits tokens over the ranks of tensor parallelism, and this layout has none.",
            "write tp=2,sp; to split sequences over ranks of their own write cp=2",
        )
    pp = degrees.get("pp") or 1
    least = 1 if pp == 1 else pp
    return RunLayout(
        pp=pp,
        ddp=degrees.get("ddp") or 1,
        fsdp=degrees.get("fsdp") or 1,
        cp=degrees.get("cp") or 1,
        tp=degrees.get("tp") or 1,
        sp=sequence,
        schedule=schedule,
        micro_batches=2 * least if micro_batches is None and pp > 1 else micro_batches or 1,
        chunks=2 if schedule == "interleaved" and pp > 1 else 1,
    )


def _what_would(text: str, ranks: int) -> str:
    axes = [part.partition("=")[0] for part in text.replace(" ", "").split(",")]
    known = [axis for axis in axes if axis in AXES]
    if ranks == 1 or not known:
        return "start more processes (--nproc), or use --layout single" if known else "name a layout such as fsdp"
    return f"--layout {known[-1]} takes all {ranks}, or start as many processes as the layout multiplies to (--nproc)"


def _blocks(layout: RunLayout) -> int:
    return 2 * layout.cp if layout.cp > 1 else 1


def check(layout: RunLayout, config: "Config", batch: int) -> None:
    """Trouble where a model or a batch cannot be divided as the layout asks, with what would divide it."""
    for what, number, axis, ways in (
        ("heads", config.heads, "tp", layout.tp),
        ("key-value heads", config.kv_heads, "tp", layout.tp),
        ("columns of the MLP", config.ffn, "tp", layout.tp),
        ("rows of the vocabulary", config.vocab, "tp", layout.tp),
        ("tokens of a sequence", config.seq_len, "2 × cp: an early and a late block for each rank", _blocks(layout)),
        ("tokens of a rank", config.seq_len // layout.cp, "tp, with sp", layout.tp if layout.sp else 1),
        ("sequences of a step", batch, "data-parallel ranks × micro-batches", layout.data * layout.micro_batches),
    ):
        if number and number % ways:
            fits = [n for n in range(1, min(number, 64) + 1) if number % n == 0]
            raise Trouble(
                f"{number} {what} cannot be shared by {ways} ({axis}).",
                f"what divides {number}: {', '.join(map(str, fits))}",
            )
    pieces = layout.pp * layout.chunks
    if config.layers < pieces:
        raise Trouble(
            f"{count_text(config.layers, 'layer')} cannot make {count_text(pieces, 'piece')} of a pipeline.",
            f"use pp ≤ {config.layers // layout.chunks}, or a larger --size",
        )
    if layout.schedule == "interleaved" and layout.pp > 1 and layout.micro_batches % layout.pp:
        raise Trouble(
            f"Interleaved 1F1B wants micro-batches in rounds of {layout.pp} stages; {layout.micro_batches} are not.",
            f"--micro-batches {layout.pp * max(layout.micro_batches // layout.pp, 1)}",
        )


def check_compiled(layout: RunLayout, config: "Config") -> None:
    """Trouble where `torch.compile` cannot compile a layout's blocks: to compute attention again it saves the mesh of
    split matrices (2.13)."""
    if layout.tp > 1 and config.checkpointing == "selective":
        raise Trouble(
            "torch.compile fails on blocks that compute attention again and whose matrices are split (tp).",
            "use --checkpointing full or none, or leave out --compile",
        )
