"""How many devices a number of bytes needs, and how large a model a memory holds."""

from typing import overload

import numpy as np

from course_lib.estimate.memory.recipes import Convention, bytes_per_param
from course_lib.estimate.units import Number, Numeric, fewest, require, require_whole


@overload
def fewest_devices(nbytes: float, device_memory: float, reserve: float = 0.0) -> int: ...
@overload
def fewest_devices(nbytes: Numeric, device_memory: Numeric, reserve: float = 0.0) -> int | np.ndarray: ...
def fewest_devices(nbytes: Numeric, device_memory: Numeric, reserve: float = 0.0) -> int | np.ndarray:
    """The fewest devices whose memory together holds `nbytes`, spread evenly.

    `reserve` is the fraction of each device kept free for activations and buffers. An exact fit counts as fitting.
    """
    nbytes, memory = require("nbytes", nbytes, "bytes"), require("device_memory", device_memory, "bytes")
    usable = memory * (1 - require("reserve", reserve, "a fraction of one", most=0.99, open_below=False))
    return fewest(nbytes / usable)


def largest_model(memory: Number, convention: str | Convention = "B") -> Number:
    """The most parameters whose training state fits in `memory` bytes, without activations."""
    return require("memory", memory, "bytes") / bytes_per_param(convention)


def headroom_bytes(nbytes: Number, device_memory: Number, devices: float = 1) -> Number:
    """Bytes left on each device once `nbytes` are spread evenly over them; negative if they do not fit."""
    share = require("nbytes", nbytes, "bytes") / require_whole("devices", devices)
    return require("device_memory", device_memory, "bytes") - share
