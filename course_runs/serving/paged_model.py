"""A model as the engine's computing function: logits from pages, and a token drawn for each request by its own seed."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from course_lib.model.transformer import Transformer
from course_lib.operate.serving.model_cache import PagedCache, paged_logits
from course_runs.serving.engine import Limits, Work


@dataclass(frozen=True)
class Sampling:
    """How a request's tokens are drawn. Temperature 0 takes the most likely token."""

    temperature: float = 0.0
    seed: int = 0


class PagedModel:
    """Computes the engine's iterations. Only the first `vocabulary` tokens are drawn; None: all that the model has."""

    def __init__(self, model: Transformer, limits: Limits, vocabulary: int | None = None) -> None:
        weight = model.embedding.weight
        self.model, self.vocabulary = model.eval(), vocabulary or model.config.vocab
        self.cache = PagedCache(model.config, limits.pages, limits.page_size, weight.dtype, weight.device)

    def __call__(self, work: Sequence[Work]) -> list[int]:
        """The next token for each work; for one that does not ask, a token that means nothing."""
        with torch.inference_mode():
            logits = paged_logits(self.model, self.cache, [each.chunk for each in work])[:, : self.vocabulary]
            tokens = logits.argmax(-1).tolist()
            for row, each in enumerate(work):
                how = each.generation.extra
                if each.asks and isinstance(how, Sampling) and how.temperature > 0:
                    tokens[row] = draw(logits[row], how, len(each.generation.reply))
        return tokens


def draw(logits_V: torch.Tensor, how: Sampling, position: int) -> int:
    """The token at `position` of a reply. It follows from logits, seed and position alone.

    So a reply does not depend on who else is in the batch, nor on whether it was interrupted and computed again.
    """
    mass = (logits_V.double() / how.temperature).softmax(-1).cumsum(-1)
    point = random.Random(f"{how.seed} {position}").random() * mass[-1]
    return min(int(torch.searchsorted(mass, point, right=True)), len(mass) - 1)
