"""Chapter 15's judges: links and rates, steps and memory, faults and reports, the answers to its drills."""

from course_lib.exercises.ch15.judges.drills import DRILLS
from course_lib.exercises.ch15.judges.faults import LABELS, RING
from course_lib.exercises.ch15.judges.faults_report import REPORT
from course_lib.exercises.ch15.judges.faults_smoke import READ_TRACES, SMOKE_TEST
from course_lib.exercises.ch15.judges.faults_zoo import ZOO
from course_lib.exercises.ch15.judges.links_audits import AUDIT
from course_lib.exercises.ch15.judges.links_machines import MACHINE
from course_lib.exercises.ch15.judges.links_mfu import HONEST
from course_lib.exercises.ch15.judges.links_more import BUS, SCALING
from course_lib.exercises.ch15.judges.links_sweeps import MESSAGE
from course_lib.exercises.ch15.judges.steps import EXPOSED, PARTS, PREDICTION
from course_lib.exercises.ch15.judges.steps_memory import MONEY, PEAK, PIPELINE

JUDGINGS = {
    "predict-real-step": PREDICTION,
    "preflight-verdict": MACHINE,
    "held-out-message": MESSAGE,
    "bus-above-line": BUS,
    "honest-mfu": HONEST,
    "shifted-labels": LABELS,
    "smoke-test": SMOKE_TEST,
    "fsdp-peak-gap": PEAK,
    "pipeline-peaks": PIPELINE,
    "exposed-seconds": EXPOSED,
    "where-it-goes": PARTS,
    "read-the-traces": READ_TRACES,
    "failure-zoo": ZOO,
    "ring-that-hangs": RING,
    "scaling-fit": SCALING,
    "spend-ledger": MONEY,
    "run-report": REPORT,
    "audit-runs": AUDIT,
}

__all__ = ["DRILLS", "JUDGINGS"]
