"""From a gradient to a step: what one update of the weights does, however the batch was split over ranks and over time.

Read `batches` (whose mean a gradient is), `steps` (SGD, Adam, AdamW, Lion), `clipping`, `schedules`, then `noise` (how
large a batch pays); `muon` is for later. Every rule is written out and equals torch's, step by step.
"""

from course_lib.model.optimizer.batches import accumulation_steps, effective_batch, weighted_mean
from course_lib.model.optimizer.clipping import Guard, clip_, clip_sharded_, global_norm
from course_lib.model.optimizer.muon import Muon, orthogonalize
from course_lib.model.optimizer.noise import (
    CriticalBatch,
    NoiseScale,
    fit_critical_batch,
    noise_scale_of_samples,
    noise_scale_two_batches,
)
from course_lib.model.optimizer.schedules import constant, cosine, linear_warmup, wsd
from course_lib.model.optimizer.steps import (
    SGD,
    Adam,
    AdamW,
    Lion,
    Optimizer,
    adam_moments,
    adamw_update,
    bias_corrected,
    build,
    decay_groups,
)

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "CriticalBatch",
    "Guard",
    "Lion",
    "Muon",
    "NoiseScale",
    "Optimizer",
    "accumulation_steps",
    "adam_moments",
    "adamw_update",
    "bias_corrected",
    "build",
    "clip_",
    "clip_sharded_",
    "constant",
    "cosine",
    "decay_groups",
    "effective_batch",
    "fit_critical_batch",
    "global_norm",
    "linear_warmup",
    "noise_scale_of_samples",
    "noise_scale_two_batches",
    "orthogonalize",
    "weighted_mean",
    "wsd",
]
