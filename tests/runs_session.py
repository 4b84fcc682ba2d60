"""What two ranks do for `test_runs_real`, all in one start: torchrun's own start costs more than the runs."""

import json
import sys
from pathlib import Path

import torch.distributed as dist

from course_runs import collectives, options, parity, resumed, train
from course_runs.process_group import join, leave

folder = Path(sys.argv[1])
place = join("cpu", timeout=200)
rows = parity.table(place, steps=3)["rows"]
# as on a GPU: matrices are DTensors, norms are not
fused = parity.table(place, steps=3, texts=["tp"], fused=True)["rows"]
if place.first:
    (folder / "parity.json").write_text(json.dumps(rows))
    (folder / "fused.json").write_text(json.dumps(fused))
resumed.run(
    resumed.arguments(["--layout", "fsdp", "--steps", "4", "--warmup", "3", "--device", "cpu", "--out", str(folder)]),
    place,
)
common = ["--device", "cpu", "--out", str(folder), "--rates", str(folder / "fsdp.json")]
train.run(options.arguments(["--layout", "fsdp", "--steps", "5", "--name", "fsdp", "--trace", *common[:4]]), place)
dist.barrier()  # rank 0 has written it
train.run(options.arguments(["--layout", "tp", "--steps", "5", "--name", "tp", *common]), place)
train.run(options.arguments(["--layout", "cp", "--steps", "3", "--name", "cp", *common]), place)
train.run(options.arguments(["--layout", "tp,sp", "--steps", "3", "--fp8", "--name", "sp", *common]), place)
train.run(
    options.arguments(
        ["--layout", "pp", "--schedule", "gpipe", "--micro-batches", "4", "--steps", "5", "--name", "pp", *common]
    ),
    place,
)
given = collectives.arguments(
    [
        "--kinds",
        "all_reduce,send",
        "--largest",
        "4.1e6",
        "--seconds",
        "0.05",
        "--out",
        str(folder),
        "--name",
        "links",
        "--device",
        "cpu",
    ]
)
collectives.run(given, place)
leave()
