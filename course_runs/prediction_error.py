"""Why a run was not what was predicted: terms, each with what it rests on, that add up to measured less predicted."""

from collections.abc import Sequence
from statistics import median

from course_runs.evidence_fields import Measured, StepRow, Term
from course_runs.predict import Job, Predicted
from course_runs.step_breakdown import PARTS

MEMORY = {  # what was counted at the peak -> what was predicted of it
    "parameters": ("weights", "16-bit copies of weights"),
    "gradients": ("gradients",),
    "optimizer state": ("optimizer",),
    "saved for backward": ("activations", "recomputed"),
    "communication": ("gathered",),
    "temporary": ("loss",),
}


def gap(
    expected: Predicted, measured: Measured, rows: Sequence[StepRow], job: Job, cores: float, *, on_cpu: bool
) -> list[Term]:
    """All terms of a run; `rows` are its timed steps, `cores` those of the machine for each rank."""
    return [
        *seconds(expected, measured, rows, job, cores if on_cpu else 1.0),
        *memory(expected, measured, job),
        *wire(expected, measured),
    ]


def seconds(expected: Predicted, measured: Measured, rows: Sequence[StepRow], job: Job, cores: float) -> list[Term]:
    """Terms of a step's seconds. The medians of parts need not add up to the median of steps: the last term takes the
    rest."""
    said = expected.seconds
    parts = {part: median(row["parts"][part] for row in rows) for part in PARTS}
    passes = parts["forward"] + parts["backward"] + parts["communication"]
    alone = said["arithmetic"] + said["overhead"] + said.get("bubble", 0.0)
    sent = said["communication"]
    exposed = measured.get("exposed_seconds")
    if job.layout.ranks == 1:
        found = [_time("passes", passes - alone, "forward and backward in the run, against the blocks one at a time")]
    elif exposed is None:
        found = [
            _time(
                "passes and communication",
                passes - alone - sent,
                f"forward, backward and sums in the run, against blocks and calls one at a time: {_why(job, cores)}",
            )
        ]
    else:
        found = [
            _time(
                "communication",
                exposed - sent,
                "not hidden by arithmetic in one traced step, against each call alone: in the run a call also waits "
                "for the rank that comes last",
            ),
            _time(
                "passes",
                passes - exposed - alone,
                f"forward and backward less that communication, against the blocks one at a time: {_why(job, cores)}",
            ),
        ]
    found += [
        _time(
            "optimizer",
            parts["optimizer"] - said["optimizer"],
            "clipping and AdamW as the run did them, call by call, against their bytes at a copy's speed",
        ),
        _time("data", parts["data"], "reading the batch, which was not predicted"),
    ]
    whole = measured["step_seconds"] - expected.step_seconds
    return [
        *found,
        _time(
            "between the parts",
            whole - sum(term["seconds"] for term in found),
            "the step less its parts, and medians that do not add up",
        ),
    ]


def _why(job: Job, cores: float) -> str:
    """What lies in the passes beyond blocks and calls, for this layout."""
    layout, words = job.layout, []
    if cores < 1:
        words.append(
            f"{1 / cores:.0f} ranks take turns on each core, and who waits for a sum waits for the others' turns"
        )
    if layout.fsdp > 1:
        words.append("FSDP copies each unit in and out of one flat buffer")
    if layout.tp > 1:
        words.append("DTensor dispatches every operation in Python")
    if layout.ddp > 1 and layout.pp == layout.tp == layout.fsdp == 1:
        words.append("DDP copies gradients into buckets, and sends them while the backward pass runs")
    if layout.pp > 1:
        words.append("stages wait for each other beyond the ideal bubble")
    return "; ".join(words)


def memory(expected: Predicted, measured: Measured, job: Job) -> list[Term]:
    """Terms of the peak's bytes, by what the counted tensors are; one term where the device tells no roles."""
    if not measured["memory_bytes"]:
        return []
    whole, roles = measured["memory_bytes"] - expected.memory_bytes, measured["memory_by"]
    if "parameters" not in roles:
        return [
            _bytes("memory", "not told apart", whole, "the allocator's peak, against the sum of what was predicted")
        ]
    why = (
        {"saved for backward": "; DTensor keeps whole inputs beside its parts", "temporary": "; DTensor's whole sums"}
        if job.layout.tp > 1
        else {}
    )
    found = [
        _bytes(
            "memory",
            role,
            roles.get(role, 0.0) - sum(expected.memory.get(name, 0.0) for name in names),
            f"counted at the peak, against the predicted {' and '.join(names)}{why.get(role, '')}",
        )
        for role, names in MEMORY.items()
    ]
    return [*found, _bytes("memory", "other", whole - sum(term["bytes"] for term in found), "what has no role")]


def wire(expected: Predicted, measured: Measured) -> list[Term]:
    """The one term of the bytes sent."""
    return (
        [
            _bytes(
                "wire",
                "loss and norm",
                measured["wire_bytes"] - expected.wire_bytes,
                "sums of single numbers, which are not predicted",
            )
        ]
        if expected.wire_bytes
        else []
    )


def said(terms: Sequence[Term]) -> list[str]:
    """The terms that matter, a line each: above a twentieth of the largest of their kind."""
    found = []
    for of, words, unit, scale in (("seconds", "step time", "ms", 1e3), ("memory", "memory", "MB", 1e-6)):
        mine = [(_value(term), term) for term in terms if term["of"] == of]
        most = max((abs(value) for value, _ in mine), default=0.0)
        found += [
            f"{words} {value * scale:+,.1f} {unit}  {term['term']}: {term['how']}"
            for value, term in mine
            if abs(value) > most / 20
        ]
    return found


def _value(term: Term) -> float:
    return term["seconds"] if term["of"] == "seconds" else term["bytes"]


def _time(term: str, value: float, how: str) -> Term:
    return {"of": "seconds", "term": term, "seconds": value, "how": how}


def _bytes(of: str, term: str, value: float, how: str) -> Term:
    return {"of": of, "term": term, "bytes": value, "how": how}
