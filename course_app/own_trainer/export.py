"""The trainer as a folder to take away: the parts, the trainer around them, and a README with the learner's name."""

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from course_app.own_trainer.answers import Part, write_parts
from course_app.own_trainer.kit.settings import LAYOUTS
from course_app.own_trainer.trials import Trial
from course_lib.folders import ROOT
from course_lib.messages import Trouble

KIT = Path(__file__).parent / "kit"
RECORD = "parts.json"


def export(parts: Mapping[str, Part], folder: Path, name: str = "", trials: Sequence[Trial] = ()) -> Path:
    """Write the folder; Trouble if it holds something that is not an exported trainer."""
    if folder.exists() and any(folder.iterdir()) and not (folder / RECORD).is_file():
        raise Trouble(f"{folder} is not empty.", "name a new folder, or one that `./course mine` wrote before")
    shutil.rmtree(folder / "trainer", ignore_errors=True)
    shutil.copytree(KIT, folder / "trainer", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "course_lib" / "model" / "text.txt", folder / "trainer" / "text.txt")
    write_parts(parts, folder / "parts")
    (folder / RECORD).write_text(json.dumps(record(parts, name), indent=1) + "\n", encoding="utf-8")
    (folder / "README.md").write_text(readme(parts, name, trials), encoding="utf-8")
    return folder


def record(parts: Mapping[str, Part], name: str) -> dict[str, object]:
    """Whose each part is, with the SHA-256 of its source."""
    return {
        "name": name,
        "parts": {
            part.exercise: {
                "chapter": part.card.chapter,
                "yours": part.yours,
                "passed": part.passed,
                "why": part.why,
                "sha256": hashlib.sha256(part.source.encode()).hexdigest(),
            }
            for part in parts.values()
        },
    }


def owner(part: Part) -> str:
    """Whose a part is, in words."""
    if part.yours:
        return f"yours, passed {part.passed}" if part.passed else "yours"
    return f"the course's: {part.why}" if part.why else "the course's"


def readme(parts: Mapping[str, Part], name: str, trials: Sequence[Trial]) -> str:
    """The README: whose trainer it is, how to run it, what it was held against, and whose each part is."""
    own = sum(part.yours for part in parts.values())
    rest = (
        ""
        if own == len(parts)
        else "; the others are the course's worked answers, so read them after you have solved the exercises"
    )
    title = f"{name}'s trainer" if name else "My trainer"
    rows = "\n".join(
        f"| `parts/{file}.py` | {part.card.chapter} | {part.card.title} | {owner(part)} |"
        for file, part in parts.items()
    )
    return f"""# {title}

A small trainer for a small transformer. It trains on many ranks in {len(LAYOUTS)} layouts: replicas, fp16, shared
optimizer state, sharded weights, tensor, pipeline and context parallelism, experts, and a mesh of two axes. {own} of
its {len(parts)} parts are answers of yours to exercises of the course *Training at Scale*{rest}.

## Run it

It needs Python 3.11 or newer, torch, and `course_lib.cluster` from the course (start it with the course's own Python,
or put the course's folder on `PYTHONPATH`). Start it in this folder:

```bash
python -m trainer.run --layout tensor --ranks 4                                   # the metered cluster, in one process
torchrun --nproc-per-node 2 -m trainer.run --layout sharded --steps 20            # two processes, over gloo
torchrun --nproc-per-node 8 -m trainer.run --layout data --gpus --hidden 256      # eight GPUs, over NCCL
python -m trainer.run --help                                                      # all settings
```

On GPUs, blocking sums use your ring all-reduce through host memory, because NCCL can hang when point-to-point messages
are not batched. Asynchronous collectives use NCCL.

{_held(trials)}## Whose part is whose

| file | chapter | exercise | whose |
|---|---|---|---|
{rows}

`trainer/` holds what connects the parts: the model, the data, the optimizer loop and one class for each axis.
`{RECORD}` has the SHA-256 of every part.
"""


def _held(trials: Sequence[Trial]) -> str:
    if not trials:
        return ""
    rows = "\n".join(
        f"| {each.axis} | {each.ranks} | {each.losses[-1]:.4f} | {each.difference:.1e} | {each.sent:,.0f} |"
        for each in trials
        if each.losses
    )
    return f"""## Held against the library

Every run has the losses of the course's own trainer on one process. The difference is the largest of any step, in nats.

| axis | ranks | last loss | difference | bytes sent per step (busiest rank) |
|---|---|---|---|---|
{rows}

"""
