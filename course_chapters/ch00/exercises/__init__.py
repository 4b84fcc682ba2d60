"""Chapter 00, "Start here": cards in their order."""

from course_grader.exercises import gather

CARDS = gather(__name__, "two-ranks-wait", "match-the-cuts", "token-round-the-ring", "open-first")
