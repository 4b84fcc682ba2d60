"""How many devices a number of bytes needs, and how large a model a memory holds."""

from typing import Any

import numpy as np

from course_lib.estimate.memory.recipes import Convention, bytes_per_param
from course_lib.estimate.units import Numeric, require, require_whole


def fewest_devices(nbytes: Numeric, device_memory: Numeric, reserve: float = 0.0) -> Any:
    """The fewest devices whose memory together holds `nbytes`, spread evenly.

    `reserve` is the fraction of each device kept free for activations and buffers. An exact fit counts as fitting.
    """
    nbytes, memory = require("nbytes", nbytes, "bytes"), require("device_memory", device_memory, "bytes")
    usable = memory * (1 - require("reserve", reserve, "a fraction of one", most=0.99, open_below=False))
    needed = nbytes / usable
    count = np.ceil(needed - 1e-9 * needed)  # 160 GB on 80 GB devices is 2, despite rounding
    return int(max(count, 1)) if np.ndim(count) == 0 else np.maximum(count, 1).astype(int)


def largest_model(memory: Numeric, convention: str | Convention = "B") -> Any:
    """The most parameters whose training state fits in `memory` bytes, without activations."""
    return require("memory", memory, "bytes") / bytes_per_param(convention)


def headroom_bytes(nbytes: Numeric, device_memory: Numeric, devices: Numeric = 1) -> Any:
    """Bytes left on each device once `nbytes` are spread evenly over them; negative if they do not fit."""
    share = require("nbytes", nbytes, "bytes") / require_whole("devices", devices)
    return require("device_memory", device_memory, "bytes") - share
