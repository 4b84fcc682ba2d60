"""Values that no answer should return, and right values spoilt in one place."""

import math
import re
from collections.abc import Iterator

import torch

LOOP: list = []
LOOP.append([LOOP])
HUGE = 10**400  # as a float it overflows
NAN_ROW = torch.full((3,), math.nan, dtype=torch.float64)

JUNK: list[object] = [
    *(None, True, False, 0, 3, -1.0, HUGE, -HUGE, 1e308, math.nan, math.inf, -math.inf),
    *("", "sum", "12", "1" * 10_000, b"x", object(), {1}, 1j),
    *([], (), {}, [[]], [{}], [None], [1, 9], (1, 2, 3, 4), {"a": 1}, [None] * 8, [[None]] * 4, (0.0, 0.0), [HUGE] * 4),
    *((math.nan, "compute"), ("memory", "shard state", math.nan), (None, None, None), (1.0, (0, 0), (0, 0))),
    *([(1.0, "x", None)] * 3, [("sum", None)] * 3, [{"compute": math.nan, "idle": 3}] * 2, [("F", HUGE, 0)] * 4),
    *([["0F0" * 999]] * 4, [[("F", True, 0.0)]] * 4, [[("X", -1, [])]] * 4, ["0F0", "0B0", "1F0", "1B0"]),
    *({"refused": None}, {"returned": object()}, {"operations": HUGE}, {"word": [], "runs": HUGE}, {1: {2: [3]}}),
    *(
        torch.tensor(math.nan),
        torch.zeros(3),
        torch.zeros(0),
        torch.ones(2, 2, dtype=torch.bool),
        NAN_ROW,
        [NAN_ROW] * 3,
    ),
    *("3 ms [a / b / c]", "1e999 s [cpu4/ddp:measured.step_seconds]", "5,,, s [:]", LOOP),
]
ODD: list[object] = [
    *(None, -1, HUGE, math.nan, "x", [], {}, (1, 2, 3), LOOP),
    *(
        torch.tensor(1j),
        torch.tensor(math.nan),
        torch.ones(3, dtype=torch.bool),
        torch.zeros(2, 2, dtype=torch.complex64),
    ),
    *(torch.tensor(1.0).to(torch.float8_e5m2), torch.tensor(1, dtype=torch.uint64)),
]


def spoilt(value: object, odd: object, depth: int = 4) -> Iterator[object]:
    """`value` with one place replaced by something odd, for the first and last place of each list and each key."""
    if type(value) is dict and depth:
        for key, inner in value.items():
            yield from ({**value, key: each} for each in spoilt(inner, odd, depth - 1))
    elif type(value) in (list, tuple) and value and depth:
        for place in {0, len(value) - 1}:
            for each in spoilt(value[place], odd, depth - 1):
                yield type(value)([*value[:place], each, *value[place + 1 :]])
    yield odd


def resized(value: object) -> Iterator[object]:
    """`value` without its last item, with one item twice, and with a key that nobody asked for or without one."""
    if type(value) in (list, tuple):
        yield value[:-1]
        yield (*value, *value[-1:]) if type(value) is tuple else [*value, *value[-1:]]
    elif type(value) is dict:
        yield from ({other: value[other] for other in value if other != key} for key in value)
        yield {**value, "nobody asked": 1}


def numbers_in(value: object) -> set[str]:
    """The numbers of five digits and more in a value, as messages would write them."""
    if isinstance(value, dict):
        return numbers_in([*value.keys(), *value.values()])
    if isinstance(value, list | tuple):
        return set().union(*map(numbers_in, value)) if value is not LOOP else set()
    if type(value) not in (int, float) or not 1e-12 < abs(value) < 1e15:
        return set()
    written = {f"{value:,.6g}", f"{value:.6g}", str(value)} | ({f"{value:,}"} if type(value) is int else set())
    return {each for each in written if len(re.sub(r"[^1-9]", "", each)) >= 5}
