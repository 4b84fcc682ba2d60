"""The course's facts: hardware, models, runs, prices, claims; each with unit, source, date, condition."""

from course_lib.estimate.facts.chips import Chip, MatmulCeiling, ceiling, ceilings, chip, chips
from course_lib.estimate.facts.fact import Fact, Reference, Sheet, reference, references
from course_lib.estimate.facts.hardware import Device, Link, device, devices, link, links
from course_lib.estimate.facts.models import Checkpoint, ModelShape, checkpoints, model, models
from course_lib.estimate.facts.published import (
    Claim,
    PublishedRun,
    PublishedStep,
    claim,
    claims,
    price,
    prices,
    run,
    runs,
    steps,
)
from course_lib.estimate.facts.reliability import FailureLog, failure_log, failure_logs, interruption_causes
from course_lib.estimate.facts.topologies import Topology, TopologyLevel, topologies, topology

__all__ = [
    "Checkpoint",
    "Chip",
    "Claim",
    "Device",
    "Fact",
    "FailureLog",
    "Link",
    "MatmulCeiling",
    "ModelShape",
    "PublishedRun",
    "PublishedStep",
    "Reference",
    "Sheet",
    "Topology",
    "TopologyLevel",
    "ceiling",
    "ceilings",
    "checkpoints",
    "chip",
    "chips",
    "claim",
    "claims",
    "device",
    "devices",
    "failure_log",
    "failure_logs",
    "interruption_causes",
    "link",
    "links",
    "model",
    "models",
    "price",
    "prices",
    "reference",
    "references",
    "run",
    "runs",
    "steps",
    "topologies",
    "topology",
]
