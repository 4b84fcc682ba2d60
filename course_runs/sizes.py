"""Models to run, by name: from one that a laptop trains in seconds to one that fills eight GPUs."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from course_lib.messages import Trouble

if TYPE_CHECKING:
    from course_lib.model.transformer import Config


@dataclass(frozen=True)
class Size:
    """A model's shape and what a step of it is fed, where nothing else is asked for."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    vocab: int
    seq_len: int
    batch: int  # sequences in a step, all ranks together, on eight ranks or fewer

    def config(self, seq_len: int | None = None, checkpointing: str = "none") -> "Config":
        """The `transformer.Config` of this size."""
        from course_lib.model.transformer import Config

        return Config(
            vocab=self.vocab,
            layers=self.layers,
            hidden=self.hidden,
            heads=self.heads,
            kv_heads=self.kv_heads,
            seq_len=seq_len or self.seq_len,
            checkpointing=checkpointing,
        )


# The text of the course has fewer than 64 characters; the larger vocabularies are there for their arithmetic and
# memory.
SIZES = {
    "1m": Size(layers=4, hidden=144, heads=8, kv_heads=4, vocab=64, seq_len=128, batch=16),
    "10m": Size(layers=8, hidden=320, heads=8, kv_heads=8, vocab=64, seq_len=128, batch=16),
    "60m": Size(layers=12, hidden=640, heads=10, kv_heads=10, vocab=256, seq_len=512, batch=16),
    "125m": Size(layers=12, hidden=768, heads=12, kv_heads=12, vocab=32_000, seq_len=1024, batch=16),
    "350m": Size(layers=24, hidden=1024, heads=16, kv_heads=16, vocab=32_000, seq_len=2048, batch=16),
    "1b": Size(layers=18, hidden=2048, heads=16, kv_heads=16, vocab=32_000, seq_len=2048, batch=16),
    "3b": Size(layers=36, hidden=2560, heads=20, kv_heads=20, vocab=32_000, seq_len=2048, batch=16),
    "7b": Size(layers=32, hidden=4096, heads=32, kv_heads=32, vocab=32_000, seq_len=4096, batch=16),
}


def size(name: str) -> Size:
    """The size with this name; Trouble lists the names."""
    if name not in SIZES:
        raise Trouble(f"There is no model size {name!r}.", f"choose from {', '.join(SIZES)}")
    return SIZES[name]
