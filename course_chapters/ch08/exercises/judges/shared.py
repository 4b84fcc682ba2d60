"""What several of chapter 08's judges use."""

PER_PARAM = 16


def hsdp(gathers: int, params: float, ranks: int, group: int) -> tuple[float, float, float]:
    """Bytes of state on a rank, bytes it sends inside its group in a step, and across groups."""
    copies = ranks // group
    inside = (gathers + 1) * (group - 1) / group * 2 * params
    return PER_PARAM * params / group, inside, 2 * (copies - 1) / copies * 2 * params / group


def crossover(flops: float, bandwidth: float, ranks: int, gather: float, reduce: float) -> float:
    """Tokens per GPU at which sending takes as long as computing."""
    return (2 * gather + reduce) * (ranks - 1) / ranks * flops / bandwidth / 6
