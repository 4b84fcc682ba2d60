"""Training runs, prices and statements that were published, with who printed them and when."""

from dataclasses import dataclass
from functools import cache

from course_lib.estimate.compute import train_flops
from course_lib.estimate.facts.fact import Fact, Number, Sheet, fact_of, find, rows


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRun(Sheet):
    """One training run as published. Some numbers are not published, or in no source we read."""

    published: str  # year-month
    device: str  # a name for `facts.device`, or a family of devices
    model: str  # a name for `facts.model`, or ""
    source: str
    params = Number()
    active_params = Number()  # parameters a token meets, where fewer than all
    tokens = Number()
    train_flops = Number()  # FLOP of the whole run, as printed
    devices = Number()
    device_hours = Number()
    days = Number()
    mfu = Number()
    hfu = Number()
    flops_per_device = Number()  # FLOP/s achieved
    tokens_per_s = Number()  # all devices
    step_seconds = Number()
    seq_len = Number()
    batch_tokens = Number()
    tp = Number()
    cp = Number()
    pp = Number()
    dp = Number()
    snapshot_days = Number()  # a stretch that was reported on, not the run's length

    @property
    def year(self) -> float:
        """Date of publication as a decimal year."""
        year, month = self.published.split("-")
        return int(year) + (int(month) - 0.5) / 12

    @property
    def flops(self) -> float | None:
        """FLOP of the run: as printed, else 6 × (active) parameters × tokens, else None."""
        if self.get("train_flops") is not None:
            return self.train_flops
        if self.get("tokens") is None:
            return None
        return train_flops(self.get("active_params") or self.params, self.tokens)

    @property
    def flops_condition(self) -> str:
        """How `flops` came about."""
        if self.get("train_flops") is not None:
            return f"printed ({self.train_flops.source})"
        return "6 × parameters × tokens" if self.get("tokens") is not None else "unknown"


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement somebody printed, to be audited. Some are right."""

    key: str
    chapters: tuple[str, ...]  # that audit it, such as ("01", "14")
    text: str
    value: Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedStep:
    """The speed of one layout as its framework's authors printed it."""

    model: str  # a name for `facts.model`
    device: str  # a name for `facts.device`
    gpus: int
    dtype: str
    seq: int
    sequences: int
    layout: str  # as `planner.judged` reads it
    tokens_per_s: float  # of one device
    software: str
    source: str
    date: str


@cache
def steps() -> tuple[PublishedStep, ...]:
    """All published speeds of layouts."""
    return tuple(
        PublishedStep(
            model=row["model"],
            device=row["device"],
            gpus=int(row["gpus"]),
            dtype=row["dtype"],
            seq=int(row["seq"]),
            sequences=int(row["sequences"]),
            layout=row["layout"],
            tokens_per_s=float(row["tokens_per_s"]),
            software=row["software"],
            source=row["source"],
            date=row["date"],
        )
        for row in rows("published_steps.csv")
    )


@cache
def _runs() -> dict[str, PublishedRun]:
    values: dict[str, dict[str, Fact]] = {}
    for row in rows("runs.csv"):
        values.setdefault(row["run"], {})[row["field"]] = fact_of(row)
    return {
        row["run"]: PublishedRun(
            name=row["run"],
            published=row["published"],
            device=row["device"],
            model=row["model"],
            source=row["source"],
            numbers=values[row["run"]],
        )
        for row in rows("run_names.csv")
    }


def run(name: str) -> PublishedRun:
    """The published run called `name`, such as "Llama 3.1 405B"."""
    return find("published run", name, _runs())


def runs() -> dict[str, PublishedRun]:
    """All published runs by name, oldest first."""
    return dict(sorted(_runs().items(), key=lambda item: (item[1].published, item[0])))


@cache
def _prices() -> dict[str, Fact]:
    return {row["name"]: fact_of(row) for row in rows("prices.csv")}


def price(name: str) -> Fact:
    """US dollars per device-hour. "H100 hour" is an assumption of the exercises, not a market price."""
    return find("price", name, _prices())


def prices() -> dict[str, Fact]:
    """All prices by name."""
    return dict(_prices())


@cache
def _claims() -> dict[str, Claim]:
    found = (Claim(row["key"], tuple(row["chapters"].split()), row["text"], fact_of(row)) for row in rows("claims.csv"))
    return {one.key: one for one in found}


def claim(key: str) -> Claim:
    """The published statement with this key."""
    return find("claim", key, _claims())


def claims(chapter: str | None = None) -> dict[str, Claim]:
    """Published statements by key, of one chapter or of all."""
    return {key: one for key, one in _claims().items() if chapter is None or chapter in one.chapters}
