"""Texts of the numbers in chapter 18's sections on tiles and on communication under a matmul."""

from collections.abc import Callable, Mapping

from course_chapters.ch18 import attention, published, tile_film
from course_lib.estimate import facts
from course_lib.estimate.units import bytes_text, number_text, percent_text

LONG, HEAD, TILE, BF16 = 32768, 128, 128, 2  # tokens, width of a head, queries of a tile, bytes
READING = ("dao-2022", "dao-2023", "shah-2024", "titan-async-tp")


def _of_peak(name: str) -> str:
    return percent_text(published.measured(name) / facts.device("H100 SXM").dense_flops, 2)


def _gain(plain: str, under: str) -> str:
    return number_text(published.speedup(plain, under), 3)


NUMBERS: Mapping[str, Callable[[], str]] = {
    "film_tokens": lambda: str(tile_film.TOKENS),
    "long": lambda: f"{LONG:,}",
    "head": lambda: str(HEAD),
    "tile": lambda: str(TILE),
    "long_tiled": lambda: bytes_text(attention.forward_traffic(LONG, HEAD, TILE, TILE, BF16)),
    "long_unfused": lambda: bytes_text(attention.unfused_traffic(LONG, HEAD, BF16)[0]),
    "long_scores": lambda: bytes_text(LONG * LONG * BF16),
    "flash2": lambda: _of_peak("flash 2 on H100"),
    "flash3": lambda: _of_peak("flash 3 on H100"),
    "tp": lambda: number_text(published.measured("titan TP"), 3),
    "async_tp": lambda: number_text(published.measured("titan async TP"), 3),
    "async_gain": lambda: _gain("titan TP", "titan async TP"),
    "async_gain_fp8": lambda: _gain("titan TP fp8", "titan async TP fp8"),
}
