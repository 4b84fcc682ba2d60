"""Units: constants, numbers as text, and quantities that refuse to be added to something else.

The library works in base units (bytes, FLOP, seconds, US dollars) and converts only when printing.
GB is 10^9 bytes, GiB is 2^30 bytes; a year is 365.25 days.
"""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, overload

import numpy as np

from course_lib.messages import count_text as count_text

KB, MB, GB, TB, PB = 1e3, 1e6, 1e9, 1e12, 1e15
KiB, MiB, GiB, TiB = 2.0**10, 2.0**20, 2.0**30, 2.0**40
GFLOP, TFLOP, PFLOP, EFLOP = 1e9, 1e12, 1e15, 1e18
MILLION, BILLION, TRILLION = 1e6, 1e9, 1e12
US, MS, MINUTE, HOUR, DAY, WEEK = 1e-6, 1e-3, 60.0, 3600.0, 86400.0, 7 * 86400.0
YEAR = 365.25 * DAY

Numeric: TypeAlias = float | np.ndarray  # what a function of arithmetic takes: one value, or an array of them
Number = TypeVar("Number", bound=Numeric)  # what it then gives back: a number for numbers, an array for arrays


# --- numbers as text ---------------------------------------------------------------------------


def number_text(value: Numeric, digits: int = 3) -> str:
    """A number as a person writes it: "1,966", "0.41", "175 billion", "3.15 × 10²³"."""
    value = float(value)
    if not math.isfinite(value) or value == 0:
        return {math.inf: "∞", -math.inf: "−∞"}.get(value, "0" if value == 0 else "not a number")
    size = abs(value)
    if size >= 1e15 or size < 1e-3:
        return _power_text(value, digits)
    for scale, word in ((TRILLION, " trillion"), (BILLION, " billion"), (MILLION, " million")):
        if float(f"{size:.{digits}g}") >= scale:
            return _plain_text(value / scale, digits) + word
    return _plain_text(value, digits)


def bytes_text(nbytes: Numeric, digits: int = 3) -> str:
    """A size in bytes with a decimal prefix: 1.12e12 is "1.12 TB" (GB is 10^9 bytes)."""
    prefixes = ((PB, "PB"), (TB, "TB"), (GB, "GB"), (MB, "MB"), (KB, "kB"), (1, "B"))
    return _scaled_text(nbytes, digits, prefixes)


def flops_text(flops: Numeric, digits: int = 3) -> str:
    """A rate or a count of FLOP with a decimal prefix: 989e12 is "989 TFLOP"."""
    prefixes = ((1e24, "YFLOP"), (1e21, "ZFLOP"), (EFLOP, "EFLOP"), (PFLOP, "PFLOP"), (TFLOP, "TFLOP"))
    return _scaled_text(flops, digits, (*prefixes, (GFLOP, "GFLOP"), (1e6, "MFLOP"), (1, "FLOP")))


def rate_text(flops_per_s: float, digits: int = 4) -> str:
    """A computing rate as data sheets print it: "989 TFLOP/s", "1,979 TFLOP/s", "24.3 EFLOP/s"."""
    if 1e12 <= flops_per_s < 1e16:
        return f"{number_text(flops_per_s / TFLOP, digits)} TFLOP/s"
    return f"{flops_text(flops_per_s, min(digits, 3))}/s"


def duration_text(seconds: Numeric, digits: int = 3) -> str:
    """A time in the unit a person would choose: "8.6 s", "43.4 days", "499 years"."""
    size = abs(float(seconds))
    if size == 0:
        return "0 s"
    for least, scale, unit in (
        (2 * YEAR, YEAR, "years"),
        (2 * DAY, DAY, "days"),
        (2 * HOUR, HOUR, "h"),
        (2 * MINUTE, MINUTE, "min"),
        (1, 1, "s"),
        (MS, MS, "ms"),
        (US, US, "µs"),
    ):
        if size >= least:
            return f"{number_text(seconds / scale, digits)} {unit}"
    return f"{number_text(seconds / 1e-9, digits)} ns"


def money_text(usd: float, digits: int = 3) -> str:
    """An amount of US dollars: "$2.00", "$4,100", "$3 million"."""
    sign, size = ("−" if usd < 0 else ""), abs(float(usd))
    if (size < 100 and size != int(size)) or 0 < size < 10:
        return f"{sign}${size:.2f}"
    return f"{sign}${number_text(size, digits)}"


def percent_text(fraction: Numeric, digits: int = 3) -> str:
    """A fraction of one as per cent: 0.3 is "30 %"."""
    return f"{number_text(100 * float(fraction), digits)} %"


def _plain_text(value: float, digits: int) -> str:
    """Significant digits, but never fewer than the integer part has; no trailing zeros."""
    value = float(f"{value:.{digits}g}") if abs(value) < 10 ** (digits - 1) else value
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value)))) if value else 0
    text = f"{value:,.{decimals}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.replace("-", "−")


def _power_text(value: float, digits: int) -> str:
    mantissa, power = f"{value:.{digits - 1}e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    raised = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{mantissa} × 10{raised}".replace("-", "−")


