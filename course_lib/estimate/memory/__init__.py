"""Bytes of training: state by bucket, optimizers, activations term by term, the peak of every pipeline stage.

Pure functions over frozen records; numbers may be numpy arrays and broadcast. Bytes, unless a name says otherwise.
"""

from course_lib.estimate.memory.activation_terms import KERNELS, LOSSES, Kernels, Term, layer_terms, outside_terms
from course_lib.estimate.memory.activations import activation_bytes, layer_bytes, recomputed_bytes, total_bytes
from course_lib.estimate.memory.devices import fewest_devices, headroom_bytes, largest_model
from course_lib.estimate.memory.layout import CHECKPOINTING, SCHEDULES, Layout
from course_lib.estimate.memory.model_config import find_model, model_from_config
from course_lib.estimate.memory.optimizers import OPTIMIZERS, optimizer_bytes_per_param, with_optimizer
from course_lib.estimate.memory.recipes import (
    BUCKETS,
    CONVENTIONS,
    DTYPE_BYTES,
    Convention,
    bytes_per_param,
    convention,
    dtype_bytes,
    state_by_bucket,
    state_bytes,
    weights_bytes,
    zero_by_bucket,
    zero_bytes,
    zero_bytes_per_param,
)
from course_lib.estimate.memory.shapes import (
    Shape,
    count_params,
    gathered_layer_bytes,
    layer_params,
    params_by_part,
    shape,
)
from course_lib.estimate.memory.stage_peaks import (
    Peak,
    in_flight,
    peak_bytes,
    stage_layers,
    stage_params,
    stage_peak,
    stage_peaks,
    state_by_stage,
)

__all__ = [
    "BUCKETS",
    "CHECKPOINTING",
    "CONVENTIONS",
    "DTYPE_BYTES",
    "KERNELS",
    "LOSSES",
    "OPTIMIZERS",
    "SCHEDULES",
    "Convention",
    "Kernels",
    "Layout",
    "Peak",
    "Shape",
    "Term",
    "activation_bytes",
    "bytes_per_param",
    "convention",
    "count_params",
    "dtype_bytes",
    "fewest_devices",
    "find_model",
    "gathered_layer_bytes",
    "headroom_bytes",
    "in_flight",
    "largest_model",
    "layer_bytes",
    "layer_params",
    "layer_terms",
    "model_from_config",
    "optimizer_bytes_per_param",
    "outside_terms",
    "params_by_part",
    "peak_bytes",
    "recomputed_bytes",
    "shape",
    "stage_layers",
    "stage_params",
    "stage_peak",
    "stage_peaks",
    "state_by_bucket",
    "state_by_stage",
    "state_bytes",
    "total_bytes",
    "weights_bytes",
    "with_optimizer",
    "zero_by_bucket",
    "zero_bytes",
    "zero_bytes_per_param",
]
