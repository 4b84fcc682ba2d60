"""A transformer in stages."""

from collections.abc import Sequence

from torch import Tensor, nn

from course_lib.model.transformer import Transformer, again
from course_lib.parallel.pipeline.tied_weights import Tie
from course_lib.parallel.schedules import cut


class TransformerStage(nn.Module):
    """Consecutive blocks of a transformer, with the embedding before the first and norm and head after the last."""

    def __init__(self, model: Transformer, blocks: range) -> None:
        super().__init__()
        self.config, self.first, self.last = model.config, blocks.start == 0, blocks.stop == len(model.blocks)
        if self.first:
            self.embedding = model.embedding
            if model.config.positions == "learned":
                self.positions = model.positions
        self.blocks = nn.ModuleList(model.blocks[at] for at in blocks)
        if self.last:
            self.norm, self.head = model.norm, model.head

    def forward(self, x: Tensor) -> Tensor:
        """This stage's output, or logits, from tokens or the previous stage's output."""
        if self.first:
            x = Transformer.embed(self, x)
        for block in self.blocks:
            x = again(block, x) if self.config.checkpointing == "full" and self.training else block(x)
        return self.head(self.norm(x)) if self.last else x


def transformer_stages(model: Transformer, stages: int, costs: Sequence[float] | None = None) -> list[TransformerStage]:
    """A transformer in that many stages, which share its parameters. `costs`, one per block, balance uneven blocks."""
    return [TransformerStage(model, blocks) for blocks in cut(costs or [1.0] * len(model.blocks), stages)]


def tied_ends(model: Transformer, stages: int) -> list[Tie]:
    """The ties of a transformer in this many stages: its embedding and head, if they are one matrix."""
    return [((0, "embedding.weight"), (stages - 1, "head.weight"))] if model.config.tied else []
