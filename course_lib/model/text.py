"""The text that the course's model learns: small stories of people who give each other things, and count them.

It was written by `write` below and ships as a file. It has something to learn at every scale: letters (spelling), words
(who is "she", one pear or two pears), and sums over a whole story (how many are left).

Training samples are numbered: sample i is `seq_len` characters of the text from a place that follows from i and the
seed. A batch is `size` samples in a row, so any split of a batch, over ranks or over time, meets the same samples.
"""

import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor

from course_lib.estimate.units import require_whole

FILE = Path(__file__).with_name("text.txt")
PEOPLE = {"she": ("Ada", "Grace", "Mary", "Katherine", "Sofia"), "he": ("Alan", "John", "Leslie", "Edsger", "Tim")}
THINGS = ("pear", "coin", "stone", "book", "fig", "shell")
PLACES = ("in the garden", "by the river", "at the market", "under the old bridge", "on the hill", "near the mill")
Item = TypeVar("Item")
_STRIDE, _SHIFT = 2_654_435_769, 1_013_904_223  # both odd; the first is 2**32 / golden ratio


def write(stories: int = 1000, seed: int = 0) -> str:
    """The text from its seed. Only `random()` is drawn, whose numbers Python promises not to change."""
    coin = random.Random(seed)
    return "\n".join(_story(coin) for _ in range(stories))


def _story(coin: random.Random) -> str:
    def pick(among: Sequence[Item]) -> Item:
        return among[int(coin.random() * len(among))]

    first, second = pick(("she", "he")), pick(("she", "he"))
    giver = pick(PEOPLE[first])
    taker = pick([name for name in PEOPLE[second] if name != giver])
    thing, left, got = pick(THINGS), pick(range(3, 20)), 0
    say = [f"{giver} has {_count(left, thing)} {pick(PLACES)}."]
    for _ in range(pick(range(1, 4))):
        if left and pick((True, True, False)):
            gift = pick(range(1, min(left, 9) + 1))
            left, got = left - gift, got + gift
            say.append(f"{first.capitalize()} gives {_count(gift, thing)} to {taker}.")
            say.append(f"{taker} says thank you, and {giver} has {_count(left, thing)} left.")
        else:
            found = pick(range(1, 10))
            total = f"{left} + {found} = {left + found}"
            say.append(f"Then {first} finds {_count(found, thing)} {pick(PLACES)}: {total}.")
            left += found
    say.append(f"How many {thing}s has {giver}? {left}. And {taker}? {got}.\n")
    return " ".join(say)


def _count(number: int, thing: str) -> str:
    return f"{number if number else 'no'} {thing}{'' if number == 1 else 's'}"


@cache
def text() -> str:
    """The text that ships with the course."""
    return FILE.read_text(encoding="utf-8")


@cache
def vocabulary() -> str:
    """Every character of the text once, in order; a character's token is its place here. 64 at most."""
    return "".join(sorted(set(text())))


def encode(characters: str) -> Tensor:
    """The tokens of a text, int64; a character that the vocabulary lacks is a ValueError."""
    place = {character: token for token, character in enumerate(vocabulary())}
    unknown = sorted(set(characters) - set(place))
    if unknown:
        raise ValueError(f"No token for {''.join(unknown)!r}; the vocabulary is {vocabulary()!r}.")
    return torch.tensor([place[character] for character in characters], dtype=torch.int64)


def decode(tokens: Tensor) -> str:
    """The characters of tokens."""
    return "".join(vocabulary()[token] for token in tokens.flatten().tolist())


@cache
def _tokens() -> Tensor:
    return encode(text())


def batch(step: int, size: int, seq_len: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Samples step * size to (step + 1) * size - 1: tokens and targets, both (size, seq_len), targets one further
    on."""
    require_whole("step", step, least=0)
    require_whole("size", size, "sequences")
    require_whole("seed", seed, least=0)
    require_whole("seq_len", seq_len, "tokens")
    room = len(text()) - seq_len
    if room < 1:
        raise ValueError(f"seq_len is {seq_len}; it must be less than the text's {len(text())} characters.")
    number = torch.arange(step * size, (step + 1) * size)
    start = (number * _STRIDE + (seed + 1) * _SHIFT) % 2**32 * room >> 32
    rows = _tokens()[start[:, None] + torch.arange(seq_len + 1)]
    return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()
