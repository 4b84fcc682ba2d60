"""Training for `test_runs_retrying`: one rank is killed in the first try; the second also trains the same steps
unbroken."""

import os
import signal
import sys
from pathlib import Path

from course_runs import options, stepping, train
from course_runs.process_group import end, join, leave

VICTIM, AT = 1, 5  # the rank that is lost, before this step
launch = stepping.Stepper.launch


def struck(self, number, *more):
    """A step, or the end of the process."""
    if number == AT and self.place.rank == VICTIM:
        os.kill(os.getpid(), signal.SIGKILL)
    return launch(self, number, *more)


given = options.arguments(sys.argv[1:])
first = not (Path(given.out) / "checkpoints").exists()
if first:
    stepping.Stepper.launch = struck
place = join(given.device)
train.run(given, place)
if not first:
    words = [*sys.argv[1 : sys.argv.index("--save-every")], "--out", given.out, "--name", "unbroken"]
    train.run(options.arguments([*words, "--rates", f"{given.out}/{given.name}.json"]), place)
leave()
end(0)
