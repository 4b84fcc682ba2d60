"""Data parallelism: every rank holds the model, processes its part of the batch, and steps with the mean of all
gradients.

The gradient of a mean over the batch is the mean of the parts' gradients, so N ranks take the same step as one. Every
function takes a communicator, of the metered cluster or of real processes. Read `replica`, then `tokens`, then
`samples`.
"""

from course_lib.parallel.data.ddp import BUCKET, Bucket, DataParallel, average_gradients, buckets_of, on_gradient
from course_lib.parallel.data.sampler import indices_of, join
from course_lib.parallel.data.token_weighting import accumulate, cross_entropy_sum, loss_scale, mean_metrics, totals

__all__ = [
    "BUCKET",
    "Bucket",
    "DataParallel",
    "accumulate",
    "average_gradients",
    "buckets_of",
    "cross_entropy_sum",
    "indices_of",
    "join",
    "loss_scale",
    "mean_metrics",
    "on_gradient",
    "totals",
]
