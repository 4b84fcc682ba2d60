"""Whether a schedule can be run, and which step is at fault if not."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from course_lib.parallel.schedules.grid import grid
from course_lib.parallel.schedules.ops import KINDS, Op, Schedule

_NEEDS = {"B": "F", "I": "F", "W": "I"}  # on the same rank, for the same stage and micro-batch
_WORD = {"B": "order", "I": "order", "W": "weight before input"}


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with a schedule, at one step of one row."""

    kind: str  # empty, unknown, wrong rank, duplicate, missing, order, weight before input, deadlock, memory
    rank: int
    position: int  # in the row, from 0; the row's length where something is missing
    op: Op | None
    message: str


class ScheduleError(ValueError):
    """A schedule that cannot be run. `.faults` holds all that was found."""

    def __init__(self, schedule: Schedule, found: tuple[Fault, ...]) -> None:
        self.faults = found
        lines = [each.message for each in found[:5]]
        if len(found) > 5:
            lines.append(f"… and {len(found) - 5} more.")
        marks = [(each.rank, each.position) for each in found if 0 <= each.rank < schedule.ranks]
        shown = grid(schedule, marks) if schedule.ranks <= 64 else ""
        super().__init__("\n".join([f"{schedule.name}: this schedule cannot be run.", *lines, shown]).rstrip())


def validate(schedule: Schedule, buffering: float = math.inf, most_activations: float | None = None) -> Schedule:
    """The schedule itself, if nothing is wrong with it; else a ScheduleError that marks the faulty steps in the
    grid."""
    found = faults(schedule, buffering, most_activations)
    if found:
        raise ScheduleError(schedule, found)
    return schedule


def faults(schedule: Schedule, buffering: float = math.inf, most_activations: float | None = None) -> tuple[Fault, ...]:
    """Everything wrong with a schedule, by rank and position; () for a valid one.

    Every micro-batch needs a forward and a backward, whole or in halves, on every stage, once, on the stage's rank and
    in that order. Then the rows must be able to run, each operation receiving, computing and sending in turn:
    `buffering` messages from one rank to another may wait for their receiver before a further send blocks, any number
    by default, none at 0. `most_activations` is the limit of `peak_activations`. A deadlock is looked for once the rows
    are complete and in order.
    """
    wanted = 1 + max(map(max, schedule.routes))
    if not any(schedule.rows) or schedule.ranks != wanted:
        there = (
            f"There are rows for {schedule.ranks} ranks of {wanted}"
            if schedule.ranks != wanted
            else "There is no operation in any row"
        )
        return (Fault("empty", min(schedule.ranks, wanted), 0, None, f"{there}."),)
    found = [*_strangers(schedule)]
    if not any(each.kind == "unknown" for each in found):
        found += _absent(schedule)
    if not found:
        found += _misplaced(schedule)
    if not found:
        found += _stuck(schedule, buffering)
    if most_activations is not None and not any(each.kind == "unknown" for each in found):
        found += _overfull(schedule, most_activations)
    return tuple(sorted(found, key=lambda each: (each.rank, each.position)))


def least_buffering(schedule: Schedule) -> int:
    """How many messages from one rank to another must be able to wait, for the rows to run with blocking sends."""
    validate(schedule)
    found = 0
    while _Blocking(schedule, found).stuck():
        found += 1
    return found


# --- one row at a time


def _at(rank: int, place: int, op: Op) -> str:
    return (
        f"Rank {rank}, step {place} ({op}, {KINDS.get(op.kind, 'of no known kind')} of stage {op.stage}, "
        f"micro-batch {op.microbatch})"
    )


