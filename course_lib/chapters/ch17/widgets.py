"""The chapter's widgets under one name."""

from course_lib.widgets.ch17 import change, network, pareto, sentence
from course_lib.widgets.ch17_cases import diagnose, symptoms

__all__ = ["change", "diagnose", "network", "pareto", "sentence", "symptoms"]
