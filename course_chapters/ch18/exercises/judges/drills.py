"""Answers to chapter 18's drills."""

from course_grader.judging import Mistake, Times, drill_key

DRILLS = {
    "queue-time": drill_key(
        lambda p: p["kernels"] * p["launch"] + p["lasts"],
        "Launches take longer, so the last kernel starts after {{kernels:int}} · {{launch}} µs: {{answer}} µs.",
        Mistake("both", lambda p: p["kernels"] * (p["launch"] + p["lasts"]), "Host and device work at the same time."),
        Mistake("device", lambda p: p["kernels"] * p["lasts"], "That is the device's work alone."),
    ),
    "chain-bytes": drill_key(
        lambda p: 2 * p["size"] * (p["operations"] - 1),
        "Each of the {{operations}} − 1 results in between was written and read again: {{answer}} MB.",
        Mistake("once", Times(0.5), "A result in between is written and read."),
        Mistake("all", lambda p: 2 * p["size"] * p["operations"], "The first input and the last result still pass."),
    ),
    "compiled-share": drill_key(
        lambda p: 1 / (p["share"] / 100 + (1 - p["share"] / 100) / p["times"]),
        "1 / (share + rest / {{times}}) = {{answer}}: Amdahl's law.",
        Mistake("upside", lambda p: p["share"] / 100 + (1 - p["share"] / 100) / p["times"], "That is the new time."),
        Mistake(
            "swapped", lambda p: 1 / (1 - p["share"] / 100 + p["share"] / 100 / p["times"]), "Matmuls stay as they are."
        ),
    ),
}
