"""What several of chapter 07's cards use."""

READY = (
    "data_parallel:average_gradients",
    "data_parallel:buckets_of",
    "data_parallel:accumulate",
    "data_parallel:loss_scale",
    "data_parallel:join",
)
