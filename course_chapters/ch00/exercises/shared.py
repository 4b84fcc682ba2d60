"""What several of chapter 00's cards use."""

from course_chapters.ch00.exercises.numbers import ROUTES as SYMPTOM_ROUTES

SYMPTOMS = tuple(SYMPTOM_ROUTES)
