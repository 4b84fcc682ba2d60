"""A run that is stopped half-way and goes on from its checkpoint, beside the same run uninterrupted: losses and learning rates of both.

`torchrun --nproc-per-node 2 -m course_lib.runs.resumed --out runs/resumed`. The evidence is that of the second half, with the
first half and the uninterrupted run beside its steps.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

import torch.distributed as dist

from course_lib.install.words import Trouble
from course_lib.runs import evidence, train
from course_lib.runs.place import Place, end, join, leave


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="resumed", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--size", default="1m", help="the model")
    add("--layout", default="", help="as of train")
    add("--steps", type=int, default=20, help="steps of each half")
    add("--warmup", type=int, default=5, help="steps over which the learning rate rises")
    add("--device", default="auto", help="auto, cpu or cuda")
    add("--out", required=True, help="folder of the evidence file")
    add("--name", default="resumed", help="name of the evidence file")
    return parser.parse_args(argv)


def run(given: argparse.Namespace, place: Place) -> evidence.Evidence | None:
    """The whole run, its first half with a checkpoint at the end, and the second half from there; evidence on rank 0."""
    if place.local_ranks != place.ranks:
        raise Trouble("Its checkpoint lies in a folder of one machine, and these ranks are on several.", "use train --save-every and --resume with an --out that all share")
    half, folder = given.steps, shared_folder(place)
    common = ["--size", given.size, "--layout", given.layout, "--device", place.device.type, "--warmup", str(given.warmup), "--total-steps", str(2 * half)]

    def part(name: str, steps: int, *more: str) -> evidence.Evidence | None:
        return train.run(train.arguments([*common, "--out", folder.name, "--name", name, "--steps", str(steps), *more]), place)

    whole = part("whole", 2 * half)
    dist.barrier()  # rank 0 has written it
    known = ("--rates", f"{folder.name}/whole.json")  # one machine: what it can do is measured once
    before = part("before", half, "--save-every", str(half), *known)
    content = part("after", half, "--resume", *known)
    dist.barrier()  # the folder is rank 0's: it goes when all have read it
    if content is None or whole is None or before is None:
        return None
    folder.cleanup()
    raw = {**content["raw"], "before": before["raw"]["steps"], "whole": whole["raw"]["steps"]}
    setup = {**content["setup"], "resumed_at": half, "total_steps": 2 * half}
    found = evidence.sealed({**content, "setup": setup, "raw": raw})
    print(f"evidence: {evidence.write(found, given.out, given.name)}", flush=True)
    return found


def shared_folder(place: Place) -> Any:
    """A folder of rank 0's that all ranks of this machine know: an object with its `name`, and a `cleanup` on rank 0."""
    mine = tempfile.TemporaryDirectory(prefix="course-resumed-") if place.first else argparse.Namespace(name="")
    name = [mine.name]
    dist.broadcast_object_list(name)
    return mine if place.first else argparse.Namespace(name=name[0])


def main(argv: Sequence[str] | None = None) -> int:
    """Train, stop, go on; the exit code."""
    given = arguments(argv)
    try:
        run(given, join(given.device))
        return 0
    except (Trouble, ValueError) as trouble:
        print(f"resumed: {trouble}", file=sys.stderr)
        return 2
    finally:
        leave()


if __name__ == "__main__":
    end(main())
