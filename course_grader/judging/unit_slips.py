"""Values in another unit than the one asked for: the factors that lead there, said once for all exercises."""

from collections.abc import Mapping, Sequence

from course_grader.exercises.values import is_number, near
from course_grader.judging.mistakes import Fault
from course_lib.estimate.units import DAY, GB, HOUR, MINUTE, WEEK, YEAR, GiB, MiB

_TIMES = {"seconds": 1.0, "minutes": MINUTE, "hours": HOUR, "days": DAY, "weeks": WEEK, "years": YEAR}
_MIXED = "this takes 2³⁰ bytes for a GB, or the other way round; a GB is 10⁹ bytes."
_SLIPS: Mapping[
    str, Sequence[tuple[str, float, str]]
] = {  # unit -> (name, factor by which a value is off, what to say)
    "bytes": (
        ("gigabytes", 1 / GB, "this is in GB; return bytes."),
        ("gibibytes", 1 / GiB, "this is in GiB; return bytes."),
        ("mebibytes", 1 / MiB, "this is in MiB; return bytes."),
        ("gib-for-gb", GiB / GB, _MIXED),
        ("gib-for-gb", GB / GiB, _MIXED),
        ("bits", 8.0, "this counts bits; a byte has eight."),
    ),
    "FLOP/s": (("teraflops", 1e-12, "this is in TFLOP/s; give FLOP/s."),),
    "(a fraction of one)": (("percent", 100.0, "this is a percentage; give a fraction of one."),),
    **{
        unit: [
            (other, one / size, f"these are {other}; give {unit}.") for other, size in _TIMES.items() if other != unit
        ]
        for unit, one in _TIMES.items()
    },
}
_CLOSE = 3e-4  # a year of 365 days is none of these


def unit_slip(unit: str, values: Sequence[object], wants: Sequence[float | None]) -> Fault | None:
    """The slip that explains every value that is not right; None where none does."""
    pairs = [
        (got, want) for got, want in zip(values, wants, strict=True) if not (want is not None and near(got, want, 1e-9))
    ]
    if not pairs or any(not is_number(got) or not want for got, want in pairs):
        return None
    for name, factor, message in (*_SLIPS.get(unit, ()), ("sign", -1.0, "the sign is wrong.")):
        if all(want and near(got, want * factor, _CLOSE) for got, want in pairs):
            return name, message
    return None
