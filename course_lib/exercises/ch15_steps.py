"""Cards of chapter 15: steps."""

from course_lib.exercises import Card

CARDS: tuple[Card, ...] = ()
