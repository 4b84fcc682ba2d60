"""The course's facts: hardware, models, runs, prices, claims; each with unit, source, date, condition."""

from course_lib.facts.fact import Fact, Reference, reference, references
from course_lib.facts.hardware import Device, Link, device, devices, link, links
from course_lib.facts.models import ModelShape, model, models
from course_lib.facts.published import Claim, PublishedRun, claim, claims, price, prices, run, runs

__all__ = [
    "Claim",
    "Device",
    "Fact",
    "Link",
    "ModelShape",
    "PublishedRun",
    "Reference",
    "claim",
    "claims",
    "device",
    "devices",
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
]