def _scaled_text(value: Numeric, digits: int, prefixes: tuple[tuple[float, str], ...]) -> str:
    value = float(value)
    for scale, unit in prefixes:
        if float(f"{abs(value):.{digits}g}") >= scale:
            return f"{number_text(value / scale, digits)} {unit}"
    return f"{number_text(value, digits)} {prefixes[-1][1]}"


# --- arguments that teach ----------------------------------------------------------------------


def require(
    name: str, value: object, unit: str = "", *, least: float = 0.0, most: float = math.inf, open_below: bool = True
) -> Any:
    """The value as a float (or an array of floats), if it lies in the range; else a ValueError that says so.

    `open_below` refuses `least` itself. Booleans, text and None are refused, arrays are checked whole.
    """
    if isinstance(value, (bool, str, bytes)) or value is None or isinstance(value, Quantity):
        hint = " Give the plain number in base units." if isinstance(value, Quantity) else ""
        raise ValueError(_refusal(name, value, unit, least, most, open_below) + hint)
    if isinstance(value, (int, float)) and (value > least if open_below else value >= least) and value <= most:
        return float(value)  # a model asks for hundreds of numbers: without numpy that is quick
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(_refusal(name, value, unit, least, most, open_below)) from None
    low_ok = array > least if open_below else array >= least
    if not bool(np.all(low_ok & (array <= most))):  # also refuses nan
        hint = ""
        if most == 1.0 and array.ndim == 0 and 1 < array <= 100:
            hint = f" A share is a fraction of one: {value} % is {float(array) / 100:g}."
        raise ValueError(_refusal(name, value, unit, least, most, open_below) + hint)
    return float(array) if array.ndim == 0 else array


def _refusal(name: str, value: object, unit: str, least: float, most: float, open_below: bool) -> str:
    """What was given and what is wanted, in one sentence."""
    kind = unit if unit.startswith("a ") else f"a number{' of ' + unit if unit else ''}"  # such as a fraction of one
    said = f"{name} is {value!r}{' ' + unit if unit and unit != kind else ''}"
    edge = f"more than {least:g}" if open_below else f"at least {least:g}"
    return f"{said}; it must be {kind}, {edge}{'' if most == math.inf else f' and at most {most:g}'}."


def require_whole(name: str, value: object, unit: str = "", *, least: int = 1) -> Any:
    """The value as an int (or an array of whole numbers), if it is whole and at least `least`."""
    number = require(name, value, unit, least=least, open_below=False)
    if not bool(np.all(np.equal(np.mod(number, 1), 0))):
        raise ValueError(f"{name} is {value!r}; it must be a whole number{' of ' + unit if unit else ''}.")
    return int(number) if isinstance(number, float) else number


@overload
def fewest(needed: float) -> int: ...
@overload
def fewest(needed: np.ndarray) -> np.ndarray: ...
def fewest(needed: Numeric) -> int | np.ndarray:
    """The fewest whole ones, at least 1, that hold this many. 160 GB on 80 GB devices is 2, despite rounding."""
    count = np.maximum(np.ceil(needed - 1e-9 * needed), 1)
    return int(count) if np.ndim(count) == 0 else count.astype(int)


# --- quantities that know what they count -------------------------------------------------------

_SIZES: dict[str, tuple[float, str]] = {  # unit: how many of its base unit
    "B": (1, "byte"),
    "byte": (1, "byte"),
    "bytes": (1, "byte"),
    "kB": (KB, "byte"),
    "MB": (MB, "byte"),
    "GB": (GB, "byte"),
    "TB": (TB, "byte"),
    "PB": (PB, "byte"),
    "KiB": (KiB, "byte"),
    "MiB": (MiB, "byte"),
    "GiB": (GiB, "byte"),
    "TiB": (TiB, "byte"),
    "bit": (1 / 8, "byte"),
    "Gb": (GB / 8, "byte"),
    "Gbit": (GB / 8, "byte"),
    "FLOP": (1, "FLOP"),
    "GFLOP": (GFLOP, "FLOP"),
    "TFLOP": (TFLOP, "FLOP"),
    "PFLOP": (PFLOP, "FLOP"),
    "EFLOP": (EFLOP, "FLOP"),
    "s": (1, "s"),
    "ms": (MS, "s"),
    "µs": (US, "s"),
    "us": (US, "s"),
    "min": (MINUTE, "s"),
    "h": (HOUR, "s"),
    "hour": (HOUR, "s"),
    "day": (DAY, "s"),
    "days": (DAY, "s"),
    "year": (YEAR, "s"),
    "years": (YEAR, "s"),
    "USD": (1, "USD"),
    "$": (1, "USD"),
}


