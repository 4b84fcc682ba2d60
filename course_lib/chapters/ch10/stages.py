"""A rank's part of a small transformer in a pipeline."""

from collections.abc import Sequence

from course_lib import pipeline, transformer
from course_lib.cluster import Comm
from course_lib.pipeline import Tie, TransformerStage
from course_lib.schedules import Schedule
from course_lib.transformer import Config, Transformer


def stages_of(
    comm: Comm, schedule: Schedule, config: Config
) -> tuple[Transformer, dict[int, TransformerStage], Sequence[Tie]]:
    """The whole transformer, this rank's stages of it by number, and the parameters that stages on several ranks share."""
    model = transformer.build(config)
    parts = pipeline.transformer_stages(model, schedule.stages)
    held = {stage: parts[stage] for stage in schedule.stages_of(comm.rank)}
    return model, held, pipeline.tied_ends(model, schedule.stages)
