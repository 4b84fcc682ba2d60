"""A run that is stopped half-way and goes on from its checkpoint, beside the same run uninterrupted: losses and
learning rates of both.

`torchrun --nproc-per-node 2 -m course_runs.resumed --out runs/resumed`. The evidence is that of the second half, with
the first half and the uninterrupted run beside its steps.
"""

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

import torch.distributed as dist

from course_lib.messages import Trouble
from course_runs import evidence, options, train
from course_runs.process_group import Place, end, join, leave, refused


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
    """The whole run, its first half with a checkpoint at the end, and the second half from there; evidence on rank
    0."""
    if place.local_ranks != place.ranks:
        raise Trouble(
            "Its checkpoint lies in a folder of one machine, and these ranks are on several.",
            "use train --save-every and --resume with an --out that all share",
        )
    with shared_folder(place) as folder:
        return _halves(given, place, folder)


def _halves(given: argparse.Namespace, place: Place, folder: str) -> evidence.Evidence | None:
    half = given.steps
    common = [
        "--size",
        given.size,
        "--layout",
        given.layout,
        "--device",
        place.device.type,
        "--warmup",
        str(given.warmup),
        "--total-steps",
        str(2 * half),
    ]

    def part(name: str, steps: int, *more: str) -> evidence.Evidence | None:
        return train.run(
            options.arguments([*common, "--out", folder, "--name", name, "--steps", str(steps), *more]), place
        )

    whole = part("whole", 2 * half)
    dist.barrier()  # rank 0 has written it
    known = ("--rates", f"{folder}/whole.json")  # one machine: what it can do is measured once
    before = part("before", half, "--save-every", str(half), *known)
    content = part("after", half, "--resume", *known)
    if content is None or whole is None or before is None:  # not rank 0
        return None
    raw = {**content["raw"], "before": before["raw"]["steps"], "whole": whole["raw"]["steps"]}
    setup = {**content["setup"], "resumed_at": half, "total_steps": 2 * half}
    found = evidence.sealed({**content, "setup": setup, "raw": raw})
    print(f"evidence: {evidence.write(found, given.out, given.name)}", flush=True)
    return found


@contextmanager
def shared_folder(place: Place) -> Iterator[str]:
    """The path of a folder of rank 0's, for all ranks of this machine; it goes when all are done with it."""
    with tempfile.TemporaryDirectory(prefix="course-resumed-") if place.first else nullcontext("") as mine:
        path = [mine]
        dist.broadcast_object_list(path)
        yield path[0]
        dist.barrier()


def main(argv: Sequence[str] | None = None) -> int:
    """Train, stop, go on; the exit code."""
    given = arguments(argv)
    try:
        run(given, join(given.device))
        return 0
    except (Trouble, ValueError) as trouble:
        return refused("resumed", trouble)
    finally:
        leave()


if __name__ == "__main__":
    end(main())
