"""What fails in a large job, how often, what it costs, and how to notice.

Read `rates` (failures against size), `interval` (how often to save), `goodput` (a simulated month), `spares`,
`stragglers`, `hangs`, then `corruption` and `spikes`. Saving itself is in `course_lib.model.checkpoint`. Times are in
seconds.
"""

from course_lib.lazy import on_first_use

__getattr__, __dir__, __all__ = on_first_use(
    __name__,
    {
        "rates": ("failure_rate", "mtbf", "poisson_at_most", "rate_interval", "survival"),
        "interval": (
            "best_interval",
            "checkpoint_seconds",
            "expected_goodput",
            "first_order_goodput",
            "run_seconds",
            "young_interval",
        ),
        "goodput": ("Ledger", "Plan", "Stretch", "simulate_goodput"),
        "spares": ("erlang_b", "spares_needed", "waiting_fraction"),
        "hangs": ("waits", "who_hangs"),
        "stragglers": ("Straggler", "expected_max", "find_straggler", "slowed_speed"),
        "corruption": ("Vote", "checksum", "flip_bit", "vote"),
        "spikes": ("Curve", "Evaluation", "SpikeDetector", "alarms", "draw_curve", "evaluate"),
    },
)
