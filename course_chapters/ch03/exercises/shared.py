"""What several of chapter 03's cards use."""

from typing import Any

from course_lib.estimate import facts

CHIPS = ("H100 SXM", "A100 SXM 80GB", "V100 SXM2 32GB")
DEVICES = ("H100 SXM", "A100 SXM 80GB", "H200 SXM", "B200 SXM", "B300 SXM")


def rates(device: str) -> dict[str, Any]:
    """A device's dense peak, memory bandwidth and network in one direction, as plain numbers."""
    one = facts.device(device)
    rate = {"flops": one.dense_flops, "bandwidth": one.bandwidth, "network": one.network_one_way}
    return {"device": device, **{name: float(value) for name, value in rate.items()}}


OTHERS = ("H200 SXM", "A100 SXM 80GB", "B200 SXM")  # devices of variants