def _strangers(schedule: Schedule) -> Iterator[Fault]:
    """Operations that do not exist, are on a rank that does not hold their stage, or occur twice."""
    seen: dict[tuple[str, int, int], tuple[int, int]] = {}
    for rank, row in enumerate(schedule.rows):
        for place, op in enumerate(row):
            where = _at(rank, place, op)
            if op.kind not in KINDS:
                yield Fault("unknown", rank, place, op, f"{where}: kinds are {', '.join(KINDS)}.")
                continue
            if op.stage not in range(schedule.stages) or op.microbatch not in range(schedule.microbatches):
                ends = f"stages 0 to {schedule.stages - 1}, micro-batches 0 to {schedule.microbatches - 1}"
                yield Fault("unknown", rank, place, op, f"{where}: there are {ends}.")
                continue
            if op.joins and (not place or {op.kind, row[place - 1].kind} != {"F", "B"} or row[place - 1].joins):
                yield Fault("unknown", rank, place, op, f"{where}: only one forward and one backward can run together.")
                continue
            home = schedule.rank_of(op.stage, op.microbatch)
            if home != rank:
                yield Fault(
                    "wrong rank", rank, place, op, f"{where}: rank {home} holds that stage for this micro-batch."
                )
            for kind in {"B": "BIW", "I": "BI", "W": "BW", "F": "F"}[op.kind]:
                other = seen.get((kind, op.stage, op.microbatch))
                if other:
                    again = "occurs twice" if kind == op.kind else f"repeats what {Op(kind, *op[1:3])} does"
                    yield Fault(
                        "duplicate",
                        rank,
                        place,
                        op,
                        f"{where}: {again}; rank {other[0]}, step {other[1]} has it already.",
                    )
                    break
            seen[op[:3]] = (rank, place)


def _absent(schedule: Schedule) -> Iterator[Fault]:
    """Operations that no row has."""
    there = {op[:3] for row in schedule.rows for op in row}
    for microbatch in range(schedule.microbatches):
        for stage in range(schedule.stages):
            rank = schedule.rank_of(stage, microbatch)
            split = {("I", stage, microbatch), ("W", stage, microbatch)} & there
            for kind in ("F", "I", "W") if split else ("F", "B"):
                if (kind, stage, microbatch) not in there:
                    op, place = Op(kind, stage, microbatch), len(schedule.rows[rank])
                    why = (
                        f"rank {rank} never runs {op}, the {KINDS[kind]} of stage {stage} for micro-batch {microbatch}"
                    )
                    yield Fault("missing", rank, place, op, f"Rank {rank}, step {place} (the end of its row): {why}.")


def _misplaced(schedule: Schedule) -> Iterator[Fault]:
    """Operations that come before one of the same stage and micro-batch that they need."""
    for rank, row in enumerate(schedule.rows):
        places = {op[:3]: place for place, op in enumerate(row)}
        for place, op in enumerate(row):
            needs = _NEEDS.get(op.kind)
            before = -1 if needs is None else places.get((needs, op.stage, op.microbatch), -1)
            if needs is not None and before > place:
                what = f"{Op(needs, op.stage, op.microbatch)}, the {KINDS[needs]} it needs, comes only at step {before}"
                yield Fault(_WORD[op.kind], rank, place, op, f"{_at(rank, place, op)}: {what}.")


def _overfull(schedule: Schedule, limit: float) -> Iterator[Fault]:
    """The first forward of each rank that exceeds the limit of activations."""
    change = {"F": 1, "B": -1, "W": -1, "I": 0}
    for rank, row in enumerate(schedule.rows):
        held = 0
        for place, op in enumerate(row):
            held += change[op.kind]
            if held * schedule.share > limit + 1e-9:
                full = (
                    f"the rank then holds activations of {held * schedule.share:g} micro-batches, and may "
                    f"hold {limit:g}"
                )
                yield Fault("memory", rank, place, op, f"{_at(rank, place, op)}: {full}.")
                break


# --- all rows together


def _stuck(schedule: Schedule, buffering: float) -> list[Fault]:
    """The ranks that wait for each other in a cycle, if the rows stop."""
    run = _Blocking(schedule, buffering)
    waits = run.stuck()
    if not waits:
        return []
    cycle, rank = [], min(waits)
    while rank not in cycle:
        cycle.append(rank)
        rank = waits[rank][1]
        if rank not in waits:  # this rank has finished its row, so it will never send what the other waits for
            cycle = cycle[-1:]
            break
    cycle = cycle[cycle.index(rank) :] if rank in cycle else cycle
    ring = f", in a cycle with rank{'s' * (len(cycle) > 2)} " if len(cycle) > 1 else ""
    found = []
    for each in cycle:
        place = waits[each][0]
        op, others = schedule.rows[each][place], [str(other) for other in cycle if other != each]
        named = " and ".join(filter(None, (", ".join(others[:-1]), *others[-1:])))
        found.append(Fault("deadlock", each, place, op, f"{_at(each, place, op)}: it {waits[each][2]}{ring}{named}."))
    return found


