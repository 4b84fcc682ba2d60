"""Grading: where an answer runs (place), what may cross (codec), who decides (judge), what was handed in (notebook)."""
