"""Plain, frozen records that the cluster, the judge and the figures exchange. No torch, no behavior."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, cast

if TYPE_CHECKING:
    from course_lib.cluster import Adversary, Run

VerdictKind = Literal["values", "cost", "protocol", "generality"]
VERDICT_KINDS: tuple[VerdictKind, ...] = ("values", "cost", "protocol", "generality")

Answer = Callable[..., Any]  # a learner's function or class: what it returns is theirs

State = Literal["answered", "not answered", "raised", "deadlock", "crashed", "timed out", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run of an answer. With `ranks`, the answer is a function of a communicator and runs on a metered cluster."""

    name: str  # in words, shown to the learner: "13B on 80 GB"
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, object] = field(default_factory=dict)
    per_rank: tuple[tuple[Any, ...], ...] | None = None  # arguments of each rank, after `args`
    ranks: int | None = None
    visible: bool = True
    kind: VerdictKind = "values"  # the question that this case is there for; a failure to run counts against it
    part: str = ""  # the share that a failure to run counts against; all of `kind` without one
    buffering: float = 0
    adversary: Adversary | None = None  # an adversary of course_lib.cluster; None: the plain run
    seconds: float = 10.0  # wall time that one run may take
    # the answer is called on other arguments first and then twice; `args` and `per_rank` hold (its own, others', …)
    twice: bool = False
    secret: Any = None  # what the oracle needs and the answer must not get


class Meter(TypedDict, total=False):
    """What a run moved: numbers by rank where it is a list. Empty without ranks."""

    bytes_sent: list[int]
    bytes_received: list[int]
    messages_sent: list[int]
    messages_received: list[int]
    steps: list[int]
    calls: list[int]
    collectives: list[int]
    pairs: list[tuple[int, int, int, int]]  # sender, receiver, bytes, messages
    levels: dict[str, tuple[int, int]]
    peak_bytes: list[int]
    live_bytes: list[int]
    peak_roles: list[dict[str, int]]
    flops: list[int]
    seconds: float
    waits: list[tuple[int, tuple[int, ...], int, str, str]]  # rank, whom it waits for, number of the call, what, line
    hazards: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one run of an answer on one case gave: plain data only, nothing of the judge's opinion."""

    state: State
    value: Any = None  # what the probe returned; for a cluster case the list of results by rank
    meter: Meter = field(default_factory=Meter)
    error: str = ""  # one line in words, the learner's line first
    trace: str = ""  # the learner's part of the traceback
    output: str = ""  # what the answer printed, capped
    seconds: float = 0.0  # wall time of the run
    changed: str = ""  # the argument that the call changed, in words; only of functions, which have no ranks

    @classmethod
    def of(cls, run: Run) -> Self:
        """The outcome of a run of the cluster."""
        meter = cast(Meter, {**run.meter.as_dict(), "seconds": run.seconds})
        if run.waits:
            meter["waits"] = [(w.rank, w.waits_for, w.call, w.what, w.line) for w in run.waits]
        if run.hazards:
            meter["hazards"] = list(map(str, run.hazards))
        return cls(
            state=cast(State, run.state),
            value=list(run.results),
            meter=meter,
            error="" if run.error is None else str(run.error),
            trace=getattr(run.error, "trace", ""),
            output=run.output,
            seconds=run.wall_seconds,
        )

    def fields(self) -> dict[str, object]:
        """Field by field, without a copy of what is in them."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer to one question about one part of an answer."""

    kind: VerdictKind
    part: str  # which part of the exercise: "state", "fewest", a case's name
    ok: bool
    message: str = ""  # in the learner's terms; says what to look at, not the answer
    mistake: str = ""  # name of the known mistake that this is, if it is one
    case: str = ""  # the case that decided, in words
    lead: str = ""  # what comes before the sentence of a mistake that is found later: a row of the case in words
    # the part of each row's or rank's result that was asked about, as a path; () is all of it
    where: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One exercise, judged: its verdicts and points."""

    exercise: str
    state: State
    points: float
    maximum: float
    verdicts: tuple[Verdict, ...] = ()
    note: str = ""  # why there are no verdicts, where there are none
    cases: int = 0  # how many cases ran
    ranks: tuple[int, ...] = ()  # the numbers of ranks that the cases ran on, ascending; empty without ranks
    seconds: float = 0.0
    interval: tuple[float, float] | None = None  # (low, high) of a prediction that was accepted
    slow: str = ""  # a warning about a case that may run out of time where a class is graded

    @property
    def passed(self) -> bool:
        """Whether every point was earned."""
        return self.state == "answered" and self.points >= self.maximum

    def by_kind(self) -> dict[VerdictKind, bool]:
        """Whether all verdicts of each kind that was asked hold."""
        kinds = [kind for kind in VERDICT_KINDS if any(v.kind == kind for v in self.verdicts)]
        return {kind: all(v.ok for v in self.verdicts if v.kind == kind) for kind in kinds}
