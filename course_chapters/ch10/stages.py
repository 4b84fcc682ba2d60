"""A rank's part of a small model in a pipeline."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from course_lib.cluster import Comm
from course_lib.model import transformer
from course_lib.model.modules import gradient
from course_lib.model.transformer import Config, Transformer
from course_lib.parallel import pipeline
from course_lib.parallel.pipeline import Tie, TransformerStage
from course_lib.parallel.schedules import Schedule


def stages_of(
    comm: Comm, schedule: Schedule, config: Config
) -> tuple[Transformer, dict[int, TransformerStage], Sequence[Tie]]:
    """The whole transformer, this rank's stages of it by number, and the parameters that stages on several ranks
    share."""
    model = transformer.build(config)
    parts = pipeline.transformer_stages(model, schedule.stages)
    held = {stage: parts[stage] for stage in schedule.stages_of(comm.rank)}
    return model, held, pipeline.tied_ends(model, schedule.stages)


def two_of_four_layers(rank: int) -> tuple[nn.Sequential, Tensor, Tensor, list[Tensor]]:
    """Two layers for a rank of two, an input and a target, and the gradients that these layers have in the whole
    model."""
    torch.manual_seed(0)
    whole = nn.Sequential(*(nn.Linear(8, 8) for _ in range(4)))
    x, target = torch.randn(16, 8), torch.randn(16, 8)
    nn.functional.mse_loss(whole(x), target).backward()
    mine = whole[2 * rank : 2 * rank + 2]
    assert isinstance(mine, nn.Sequential)
    gradients = [gradient(parameter).clone() for parameter in mine.parameters()]
    mine.zero_grad()
    return mine, x, target, gradients
