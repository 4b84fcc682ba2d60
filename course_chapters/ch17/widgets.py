"""The chapter's widgets under one name."""

from course_chapters.ch17.cases import diagnose, symptoms
from course_chapters.ch17.plan_widgets import change, network, pareto, sentence

__all__ = ["change", "diagnose", "network", "pareto", "sentence", "symptoms"]
