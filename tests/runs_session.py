"""What two ranks do for `test_runs_real`, all in one start: torchrun's own start costs more than the runs."""

import json
import sys
from pathlib import Path

from course_lib.runs import collectives, parity, train
from course_lib.runs.place import join, leave

folder = Path(sys.argv[1])
place = join("cpu", timeout=200)
rows = parity.table(place, steps=3)
if place.first:
    (folder / "parity.json").write_text(json.dumps(rows))
for layout, more in (("fsdp", []), ("tp", []), ("pp", ["--schedule", "gpipe", "--micro-batches", "4"])):
    train.run(train.arguments(["--layout", layout, "--steps", "8", "--out", str(folder), "--name", layout, "--device", "cpu", *more]), place)
save = ["--layout", "fsdp", "--device", "cpu", "--out", str(folder), "--steps", "3"]
train.run(train.arguments([*save, "--name", "first", "--save-every", "3"]), place)
train.run(train.arguments([*save, "--name", "second", "--resume"]), place)
given = collectives.arguments(["--kinds", "all_reduce,send", "--largest", "4e6", "--seconds", "0.05", "--out", str(folder), "--name", "links", "--device", "cpu"])
collectives.run(given, place)
leave()
