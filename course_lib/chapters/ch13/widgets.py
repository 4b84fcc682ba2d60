"""The chapter's widgets under one name."""

from course_lib.widgets.ch13 import regimes, wires
from course_lib.widgets.ch13_plans import mechanisms, placement, strategy

__all__ = ["mechanisms", "placement", "regimes", "strategy", "wires"]
