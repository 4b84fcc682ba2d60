"""Energy and carbon of a run: GPUs, their servers, the building around them, and the grid that feeds it."""

from course_lib.estimate import facts
from course_lib.estimate.units import HOUR, require

SERVER_GPUS = 8
WATTS_OF_SERVER = facts.claim("dgx-power").value / SERVER_GPUS  # of a GPU with its part of the server, at most
PUE = facts.claim("bloom-pue").value  # energy of the building over that of its servers


def energy_kwh(gpus: int, seconds: float, watts: float, pue: float = 1.0) -> float:
    """Energy in kWh of `gpus` that draw `watts` each for `seconds`; `pue` at least 1 adds cooling and conversion."""
    require("gpus", gpus, "GPUs", open_below=False)
    require("seconds", seconds, "s", open_below=False)
    require("watts", watts, "W", open_below=False)
    if not pue >= 1:
        raise ValueError(f"pue is {pue}: a building uses at least what its servers use, so it is 1 or more.")
    return gpus * watts * pue * seconds / HOUR / 1000


def carbon_tonnes(kwh: float, grams: float) -> float:
    """Tonnes of CO₂ equivalent of this energy from a grid of `grams` per kWh."""
    return require("kwh", kwh, "kWh", open_below=False) * require("grams", grams, "g/kWh", open_below=False) / 1e6


def intensity(tonnes: float, kwh: float) -> float:
    """Grams per kWh that a report of tonnes and energy implies."""
    return require("tonnes", tonnes, "t", open_below=False) * 1e6 / require("kwh", kwh, "kWh")
