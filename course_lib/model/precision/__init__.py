"""Numbers in few bits: formats, rounding, sums, loss scaling, scales for 8 and 4 bits, and an optimizer that stores
weights in them.

Names are loaded on first use: the formats need no torch.
"""

from course_lib.lazy import on_first_use

__getattr__, __dir__, __all__ = on_first_use(
    __name__,
    {
        "number_formats": ("Format", "formats", "number_format"),
        "loss_scaling": ("LossScaler", "has_overflow"),
        "optimizer": ("STORAGE", "StoredAdamW"),
        "rounding": ("MODES", "encode", "lost_updates", "round_to", "torch_dtype", "update_threshold"),
        "scaling": ("DelayedScale", "Quantized", "mxfp4", "mxfp8", "nvfp4", "quantize"),
        "softmax": ("OnlineSoftmax",),
        "sums": ("additions_in_a_row", "chunked_sum", "kahan_sum", "pairwise_sum", "running_sum", "sum_bound"),
    },
)
