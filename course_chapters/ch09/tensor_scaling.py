"""Measured step times of models cut by tensor parallelism over more and more GPUs, as published. Needed from chapter 09
on."""

from dataclasses import dataclass
from functools import cache

from course_lib.estimate.facts.fact import Fact, find, rows


@dataclass(frozen=True, slots=True)
class Cut:
    """One model over so many GPUs of one server; the time of a step carries unit, source, date and condition."""

    device: str  # a name for `facts.device`
    ranks: int
    params: float
    layers: int
    hidden: int
    tokens: int  # in a step
    step_seconds: Fact
    scaling: (
        Fact  # parameters times tokens a second of one GPU, over those of the model on one GPU alone, as a fraction
    )
    url: str

    @property
    def lost_seconds(self) -> float:
        """Seconds of a step that perfect scaling would not need."""
        return self.step_seconds * (1 - self.scaling)


@cache
def _series() -> dict[str, tuple[Cut, ...]]:
    found: dict[str, list[Cut]] = {}
    for row in rows("tensor_scaling.csv"):
        about = (row["source"], row["date"], row["condition"])
        seconds, scaling = Fact(float(row["step_s"]), "s", *about), Fact(float(row["scaling"]), "fraction", *about)
        layers, hidden, tokens = (int(row[name]) for name in ("layers", "hidden", "tokens"))
        made = Cut(
            row["device"], int(row["ranks"]), float(row["params"]), layers, hidden, tokens, seconds, scaling, row["url"]
        )
        found.setdefault(row["key"], []).append(made)
    return {key: tuple(sorted(many, key=lambda one: one.ranks)) for key, many in found.items()}


def series(key: str) -> tuple[Cut, ...]:
    """The measurements called `key`, such as "DGX-A100", by number of GPUs."""
    return find("series of a model cut over GPUs", key, _series())


def all_series() -> dict[str, tuple[Cut, ...]]:
    """All series by name."""
    return dict(_series())
