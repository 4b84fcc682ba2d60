"""What several of chapter 07's cards use."""

READY = (
    "course_lib.parallel.data:average_gradients",
    "course_lib.parallel.data:buckets_of",
    "course_lib.parallel.data:accumulate",
    "course_lib.parallel.data:loss_scale",
    "course_lib.parallel.data:join",
)
