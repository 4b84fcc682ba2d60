"""Numbers in chapter 20's prose about health checks, links and the queue."""

from collections.abc import Callable, Mapping

from course_chapters.ch20 import link_faults, queue_film
from course_chapters.ch20.health_checks import Check
from course_chapters.ch20.health_plots import JOB
from course_chapters.ch20.link_faults import RANKS
from course_chapters.ch20.queue_film import NODES, month
from course_lib.estimate import facts
from course_lib.estimate.units import count_text, duration_text, percent_text

SOURCES: tuple[str, ...] = ("llama3-2024", "gemini-2023", "slurm-scheduling")
CHECK, LIMIT, LOAD = Check(), 0.97, 0.8
SMALL = queue_film.SIZES["up to 4 GPUs"][:2]
CAUSES = facts.interruption_causes()


NUMBERS: Mapping[str, Callable[[], str]] = {
    "job_nodes": lambda: count_text(JOB, "node"),
    "check_noise": lambda: percent_text(CHECK.noise),
    "check_weak": lambda: percent_text(CHECK.weak),
    "check_share": lambda: percent_text(CHECK.share),
    "check_limit": lambda: percent_text(LIMIT),
    "check_alarms": lambda: percent_text(CHECK.false_alarm(LIMIT), 2),
    "check_healthy": lambda: percent_text(CHECK.healthy_among_rejected(LIMIT), 2),
    "check_again": lambda: percent_text(Check(repeats=4).healthy_among_rejected(LIMIT), 2),
    "silent_count": lambda: str(int(float(CAUSES["Silent data corruption"]))),
    "silent_of": lambda: f"{sum(map(float, CAUSES.values())):.0f}",
    "silent_days": lambda: f"{facts.failure_log('Llama 3.1 405B').days:g}",
    "pairs": lambda: str(RANKS * (RANKS - 1)),
    "link_ranks": lambda: str(RANKS),
    "link_rank": lambda: str(link_faults.BAD),
    "queue_jobs": lambda: f"{len(month('fifo', LOAD).started):,}",
    "queue_nodes": lambda: str(NODES),
    "fifo_small": lambda: duration_text(month("fifo", LOAD).mean_wait(*SMALL), 2),
    "easy_small": lambda: duration_text(month("easy", LOAD).mean_wait(*SMALL), 2),
    "fragments_packed": lambda: duration_text(month("easy", LOAD).fragmented, 2),
    "fragments_spread": lambda: duration_text(month("easy", LOAD, True).fragmented, 2),
}
