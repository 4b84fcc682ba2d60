"""The ledger of one training step: every tensor that autograd keeps, by name, compared with a formula.

`record` runs the step and records it, `expected` predicts it and evaluates the printed formula, and `reconcile` puts
the three side by side with a reason for every difference.
"""

from course_lib.model.ledger.expecting import PAPER, Backend, Expected, expected, layer_coefficient
from course_lib.model.ledger.reconciling import Line, Reconciliation, reconcile
from course_lib.model.ledger.recording import DevicePeak, Kept, Ledger, Row, Timeline, record

__all__ = [
    "PAPER",
    "Backend",
    "DevicePeak",
    "Expected",
    "Kept",
    "Ledger",
    "Line",
    "Reconciliation",
    "Row",
    "Timeline",
    "expected",
    "layer_coefficient",
    "reconcile",
    "record",
]
