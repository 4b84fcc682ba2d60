"""Weights on their way from one layout to another, bucket by bucket, as recorded on the metered cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from course_chapters.ch19.weight_sync import Box, Held, Transfer, buckets, holdings, sync, sync_bytes, sync_map
from course_lib.cluster import Run, simulate
from course_lib.draw.explore import Explorer, explore, menu, play
from course_lib.draw.palette import EMPTY, INK, SHADES, SOFT, VERMILION
from course_lib.draw.sheets import Sheet
from course_lib.estimate.memory import Layout
from course_lib.estimate.units import count_text
from course_lib.model import transformer
from course_lib.model.transformer import Config

MODEL = Config(layers=1, hidden=16, heads=4, kv_heads=2, vocab=48, seq_len=16)
DTYPE = torch.bfloat16  # of the weights on their way
TRAINERS = {"ZeRO-3 on 4": Layout(dp=4, zero=3), "tp 2 × ZeRO-3 on 2": Layout(tp=2, dp=2, zero=3), "tp 4": Layout(tp=4)}
GENERATORS = {"tp 4": Layout(tp=4), "2 replicas of tp 2": Layout(tp=2, dp=2), "1 replica": Layout()}
SHOWN = {  # tensors of the picture, by the word for them
    "blocks.0.attention.wq.weight": "queries",
    "blocks.0.attention.wo.weight": "attention out",
    "blocks.0.mlp.up.weight": "MLP up",
    "blocks.0.mlp.down.weight": "MLP down",
}


@dataclass(frozen=True, slots=True)
class Synced:
    """A recorded sync: what each rank holds, the rounds, and the run."""

    held: Held
    needed: Held
    rounds: Sequence[Sequence[Transfer]]
    run: Run
    whole: Mapping[str, Tensor]

    def moved(self, rounds: int) -> int:
        """Bytes on the meter until this round: a pair of ranks has one message in each round in which it exchanges."""
        left: dict[tuple[int, int], list[int]] = {}
        for each in self.run.messages:
            left.setdefault((each.src, each.dst), []).append(each.nbytes)
        pairs = [{(each.source, each.target) for each in some} for some in self.rounds[:rounds]]
        return sum(left[pair].pop(0) for some in pairs for pair in sorted(some))


@lru_cache(maxsize=16)
def record(trainer: str, generator: str) -> Synced:
    """The library's sync between two of the layouts above."""
    whole = {name: each.detach() for name, each in transformer.build(MODEL, 1).named_parameters()}
    full = holdings(MODEL, Layout())[0]
    held = holdings(MODEL, TRAINERS[trainer])
    needed = holdings(MODEL, GENERATORS[generator], len(held))
    # the smallest that works
    limit = DTYPE.itemsize * whole["embedding.weight"].numel() // int(GENERATORS[generator].tp)
    mine = [{name: box.of(whole[name], full[name]) for name, box in each.items()} for each in held.values()]
    run = simulate(
        sync, len(held) + len(needed), (held, needed), [(each, DTYPE, limit) for each in [*mine, *[{}] * len(needed)]]
    )
    return Synced(held, needed, buckets(sync_map(held, needed), limit, DTYPE.itemsize), run, whole)


def draw_sync(bucket: int = 3, trainer: str = "tp 2 × ZeRO-3 on 2", generator: str = "tp 4") -> Sheet:
    """The parts that each generator rank has after a number of buckets, in the color of the rank that sent them."""
    film = record(trainer, generator)
    bucket = min(bucket, len(film.rounds))
    sheet = Sheet(4.75)
    before = [each for some in film.rounds[: max(bucket - 1, 0)] for each in some]
    now = film.rounds[bucket - 1] if bucket else []
    floor = sync_bytes(film.held, film.needed, DTYPE.itemsize)
    title = f"After bucket {bucket} of {len(film.rounds)}: {film.moved(bucket):,} of {floor.floor:,} bytes"
    names = sorted({SHOWN.get(each.box.name, "others") for each in now}, key=[*SHOWN.values(), "others"].index)
    more = f"This bucket: {', '.join(names)}." if now else "Nothing has been sent."
    sheet.head(title, f"{more} Whole tensors for every rank would be {floor.whole:,} bytes.")
    for side, (left, holds) in enumerate(((0.15, film.held), (3.85, film.needed))):
        sheet.text(left + 0.66, 3.92, ("trainer: ", "generator: ")[side] + (trainer, generator)[side], bold=True)
        for row, (rank, boxes) in enumerate(holds.items()):
            top = 3.62 - 0.84 * row
            sheet.text(left, top - 0.3, f"rank {rank}", va="center", ink=INK)
            parts = (
                [(rank, box) for box in boxes.values()]
                if not side
                else [(each.source, each.box) for each in [*before, *now] if each.target == rank]
            )
            fresh = [each.box for each in now if rank in (each.source, each.target)]
            _tensors(sheet, left + 0.62, top, film.whole, parts, fresh)
    _key(sheet, len(film.held))
    got = count_text(sum(each.box.numel for each in [*before, *now]), "number")
    sheet.alt = (
        f"Weights from the trainer, {trainer}, to the generator, {generator}. {title}; {more} The generator's ranks "
        f"have {got}, each from one of the ranks that hold it."
    )
    return sheet


def _tensors(
    sheet: Sheet,
    left: float,
    top: float,
    whole: Mapping[str, Tensor],
    parts: Sequence[tuple[int, Box]],
    fresh: list[Box],
) -> None:
    """Four tensors side by side, with parts in the color of the trainer rank that they come from."""
    for name, words in SHOWN.items():
        rows, columns = whole[name].shape
        scale = 0.52 / max(rows, columns)
        sheet.boxes([(left, left + columns * scale, top - rows * scale, top)], EMPTY, order=1)

        def place(box: Box, left: float = left, scale: float = scale) -> tuple[float, float, float, float]:
            (first, last), (start, stop) = box.ranges
            return left + start * scale, left + stop * scale, top - last * scale, top - first * scale

        for source, box in parts:
            if box.name == name:
                sheet.boxes([place(box)], SHADES[source], edge=SOFT)
        sheet.boxes([place(box) for box in fresh if box.name == name], "none", edge=VERMILION, thick=1.5, order=3)
        sheet.text(left, top - 0.64, words, ink=SOFT, size=7)
        left += max(columns * scale, 0.5) + 0.24


def _key(sheet: Sheet, ranks: int) -> None:
    x = sheet.keys(0.22, 0.2, {f"held by rank {rank}": SHADES[rank] for rank in range(ranks)}, gap=0.3)
    sheet.boxes([(x, x + 0.1, 0.15, 0.25)], "none", edge=VERMILION, thick=1.5)
    sheet.text(x + 0.15, 0.2, "in this bucket", va="center")


def weights_on_their_way() -> Explorer:
    """Play a sync bucket by bucket; change both layouts."""
    most = max(len(record(trainer, generator).rounds) for trainer in TRAINERS for generator in GENERATORS)
    return explore(
        draw_sync,
        bucket=play(range(most + 1), 3, label="bucket", interval=900, last=_last),
        trainer=menu(tuple(TRAINERS), "tp 2 × ZeRO-3 on 2", label="trainer"),
        generator=menu(tuple(GENERATORS), "tp 4", label="generator"),
    )


def _last(setting: dict) -> int:
    return len(record(setting["trainer"], setting["generator"]).rounds)
