"""Evidence for chapters and checks: by name from what ships, or chosen, one's own first; and what it says in rows.

recorded("cpu4/fsdp")                     four gloo processes of a CPU, fully sharded
choose("train", size="1m", layout="fsdp")  the newest of one's own, else the recorded one of the most ranks
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from course_lib.messages import count_text
from course_runs import evidence
from course_runs.evidence import Evidence
from course_runs.evidence_fields import Environment

ORIGINS = ("own", "recorded")
COMPARED = {"seconds": "step_seconds", "memory": "memory_bytes", "wire": "wire_bytes"}


@dataclass(frozen=True)
class Chosen:
    """One evidence file: where it is from ("own" or "recorded"), its name there, and what it says."""

    origin: str
    name: str
    content: Evidence


def recorded(name: str) -> Evidence:
    """The evidence of that name which ships with the course, such as "cpu4/fsdp": the same wherever it is read."""
    path = evidence.SHIPPED / f"{name}.json"
    if name not in recorded_names():
        raise ValueError(f"No evidence {name!r} was recorded; there are {', '.join(recorded_names())}.")
    return evidence.read(path)


def recorded_names(kind: str | None = None) -> tuple[str, ...]:
    """Names of the evidence that ships with the course, sorted; with `kind` those of one kind."""
    names = sorted(_name(path, evidence.SHIPPED) for path in evidence.SHIPPED.rglob("*.json"))
    return tuple(
        name for name in names if kind is None or evidence.read(evidence.SHIPPED / f"{name}.json")["kind"] == kind
    )


def every(kind: str | None = None, origin: str | None = None) -> tuple[Chosen, ...]:
    """All evidence that can be read: one's own, the newest first, then what is recorded, the most ranks first."""
    if origin is not None and origin not in ORIGINS:
        raise ValueError(f"origin is {origin!r}; choose from {', '.join(ORIGINS)}, or leave it out.")
    folders = dict(evidence.places())
    found = [
        Chosen(where, _name(path, folders[where]), content)
        for where, path, content in evidence.found(kind)
        if origin in (None, where)
    ]
    own = [each for each in found if each.origin == "own"]
    shipped = [each for each in found if each.origin == "recorded"]
    return (*own, *sorted(shipped, key=lambda each: (-ranks_of(each.content), each.name)))


def choose(kind: str, *, origin: str | None = None, **setup: object) -> Chosen:
    """The first evidence of a kind that fits `setup`, one's own before what is recorded.

    `layout="fsdp"` fits any number of ranks, `layout="fsdp=4"` four; `schedule`, `micro_batches` and `ranks` are looked
    up in the layout, every other name in the file's setup.
    """
    for each in every(kind, origin):
        if all(_fits(each.content, name, value) for name, value in setup.items()):
            return each
    asked = "".join(f", {name}={value!r}" for name, value in setup.items())
    names = ", ".join(f"{each.origin} {each.name}" for each in every(kind, origin)) or "none"
    raise ValueError(f"There is no evidence of kind {kind!r}{asked}; of this kind there are: {names}.")


def ranks_of(content: Evidence) -> int:
    """Processes of a run."""
    setup = content["setup"]
    return int(setup.get("layout", {}).get("ranks") or setup.get("ranks") or setup.get("nproc") or 1)


def rows_of(evidences: Iterable[Chosen]) -> list[dict[str, Any]]:
    """A row for each training run: predicted, measured and ratio of a step's seconds, bytes at the peak and bytes sent.

    `seconds_predicted`, `seconds_measured`, `seconds_ratio`, and the same for `memory` and `wire`; a ratio is None
    where nothing was predicted or measured.
    """
    return [_row(each) for each in evidences if each.content["kind"] == "train"]


def _row(each: Chosen) -> dict[str, object]:
    setup, predicted, measured = (each.content[part] for part in ("setup", "predicted", "measured"))
    row = {
        "name": each.name,
        "origin": each.origin,
        "size": setup["size"],
        "layout": setup["layout"]["name"],
        "ranks": ranks_of(each.content),
        "device": each.content["environment"]["device"],
    }
    for short, field in COMPARED.items():
        said, seen = predicted[field], measured[field]
        row |= {
            f"{short}_predicted": said,
            f"{short}_measured": seen,
            f"{short}_ratio": seen / said if said and seen else None,
        }
    return row


class HardwareRow(TypedDict):
    """What ran on a machine, with so many processes over one backend."""

    origin: str
    hardware: str
    processes: int
    backend: str
    torch: str
    when: str
    runs: tuple[str, ...]


def hardware_rows(origin: str | None = "recorded") -> list[HardwareRow]:
    """What ran on which hardware: a row for each machine, number of processes and backend, with the runs' names."""
    rows: dict[tuple[str, str, int, str, str], HardwareRow] = {}
    for each in every(origin=origin):
        if each.content["kind"] == "doctor":
            continue  # a look at the machine is no run
        seen, setup = each.content["environment"], each.content["setup"]
        count = ranks_of(each.content)
        if setup.get("device") == "cpu":  # whatever GPUs the machine has, they did nothing
            seen = {**seen, "gpus": 0}
        wire = setup.get("backend") or ("nccl" if setup.get("device") == "cuda" else "gloo")
        key = (each.origin, hardware(seen), count, wire if count > 1 else "", seen["torch"])
        row = rows.setdefault(
            key,
            {
                "origin": key[0],
                "hardware": key[1],
                "processes": key[2],
                "backend": key[3],
                "torch": key[4],
                "when": "",
                "runs": (),
            },
        )
        row["runs"] += (each.name.rsplit("/", 1)[-1],)
        row["when"] = max(row["when"], each.content["when"][:10])
    return [{**row, "runs": tuple(sorted(set(row["runs"])))} for row in rows.values()]


def hardware(seen: Environment) -> str:
    """A machine in a few words, from an evidence file's environment."""
    if seen["gpus"]:
        return f"{seen['gpus']} × {seen['device']}"
    return f"{seen['cpu']}, {count_text(seen['cores'], 'core')}"


def _name(path: Path, folder: Path) -> str:
    return path.relative_to(folder).with_suffix("").as_posix()


def _fits(content: Evidence, name: str, value: object) -> bool:
    setup = content["setup"]
    layout = setup.get("layout", {})
    if name == "layout":
        said = layout.get("name", "")
        return value in (said, ",".join(part.partition("=")[0] for part in said.split(",")))
    if name == "ranks":
        return ranks_of(content) == value
    return setup.get(name, layout.get(name)) == value
