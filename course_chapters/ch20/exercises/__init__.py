"""Chapter 20, "A cluster that works: data, links, health, queues, and sites far apart": cards, drills and the numbers
of its prose."""

from course_grader.exercises import gather

CARDS = gather(
    __name__,
    "predict-rejected",
    "sort-nodes",
    "sick-links",
    "resume-mixture",
    "easy-backfill",
    "outer-step",
    "assign-shards",
    "validation-cadence",
    "read-dumps",
    "repair-streaming",
    "audit-cluster",
)
