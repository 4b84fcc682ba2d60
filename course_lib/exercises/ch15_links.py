"""Cards of chapter 15: links."""

from course_lib.exercises import Card

CARDS: tuple[Card, ...] = ()
