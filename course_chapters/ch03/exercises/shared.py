"""What several of chapter 03's cards use."""

from typing import TypedDict

from course_lib.estimate import facts

CHIPS = ("H100 SXM", "A100 SXM 80GB", "V100 SXM2 32GB")
DEVICES = ("H100 SXM", "A100 SXM 80GB", "H200 SXM", "B200 SXM", "B300 SXM")


class Rates(TypedDict):
    """A device and its rates: dense FLOP/s, and bytes per second."""

    device: str
    flops: float
    bandwidth: float
    network: float


def rates(device: str) -> Rates:
    """A device's dense peak, memory bandwidth and network in one direction, as plain numbers."""
    one = facts.device(device)
    flops, bandwidth, network = map(float, (one.dense_flops, one.bandwidth, one.network_one_way))
    return {"device": device, "flops": flops, "bandwidth": bandwidth, "network": network}


OTHERS = ("H200 SXM", "A100 SXM 80GB", "B200 SXM")  # devices of variants
