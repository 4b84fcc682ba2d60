"""Numbers in few bits: formats, rounding, sums, loss scaling, scales for 8 and 4 bits, and an optimizer that stores weights in them."""

from course_lib.precision.formats import Format, formats, number_format
from course_lib.precision.loss_scaling import LossScaler, has_overflow, overflow_anywhere, underflow_share
from course_lib.precision.optimizer import STORAGE, StoredAdamW
from course_lib.precision.rounding import MODES, lost_updates, round_to, torch_dtype, update_threshold
from course_lib.precision.scaling import DelayedScale, Quantized, current_scale, mxfp4, mxfp8, nvfp4, quantize
from course_lib.precision.softmax import OnlineSoftmax, online_softmax
from course_lib.precision.sums import additions_in_a_row, chunked_sum, kahan_sum, pairwise_sum, running_sum, sum_bound

__all__ = [
    "MODES",
    "STORAGE",
    "DelayedScale",
    "Format",
    "LossScaler",
    "OnlineSoftmax",
    "Quantized",
    "StoredAdamW",
    "additions_in_a_row",
    "chunked_sum",
    "current_scale",
    "formats",
    "has_overflow",
    "kahan_sum",
    "lost_updates",
    "mxfp4",
    "mxfp8",
    "number_format",
    "nvfp4",
    "online_softmax",
    "overflow_anywhere",
    "pairwise_sum",
    "quantize",
    "round_to",
    "running_sum",
    "sum_bound",
    "torch_dtype",
    "underflow_share",
    "update_threshold",
]
