"""Tokens in shards with an index: written once, checked before a run, and read by position through a store.

A shard is a file of 16-bit tokens. The index names every shard with its tokens and checksum, so that a missing, short
or damaged one is an error before the first step, not a gap in the middle of a run.
"""

import json
import time
import zlib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TypedDict

import numpy as np

from course_lib.estimate.units import require_whole
from course_lib.messages import Trouble, count_text

TOKEN = np.dtype("<u2")  # 2 bytes: enough for vocabularies up to 65,536
INDEX = "index.json"
Read = Callable[[Path, int, int], bytes]  # (file, first byte, bytes) -> what is there


def read_file(path: Path, first: int, count: int) -> bytes:
    """`count` bytes of a file from `first` on: a store without delay."""
    with path.open("rb") as file:
        file.seek(first)
        return file.read(count)


@dataclass(frozen=True)
class SlowStore:
    """A store that answers after `latency` seconds and then sends `bandwidth` bytes/s: `read_file` with sleeps."""

    latency: float
    bandwidth: float

    def __post_init__(self) -> None:
        if self.latency < 0 or self.bandwidth <= 0:
            raise ValueError(f"A store has a latency of at least 0 s and bandwidth above 0 bytes/s, not {self}.")

    def seconds(self, count: int) -> float:
        """What a request for `count` bytes takes."""
        return self.latency + count / self.bandwidth

    def __call__(self, path: Path, first: int, count: int) -> bytes:
        time.sleep(self.seconds(count))
        return read_file(path, first, count)


@dataclass(frozen=True)
class Dataset:
    """A folder of shards as one row of tokens; sample i is `seq_len` tokens from i · `seq_len` on, and the next one."""

    folder: Path
    seq_len: int
    files: tuple[str, ...]
    ends: tuple[int, ...]  # tokens up to the end of each shard

    @property
    def samples(self) -> int:
        """Whole samples; each needs one token more, its last target."""
        return (self.ends[-1] - 1) // self.seq_len

    def sample(self, number: int, read: Read = read_file) -> np.ndarray:
        """The `seq_len` + 1 tokens of a sample, which may lie in several shards; one request for each shard."""
        if not 0 <= number < self.samples:
            raise IndexError(f"sample {number} of {self.folder}, which has {count_text(self.samples, 'sample')}.")
        at, parts = number * self.seq_len, []
        end = at + self.seq_len + 1
        while at < end:
            shard = bisect_right(self.ends, at)
            begin, until = (self.ends[shard - 1] if shard else 0), min(end, self.ends[shard])
            size = TOKEN.itemsize
            parts.append(read(self.folder / self.files[shard], (at - begin) * size, (until - at) * size))
            at = until
        return np.frombuffer(b"".join(parts), TOKEN)


def write_shards(tokens: Sequence[int] | np.ndarray, folder: Path, shard_tokens: int, seq_len: int) -> Path:
    """Write tokens into shards of `shard_tokens`, the last one shorter, and the index after all of them."""
    require_whole("shard_tokens", shard_tokens, "tokens")
    require_whole("seq_len", seq_len, "tokens")
    row = np.asarray(tokens)
    if len(row) <= seq_len:
        raise ValueError(f"{count_text(len(row), 'token')} are no sample of {seq_len} and its last target.")
    if row.min() < 0 or row.max() >= 2**16:
        raise ValueError(f"Tokens are {row.min()} to {row.max()}; a shard holds 0 to {2**16 - 1:,}.")
    folder.mkdir(parents=True, exist_ok=True)
    shards = []
    for number, first in enumerate(range(0, len(row), shard_tokens)):
        part = row[first : first + shard_tokens].astype(TOKEN)
        name = f"shard-{number:05}.bin"
        (folder / name).write_bytes(part.tobytes())
        shards.append({"file": name, "tokens": len(part), "crc32": zlib.crc32(part.tobytes())})
    (folder / INDEX).write_text(json.dumps({"seq_len": seq_len, "shards": shards}, indent=1), encoding="utf-8")
    return folder


def open_dataset(folder: Path) -> Dataset:
    """The dataset of a folder after a check of every shard; `Trouble` names each shard that is missing, short or
    damaged."""
    try:
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        wrong = [fault for shard in index["shards"] if (fault := _fault(folder, shard))]
    except FileNotFoundError:
        raise Trouble(f"{folder} has no {INDEX}.", "write the shards again: the index comes last") from None
    except (ValueError, KeyError, TypeError):
        raise Trouble(f"{folder / INDEX} is no index of shards.", "write the shards again") from None
    if wrong:
        raise Trouble(f"{folder}: {'; '.join(wrong)}.", "copy these shards again; a run must not skip them")
    ends = tuple(accumulate(shard["tokens"] for shard in index["shards"]))
    return Dataset(folder, index["seq_len"], tuple(shard["file"] for shard in index["shards"]), ends)


class Shard(TypedDict):
    """An entry of the index."""

    file: str
    tokens: int
    crc32: int


def _fault(folder: Path, shard: Shard) -> str:
    path, size = folder / shard["file"], shard["tokens"] * TOKEN.itemsize
    if not path.exists():
        return f"{shard['file']} is missing"
    content = path.read_bytes()
    if len(content) != size:
        return f"{shard['file']} has {count_text(len(content), 'byte')} of {size:,}"
    return "" if zlib.crc32(content) == shard["crc32"] else f"{shard['file']} has another checksum"
