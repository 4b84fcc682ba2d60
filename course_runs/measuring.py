"""What a run holds and sends, read off one further step that is not timed: counting is not free."""

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from course_lib.cluster.intervals import exposed
from course_runs.counting import Wire
from course_runs.evidence_fields import Traced
from course_runs.parallel import local
from course_runs.process_group import Place
from course_runs.stepping import Stepper

if TYPE_CHECKING:
    from course_lib.model.accounting import Accounting


@dataclass
class Seen:
    """Bytes of one rank at its fullest, and bytes that it sent, by kind of call."""

    memory_bytes: float
    memory_by: dict[str, float]
    wire: dict[str, int]
    calls: dict[str, int]
    raw: dict[str, object] = field(default_factory=dict)
    traced: Traced = field(default_factory=Traced)


class Watch:
    """Begins before a model is built, so that what was there before is not counted."""

    def __init__(self, place: Place) -> None:
        self.place = place
        if place.device.type == "cuda":
            torch.cuda.empty_cache()
            self.before = torch.cuda.memory_allocated(place.device)
            torch.cuda.reset_peak_memory_stats(place.device)

    def read(self, stepper: Stepper, number: int, trace: bool = False, chrome: str = "") -> Seen:
        """Train one more step with everything counted. `trace`: and one with a profile, whole in the file `chrome`."""
        wire = Wire()
        if self.place.device.type == "cuda":
            peak = torch.cuda.max_memory_allocated(self.place.device) - self.before
            by = {"reserved": float(torch.cuda.max_memory_reserved(self.place.device))}
            with wire:
                stepper.step(number)
        else:
            account = _account(stepper)
            with account or contextlib.nullcontext(), wire:
                stepper.step(number)
            peak = account.peak_bytes if account is not None else 0
            by = {role: float(nbytes) for role, nbytes in account.peak_roles().items()} if account is not None else {}
        seen = Seen(float(peak), by, dict(wire.sent), dict(wire.calls), raw={"unknown_calls": sorted(wire.unknown)})
        if trace:
            from course_runs.tracing import intervals

            seen.raw["intervals"] = found = intervals(lambda: stepper.step(number + 1), self.place, chrome)
            seen.traced = {"exposed_seconds": exposed(found)}
        return seen


def _account(stepper: Stepper) -> "Accounting | None":
    """An account of this rank's tensors with what it holds already in it; None where Python is too old for it."""
    try:
        from course_lib.model.accounting import Accounting
    except ImportError:  # Python 3.10
        return None
    account = Accounting()
    parameters = [p for model in stepper.models for p in model.parameters()]
    with account:
        account.adopt([local(p) for p in parameters], "parameters")
        states = [
            value
            for state in stepper.optimizer.state.values()
            for value in state.values()
            if isinstance(value, torch.Tensor)
        ]
        account.adopt([local(value) for value in states], "optimizer state")
    return account
