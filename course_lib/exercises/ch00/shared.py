"""What several of chapter 00's cards use."""

from course_lib.exercises.ch00.numbers import ROUTES as SYMPTOM_ROUTES

SYMPTOMS = tuple(SYMPTOM_ROUTES)
