"""What several of chapter 08's cards use."""

from course_lib.estimate import facts


def card_memory(device: str = "H100 SXM") -> float:
    """Bytes of memory of one device, as a plain number."""
    return float(facts.device(device).memory)
