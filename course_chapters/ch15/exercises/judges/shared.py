"""What several of chapter 15's judges use."""

import random
from typing import Any

import numpy as np

Rows = list[dict[str, Any]]


def column(kind: str, growth: str, ranks: Any, fewest: float) -> Any:
    if kind == "strong":
        return 1 / ranks
    if growth == "servers":
        return (ranks - fewest) / 8
    return np.log2(ranks / fewest) if growth == "doublings" else np.log(ranks / fewest)


def fewest(rows: Rows) -> int:
    return min(row["ranks"] for row in rows)


SIZES = ((8, 16, 32, 64, 128), (4, 8, 16, 32), (8, 24, 64, 160, 512), (16, 32, 128, 256))
BATCH = 2**20


def made(kind: str, growth: str, rng: random.Random) -> Rows:
    """Measurements of a job, a few per cent off the law."""
    ranks = rng.choice(SIZES)
    each, speed = rng.choice((8192, 12_288, 32_768)), rng.uniform(3e3, 4e4)
    rows = []
    for n in ranks:
        if kind == "strong":
            tokens, more = BATCH, 0.02 * BATCH / speed / ranks[-1] * 8
        else:
            tokens = each * n if kind == "weak" else rng.choice((1, 2, 4)) * each * n + 512 * n * (n == ranks[0])
            more = each / speed * 0.03 * float(column("weak", growth, float(n), float(ranks[0])))
        seconds = (tokens / n / speed + more) * rng.uniform(0.97, 1.03)
        rows.append({"ranks": n, "batch_tokens": tokens, "tokens_per_s": tokens / n / seconds})
    rng.shuffle(rows)
    return rows


Seconds = dict[str, float]
