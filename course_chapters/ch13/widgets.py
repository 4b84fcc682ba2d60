"""The chapter's widgets under one name."""

from course_chapters.ch13.mesh_film import mesh_step
from course_chapters.ch13.plan_widgets import mechanisms, placement, strategy
from course_chapters.ch13.regimes import regimes, wires

__all__ = ["mechanisms", "mesh_step", "placement", "regimes", "strategy", "wires"]
