"""Answers to chapter 17's drills."""

from course_grader.judging import Times, drill_key

DRILLS = {
    "fsdp-sends": drill_key(
        lambda p: 3 * (p["gpus"] - 1) / p["gpus"] * 2 * p["billions"],
        "Two gathers and a reduce-scatter of 2 bytes: 3 · (n − 1) / n · 2 · {{billions}} = {{answer}} GB.",
        (Times(2 / 3), "That is data parallelism."),
        (Times(2), "That is three all-reduces."),
    ),
    "hsdp-sends-across": drill_key(
        lambda p: 2 * (p["replicas"] - 1) / p["replicas"] * 2 * p["billions"] / p["shard"],
        "An all-reduce of the shard: 2 · (m − 1) / m · 2 · {{billions}} / {{shard}} = {{answer}} GB.",
        (Times(lambda p: p["shard"]), "A GPU averages its shard only."),
        (Times(0.5), "An all-reduce goes round the ring twice."),
    ),
    "tp-sends": drill_key(
        lambda p: p["layers"] * 4 * 2 * (p["tp"] - 1) / p["tp"] * 2 * p["tokens"] * p["hidden"] / 1e9,
        "{{layers}} · 4 · 2 · (n − 1) / n · 2 · {{tokens}} · {{hidden}} = {{answer}} GB.",
        (Times(0.5), "That is the forward pass alone, or half of each all-reduce."),
        (Times(lambda p: 1 / p["layers"]), "That is one layer."),
    ),
    "pp-sends": drill_key(
        lambda p: 2 * 2 * p["tokens"] * p["hidden"] / 1e9,
        "Activations forward and gradients back: 2 · 2 · {{tokens}} · {{hidden}} = {{answer}} GB.",
        (Times(0.5), "The gradients go back as well."),
    ),
    "days-with-failures": drill_key(
        lambda p: p["steps"] * 1000 * p["seconds"] / 86_400 / (p["goodput"] / 100),
        "{{steps}},000 · {{seconds}} s / 86,400 / {{goodput}} % = {{answer}} days.",
        (Times(lambda p: p["goodput"] / 100), "Failures take time as well."),
        (Times(lambda p: (p["goodput"] / 100) ** 2), "A lower goodput makes it longer."),
    ),
    "dollars-of-a-plan": drill_key(
        lambda p: p["gpus"] * p["days"] * 24 * p["price"] / 1000,
        "{{gpus}} · {{days}} · 24 · {{price}} = {{answer}} thousand dollars.",
        (Times(1 / 24), "A day has 24 hours."),
        (Times(lambda p: 1 / p["gpus"]), "All GPUs are paid."),
    ),
    "tokens-for-half": drill_key(
        lambda p: p["billions"] * p["left"] / p["cost"],
        "Dollars are proportional to tokens: {{billions}} · {{left}} / {{cost}} = {{answer}} billion.",
        (lambda p: p["billions"] * p["cost"] / p["left"], "Less money buys fewer tokens."),
    ),
    "exposed-on-a-wire": drill_key(
        lambda p: p["sent"] / p["rate"] - p["hidden"],
        "{{sent}} / {{rate}} − {{hidden}} = {{answer}} s.",
        (lambda p: p["sent"] / p["rate"], "Computation hides a part of it."),
        (lambda p: p["sent"] / p["rate"] + p["hidden"], "What is hidden is not exposed."),
    ),
    "slower-wire": drill_key(
        lambda p: p["slower"] * p["traffic"] / p["compute"],
        "Now the traffic decides: {{slower}} · {{traffic}} / {{compute}} = {{answer}}.",
        (lambda p: p["slower"], "Before, traffic was shorter than the computation."),
        (lambda p: 1 + p["slower"] * p["traffic"] / p["compute"], "Traffic and computation run side by side."),
    ),
}
