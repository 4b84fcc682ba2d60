"""Chapter 10, "Pipeline parallelism: can layers live apart?": cards in their order."""

from course_grader.exercises import gather

CARDS = gather(
    __name__,
    "pipeline-bubble",
    "predict-idle",
    "three-schedules",
    "schedule-validator",
    "deadlocked-1f1b",
    "run-any-schedule",
    "interleaved-rows",
    "beat-1f1b",
    "uneven-layers",
    "read-a-gantt",
    "audit-pipeline",
)
