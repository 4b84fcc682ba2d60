"""What a run will cost before it starts, and the stop that holds it to that. Prices are the facts'; yours is
`--price`."""

import math
import time
from dataclasses import dataclass

from course_lib.estimate.compute import cost_usd
from course_lib.estimate.units import HOUR
from course_lib.messages import Trouble

_PRICES = {
    "H100 SXM": "H100 hour, hyperscaler high",
    "H100 PCIe": "H100 hour, hyperscaler high",
    "H200 SXM": "H200 hour, specialty low",
    "A100 SXM 80GB": "A100 hour, specialty low",
    "A100 PCIe 80GB": "A100 hour, specialty low",
}


@dataclass(frozen=True)
class Budget:
    """How long a session of `gpus` devices may take, in seconds, and what an hour of one costs in dollars."""

    seconds: float = math.inf
    gpus: int = 0
    price: float = 0.0
    begun: float = 0.0  # time.monotonic()

    @property
    def left(self) -> float:
        """Seconds until the stop."""
        return self.seconds - (time.monotonic() - self.begun)

    @property
    def spent(self) -> float:
        """Dollars so far."""
        return dollars(time.monotonic() - self.begun, self.gpus, self.price)


def dollars(seconds: float, gpus: int, price: float) -> float:
    """US dollars for `gpus` devices over `seconds`, at `price` dollars per device and hour."""
    return float(cost_usd(max(seconds, 0.0) * gpus / HOUR, price))


def budget(gpus: int, price: float, max_minutes: float | None, max_cost: float | None) -> Budget:
    """The tighter of the two limits; Trouble where a cost is limited and no price is known."""
    if max_cost is not None and gpus and not price:
        raise Trouble("--max-cost needs to know what an hour costs.", "give --price, in dollars per GPU and hour")
    limits = [math.inf]
    if max_minutes is not None:
        limits.append(60.0 * max_minutes)
    if max_cost is not None and gpus and price:
        limits.append(max_cost / (gpus * price) * HOUR)
    return Budget(seconds=min(limits), gpus=gpus, price=price, begun=time.monotonic())


def usual_price(device: str | None) -> tuple[float, str]:
    """Dollars per hour of a device of the facts, and where the number is from; 0 where the facts have none."""
    from course_lib.estimate import facts

    name = _PRICES.get(device or "")
    if name is None:
        return 0.0, "no price is known for this device: give --price"
    price = facts.price(name)
    return float(price), f"{price.condition} ({price.source}, {price.date})"
