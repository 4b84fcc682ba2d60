"""Cards of chapter 15: faults."""

from course_lib.exercises import Card

CARDS: tuple[Card, ...] = ()
