"""Steps of a pipeline on real processes, predicted from their own spans."""

from collections.abc import Sequence

import torch

from course_chapters.ch10.schedule_rows import schedule_rows
from course_chapters.ch10.stages import stages_of
from course_chapters.real_processes import launched
from course_lib.cluster import Comm
from course_lib.cluster.records import Span
from course_lib.draw import who_is_busy
from course_lib.draw.style import Picture
from course_lib.estimate.units import duration_text
from course_lib.model import transformer
from course_lib.model.text import batch
from course_lib.model.transformer import Config
from course_lib.parallel import pipeline
from course_lib.parallel.schedules import Schedule, one_f_one_b
from course_lib.parallel.timeline import Durations, play

Spans = list[tuple[int, float, float, str, str]]  # rank, start, end, kind, micro-batch; in seconds
STEPS, SAMPLES = 4, 16


def fastest_step(comm: Comm, schedule: Schedule, config: Config) -> Spans:
    """This rank's spans in the fastest of a few steps; all ranks choose the same step."""
    torch.set_num_threads(1)
    _, held, _ = stages_of(comm, schedule, config)
    steps = []
    for step in range(STEPS):
        given = (*batch(step, SAMPLES, config.seq_len), (config.seq_len, config.hidden))
        comm.barrier()
        steps.append(pipeline.run(comm, schedule, held, transformer.loss, *given).spans)
    seconds = torch.tensor([spans[-1].end - spans[0].start for spans in steps])
    comm.all_reduce(seconds)
    return [(span.rank, span.start, span.end, span.kind, span.label) for span in steps[seconds.argmin()]]


def measured(schedules: Sequence[Schedule], config: Config) -> dict[str, list[Spans]]:
    """Each rank's spans by schedule; prints the measured step and its prediction from each rank's mean forward and
    backward."""
    found = {}
    for schedule in schedules:
        if not (ranks := launched(fastest_step, schedule.ranks, (schedule, config))):
            break
        found[schedule.name] = ranks
        seconds = max(spans[-1][2] for spans in ranks) - min(spans[0][1] for spans in ranks)
        forward, backward = ([_mean(spans, kind) for spans in ranks] for kind in ("forward", "backward"))
        predicted = play(schedule, Durations(forward=forward, backward=backward)).makespan
        both = f"predicted {duration_text(predicted)}, measured {duration_text(seconds)}"
        print(f"{schedule.name:5}: {both}, ratio {seconds / predicted:.2f}")
    return found


def _mean(spans: Spans, kind: str) -> float:
    seconds = [end - start for _, start, end, name, _ in spans if name == kind]
    return sum(seconds) / len(seconds)


def busy(steps: dict[str, list[Spans]], name: str = "1F1B") -> Picture:
    """Which process was busy when in a measured step; a played one where no processes could run."""
    if name not in steps:
        return schedule_rows([play(one_f_one_b(2, 8))])
    spans = [span for rank in steps[name] for span in rank]
    begin = min(start for _, start, *_ in spans)
    shifted = [Span(rank, start - begin, end - begin, *what) for rank, start, end, *what in spans]
    return who_is_busy(shifted, title=f"{name} on two processes of this machine", unit="ms")
