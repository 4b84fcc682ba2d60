"""Any valid schedule on real stages: each rank runs its row on its part of the model, and the step equals the whole
model's.

A rank receives what an operation needs, runs it and sends the result. It posts sends and receives in the order of
`timeline.messages`, which needs no buffers. Gradients end in the parameters' `.grad`; the optimizer step is the
caller's.

    stages = transformer_stages(build(config), schedule.stages)
    mine = {stage: stages[stage] for stage in schedule.stages_of(comm.rank)}
    done = run(comm, schedule, mine, loss, tokens, targets, boundary=(seq_len, config.hidden))
    optimizer.step()
"""

from course_lib.parallel.pipeline.running import Ran, run
from course_lib.parallel.pipeline.stages import TransformerStage, tied_ends, transformer_stages
from course_lib.parallel.pipeline.tied_weights import Tie, gradient_norm, parameters_of

__all__ = ["Ran", "Tie", "TransformerStage", "gradient_norm", "parameters_of", "run", "tied_ends", "transformer_stages"]
