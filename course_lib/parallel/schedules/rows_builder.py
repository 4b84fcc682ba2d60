"""A row under construction: it counts the next micro-batch of each kind, and the weight gradients still to be done."""

from collections import Counter, deque

from course_lib.parallel.schedules.ops import Op


class Row:
    """Operations of one rank, added by kind and stage; each takes the next micro-batch of its kind and stage."""

    def __init__(self) -> None:
        self._ops: list[Op] = []
        self._next: Counter[tuple[str, int]] = Counter()
        self._owed: deque[Op] = deque()

    def add(self, kind: str, stage: int, first: int = 0, joins: bool = False) -> None:
        """The next forward ("F"), backward ("B") or input gradient ("I") of a stage; micro-batches count from
        `first`."""
        key = ("F" if kind == "F" else "B", stage)
        microbatch = first + self._next[key]
        self._next[key] += 1
        self._ops.append(Op(kind, stage, microbatch, joins))
        if kind == "I":
            self._owed.append(Op("W", stage, microbatch))

    def count(self, kind: str, stage: int) -> int:
        """How many forwards ("F") or backwards of either form ("B") of a stage there are so far."""
        return self._next[kind, stage]

    def oldest_weight_gradient(self, stage: int | None = None) -> None:
        """The oldest weight gradient still to be done, of one stage if given; nothing if there is none."""
        for op in self._owed:
            if stage is None or op.stage == stage:
                self._owed.remove(op)
                self._ops.append(op)
                return

    def all_weight_gradients(self, *stages: int) -> None:
        """Every weight gradient still to be done: of the first stage named, then of the next, or simply in order."""
        for stage in stages or (None,):
            while any(stage is None or op.stage == stage for op in self._owed):
                self.oldest_weight_gradient(stage)

    def ops(self) -> tuple[Op, ...]:
        """The finished row."""
        return tuple(self._ops)
