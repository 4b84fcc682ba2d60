"""Answers to chapter 18's drills."""

from course_grader.judging import Times, drill_key

DRILLS = {
    "queue-time": drill_key(
        lambda p: p["kernels"] * p["launch"] + p["lasts"],
        "Launches take longer, so the last kernel starts after {{kernels:int}} · {{launch}} µs: {{answer}} µs.",
        (lambda p: p["kernels"] * (p["launch"] + p["lasts"]), "Host and device work at the same time."),
        (lambda p: p["kernels"] * p["lasts"], "That is the device's work alone."),
    ),
    "chain-bytes": drill_key(
        lambda p: 2 * p["size"] * (p["operations"] - 1),
        "Each of the {{operations}} − 1 results in between was written and read again: {{answer}} MB.",
        (Times(0.5), "A result in between is written and read."),
        (lambda p: 2 * p["size"] * p["operations"], "The first input and the last result still pass."),
    ),
    "compiled-share": drill_key(
        lambda p: 1 / (p["share"] / 100 + (1 - p["share"] / 100) / p["times"]),
        "1 / (share + rest / {{times}}) = {{answer}}: Amdahl's law.",
        (lambda p: p["share"] / 100 + (1 - p["share"] / 100) / p["times"], "That is the new time."),
        (lambda p: 1 / (1 - p["share"] / 100 + p["share"] / 100 / p["times"]), "Matmuls stay as they are."),
    ),
    "launches-of-step": drill_key(
        lambda p: p["kernels"] * p["launch"] * p["layers"] / 1000,
        "{{kernels:int}} · {{launch}} µs · {{layers:int}} = {{answer}} ms.",
        (lambda p: p["kernels"] * p["launch"] / 1000, "That is one layer."),
        (Times(1000), "Those are microseconds."),
    ),
    "least-kernel": drill_key(
        lambda p: p["launch"] * p["rate"],
        "{{launch}} µs · {{rate}} TB/s = {{answer}} MB.",
        (lambda p: p["rate"] / p["launch"], "Multiply the time by the rate."),
    ),
    "idle-share": drill_key(
        lambda p: 100 * (1 - p["busy"] / p["step"]),
        "1 − {{busy}} / {{step}} = {{answer}} %.",
        (lambda p: 100 * p["busy"] / p["step"], "That is the busy share."),
        (lambda p: 100 * (p["step"] / p["busy"] - 1), "That is a share of the busy time."),
    ),
    "compile-pays": drill_key(
        lambda p: p["compile"] * 1000 / p["saved"],
        "{{compile}} s / {{saved}} ms = {{answer}} steps.",
        (lambda p: p["compile"] / p["saved"], "Seconds over milliseconds: convert one of them."),
    ),
    "padding-share": drill_key(
        lambda p: 50 * (1 - 1 / p["longest"]),
        "The mean length is half of the longest, so {{answer}} % is padding.",
        (Times(0.01), "That is the fraction; a percentage is asked for."),
    ),
}