def _base(unit: str) -> tuple[float, str]:
    """How many base units one `unit` is, and the base unit; an unknown word counts itself."""
    if unit in _SIZES:
        return _SIZES[unit]
    word = unit[:-1] if len(unit) > 2 and unit.endswith("s") else unit
    return 1.0, "param" if word == "parameter" else word


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """A value with the unit it is counted in and what it is counted per: `Quantity(16, "GB", per="rank")`.

    Sums and comparisons need the same dimension and the same "per"; products and quotients cancel:
    GB per rank × ranks is GB. Several "per"s are a tuple: `per=("rank", "step")`.
    """

    value: float
    unit: str = ""
    per: str | tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.value, (bool, str)) or not isinstance(self.value, (int, float, np.number)):
            raise ValueError(f"Quantity's value is {self.value!r}; it must be a number; the unit comes next.")
        unit, *below = str(self.unit).split("/")
        per = (self.per,) if isinstance(self.per, str) and self.per else tuple(self.per)
        object.__setattr__(self, "unit", unit.strip())
        object.__setattr__(self, "per", (*(name.strip() for name in below), *per))

    @property
    def base(self) -> float:
        """The value in base units (bytes, FLOP, seconds, USD) per base unit."""
        value = float(self.value)
        for name in filter(None, self.unit.split("·")):
            value *= _base(name)[0]
        for name in self.per:
            value /= _base(name)[0]
        return value

    @property
    def dimension(self) -> tuple[tuple[str, int], ...]:
        """What is counted, as sorted (base unit, power) pairs; () for a pure number."""
        powers: Counter[str] = Counter()
        for name in filter(None, self.unit.split("·")):
            powers[_base(name)[1]] += 1
        for name in self.per:
            powers[_base(name)[1]] -= 1
        return tuple(sorted((name, power) for name, power in powers.items() if power))

    def to(self, unit: str, per: str | tuple[str, ...] = ()) -> "Quantity":
        """The same quantity in another unit; the "per"s stay unless given."""
        other = Quantity(1.0, unit, per or (() if "/" in unit else self.per))
        self._must_match(other, "convert", "to")
        return Quantity(self.base / other.base, other.unit, other.per)

    def __add__(self, other: "Quantity | float") -> "Quantity":
        self._must_match(other, "add", "and")
        one = Quantity(1.0, self.unit, self.per).base
        return Quantity((self.base + _as_quantity(other).base) / one, self.unit, self.per)

    def __radd__(self, other: "Quantity | float") -> "Quantity":
        return self if isinstance(other, (int, float)) and other == 0 else self + other  # sum() starts at 0

    def __sub__(self, other: "Quantity | float") -> "Quantity":
        self._must_match(other, "subtract", "and")
        return self + _as_quantity(other) * -1

    def __mul__(self, other: "Quantity | float") -> "Quantity | float":
        if not isinstance(other, Quantity):
            return Quantity(self.value * other, self.unit, self.per)
        return _from_base(self.base * other.base, dict(self.dimension), dict(other.dimension))

    __rmul__ = __mul__

    def __truediv__(self, other: "Quantity | float") -> "Quantity | float":
        if not isinstance(other, Quantity):
            return Quantity(self.value / other, self.unit, self.per)
        below = {name: -power for name, power in other.dimension}
        return _from_base(self.base / other.base, dict(self.dimension), below)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantity) or self.dimension != other.dimension:
            return NotImplemented if not isinstance(other, Quantity) else False
        return math.isclose(self.base, other.base, rel_tol=1e-12)

    def __hash__(self) -> int:
        return hash(self.dimension)  # equal within rounding must hash alike

    def __lt__(self, other: "Quantity | float") -> bool:
        self._must_match(other, "compare", "and")
        return self.base < _as_quantity(other).base

    def __le__(self, other: "Quantity | float") -> bool:
        self._must_match(other, "compare", "and")
        return self.base <= _as_quantity(other).base

    def __repr__(self) -> str:
        below = "".join(f" per {name}" for name in self.per)
        return f"{number_text(self.value)}{' ' + self.unit if self.unit else ''}{below}"

    def _must_match(self, other: "Quantity | float", verb: str, link: str) -> None:
        if _as_quantity(other).dimension != self.dimension:
            raise ValueError(
                f"Cannot {verb} {self!r} {link} {other!r}: "
                f"{_dimension_text(self)} is not {_dimension_text(_as_quantity(other))}. "
                "Multiply or divide by what is missing first."
            )


def _as_quantity(value: Quantity | float) -> Quantity:
    return value if isinstance(value, Quantity) else Quantity(value)


def _dimension_text(quantity: Quantity) -> str:
    if not quantity.dimension:
        return "a pure number"
    above = "·".join(name for name, power in quantity.dimension for _ in range(power))
    below = "".join(f" per {name}" for name, power in quantity.dimension for _ in range(-power))
    return f"{above or '1'}{below}"


def _from_base(value: float, left: dict[str, int], right: dict[str, int]) -> "Quantity | float":
    """A product in base units, with what cancels gone; a plain float when everything does."""
    powers = {name: left.get(name, 0) + right.get(name, 0) for name in sorted({*left, *right})}
    above = "·".join(name for name, power in powers.items() for _ in range(power))
    below = tuple(name for name, power in powers.items() for _ in range(-power))
    return Quantity(value, above, below) if above or below else value


GB_per_rank = Quantity(1, "GB", per="rank")
bytes_per_param = Quantity(1, "byte", per="param")
tokens_per_step = Quantity(1, "token", per="step")
