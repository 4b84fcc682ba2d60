"""What to run in the first hour, day and week on a new cluster; a test parses every command of the course."""

from typing import NamedTuple

from IPython.display import Markdown

from course_chapters.table import columns


class Line(NamedTuple):
    """When, the question, the command, and what speaks against going on."""

    when: str
    question: str
    command: str
    stop: str


LINES = (
    Line("hour", "Is the machine complete?", "./course doctor", "a line that is not ok"),
    Line(
        "hour",
        "Do all GPUs answer, without memory errors?",
        "nvidia-smi -q -d ECC,TEMPERATURE,PERFORMANCE",
        "an uncorrected error, a slowdown that is active",
    ),
    Line("hour", "How are GPUs and adapters connected?", "nvidia-smi topo -m", "SYS between a GPU and its adapter"),
    Line("hour", "Does a GPU reach its rate?", "./course run matmul", "one GPU below the others"),
    Line(
        "hour",
        "Do the links of a node reach theirs?",
        "./course run collectives --nproc 8 --out work/evidence",
        "bus bandwidth far below the predicted one",
    ),
    Line("day", "Does every adapter have its rate?", "ibstat", "a port that is down or has a lower rate"),
    Line("day", "Which nodes fail a burn-in?", "dcgmi diag -r 3", "a failed test; run it again before you report it"),
    Line("day", "Which nodes does the scheduler refuse, and why?", "sinfo -R", "a reason that you do not know"),
    Line(
        "day",
        "Would the job be accepted, and when would it start?",
        "sbatch --test-only course_runs/cloud/slurm.sbatch",
        "an error, a start in days",
    ),
    Line("day", "Does every layout train the same model?", "./course run parity --nproc 8", "a layout that is off"),
    Line(
        "day",
        "Does the store feed the steps, and does the stream resume?",
        "./course run data --before 8 --after 4",
        "waits with batches read ahead; losses that differ",
    ),
    Line("week", "What does each failure look like here?", "./course run failures", "a diagnosis that is missing"),
    Line("week", "Does a run survive its ranks?", "./course run survive", "a sample that is read twice"),
    Line("week", "Is a resumed run the same?", "./course run resumed --nproc 8", "losses that differ"),
    Line(
        "week",
        "What does a real run reach, over days?",
        "./course run train --size 1b --nproc 8 --layout fsdp --save-every 100 --out runs/1b --retries 3",
        "a step time that drifts",
    ),
    Line("week", "Who waited when it hung?", "./course explain nccl_trace_rank_0", "a rank that never arrived"),
    Line("week", "Does anything contradict the evidence?", "./course evidence list", "noisy or contradicted files"),
)


def checklist(when: str) -> Markdown:
    """The lines of the first "hour", "day" or "week"."""
    rows = [(each.question, f"`{each.command}`", each.stop) for each in LINES if each.when == when]
    return columns("question | command | stop if you see", rows)