class _Blocking:
    """The rows run without times: each operation receives its input, computes, and sends its result, in turn."""

    def __init__(self, schedule: Schedule, buffering: float) -> None:
        self.schedule, self.buffering = schedule, buffering
        self.at = [0] * schedule.ranks
        self.sending: list[tuple | None] = [None] * schedule.ranks  # the message a rank is blocked in
        self.waiting: dict[tuple[int, int], set] = {}  # messages on their way, by (from, to)
        self.arrived: set[tuple] = set()

    def stuck(self) -> dict[int, tuple[int, int, str]]:
        """For every rank that cannot continue: its position, the rank it waits for, and why; {} if all rows end."""
        moved = True
        while moved:
            moved = False
            for rank in range(self.schedule.ranks):
                while self._step(rank):
                    moved = True
        return {rank: self._why(rank) for rank, row in enumerate(self.schedule.rows) if self.at[rank] < len(row)}

    def _step(self, rank: int) -> bool:
        message = self.sending[rank]
        if message:
            if not self._delivered(rank, message):
                return False
            self.sending[rank] = None
            self.at[rank] += 1
            return True
        if self.at[rank] >= len(self.schedule.rows[rank]):
            return False
        op = self.schedule.rows[rank][self.at[rank]]
        needs = self._input(op)
        if needs and needs not in self.arrived:
            source = self._home(needs)
            if source == rank:
                return False
            link = self.waiting.setdefault((source, rank), set())
            if needs in link:
                link.discard(needs)
            elif self.sending[source] == needs:  # both ranks are ready: no buffer is needed
                self.sending[source] = None
                self.at[source] += 1
            else:
                return False
            self.arrived.add(needs)
        made = (op.kind if op.kind == "F" else "G", op.stage, op.microbatch)
        target = self._target(op)
        if target is None or target == rank:
            if op.kind != "W":
                self.arrived.add(made)
            self.at[rank] += 1
        else:
            self.sending[rank] = made
        return True

    def _delivered(self, rank: int, message: tuple) -> bool:
        """Whether a blocked send can end: its message has arrived, or the buffer has room for it."""
        if message in self.arrived:
            return True
        target = self._receiver(message)
        link = self.waiting.setdefault((rank, target), set())
        if len(link) < self.buffering:
            link.add(message)
            return True
        return False

    def _input(self, op: Op) -> tuple | None:
        """The message that an operation needs: an activation from the stage before, a gradient from the one after."""
        if op.kind == "F":
            return ("F", op.stage - 1, op.microbatch) if op.stage else None
        if op.kind == "W" or op.stage == self.schedule.stages - 1:
            return None
        return ("G", op.stage + 1, op.microbatch)

    def _target(self, op: Op) -> int | None:
        """The rank that needs the result of an operation."""
        if op.kind == "W":
            return None
        to = op.stage + (1 if op.kind == "F" else -1)
        return self.schedule.rank_of(to, op.microbatch) if 0 <= to < self.schedule.stages else None

    def _home(self, message: tuple) -> int:
        return self.schedule.rank_of(message[1], message[2])

    def _receiver(self, message: tuple) -> int:
        return self.schedule.rank_of(message[1] + (1 if message[0] == "F" else -1), message[2])

    def _why(self, rank: int) -> tuple[int, int, str]:
        place = self.at[rank]
        op = self.schedule.rows[rank][place]
        message = self.sending[rank]
        if message:
            other = self._receiver(message)
            return place, other, f"is blocked, sending its result to rank {other}"
        needs = self._input(op)
        assert needs  # what needs no message does not wait for one
        source = self._home(needs)
        made = f"the {'activations' if needs[0] == 'F' else 'gradient'} of stage {needs[1]}, micro-batch {needs[2]},"
        return place, source, f"waits for {made} from rank {source}"
