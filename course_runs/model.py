"""The course's transformer for real runs: the same weights whatever the layout, and pieces of it for pipeline
stages."""

import zlib
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from course_lib.estimate.memory import stage_layers
from course_lib.model.transformer import Block, Config, RMSNorm, again, rotary_tables


class Piece(nn.Module):
    """Layers `blocks` of the model; the first piece has the embedding, the last the norm and the head.

    Names are the whole model's, so that a checkpoint and the drawing of weights do not depend on the cut.
    """

    def __init__(self, config: Config, blocks: Sequence[int], first: bool = True, last: bool = True) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab, config.hidden) if first else None
        self.blocks = nn.ModuleDict({str(number): Block(config) for number in blocks})
        self.norm = RMSNorm(config.hidden) if last else None
        self.head = nn.Linear(config.hidden, config.vocab, bias=False) if last else None

    def forward(self, x: Tensor) -> Tensor:
        """Tokens (B, S), or what the piece before gave (B, S, H); logits (B, S, V), or what the next piece takes."""
        if self.embedding is not None:
            x = self.embedding(x)
        full = self.config.checkpointing == "full" and self.training
        for block in self.blocks.values():
            x = again(block, x) if full else block(x)
        if self.norm is None or self.head is None:
            return x
        return self.head(self.norm(x))


def pieces_of(config: Config, pieces: int) -> list[range]:
    """The layers of each piece: as even as whole layers allow."""
    counts = [int(stage_layers(config.layers, pieces, piece)) for piece in range(pieces)]
    starts = [sum(counts[:piece]) for piece in range(pieces)]
    return [range(start, start + count) for start, count in zip(starts, counts, strict=True)]


def build(config: Config, device: torch.device, piece: int = 0, pieces: int = 1, seed: int = 0) -> Piece:
    """One piece of the model on `device`, its weights drawn there: equal on every device of a kind, for every cut."""
    with torch.device("meta"):
        model = Piece(config, pieces_of(config, pieces)[piece], first=piece == 0, last=piece == pieces - 1)
    model.to_empty(device=device)
    cos, sin = rotary_tables(config.seq_len, config.head_dim)  # buffers of every block's attention
    for block in model.blocks.values():
        assert isinstance(block, Block)
        block.attention.cos.copy_(cos)
        block.attention.sin.copy_(sin)
    for name, weight in model.named_parameters():
        draw(name, weight, config, seed)
    return model


@torch.no_grad()
def draw(name: str, weight: Tensor, config: Config, seed: int) -> None:
    """Fill a parameter from its name and the seed: matrices normal with variance 1 / inputs, those that add to x
    smaller."""
    if weight.ndim == 1:
        weight.fill_(1.0)
        return
    coin = torch.Generator(device=weight.device).manual_seed(zlib.crc32(f"{seed}:{name}".encode()))
    adds = name.endswith(("wo.weight", "down.weight"))
    weight.normal_(std=(weight.shape[-1] * (2 * config.layers if adds else 1)) ** -0.5, generator=coin)
