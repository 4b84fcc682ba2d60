"""Do all layouts train the same model? Losses and gradient norms of each against one process, on the ranks that there
are.

`torchrun --nproc-per-node 4 -m course_runs.parity`. Sums in another order differ by rounding, and a step of Adam
carries that on: what is allowed grows with the dtype's rounding, the root of the longest sum, and the number of steps.
"""

import argparse
from collections.abc import Sequence
from typing import TypedDict

import torch

from course_lib.messages import Trouble, count_text
from course_runs import evidence, layouts
from course_runs.layouts import RunLayout
from course_runs.parallel import Choices, mesh_of, pieces_here, spread
from course_runs.process_group import Place, end, join, leave, refused
from course_runs.sizes import size
from course_runs.stepping import Stepper


def allowed(steps: int, terms: int, dtype: torch.dtype = torch.float32) -> float:
    """Relative difference that rounding explains after so many steps, with sums of `terms` numbers."""
    return float(torch.finfo(dtype).eps * terms**0.5 * (steps + 1))


def train(
    layout: RunLayout,
    place: Place,
    steps: int,
    name: str,
    checkpointing: str = "none",
    reshard: bool = True,
    fused: bool | None = None,
    compiled: bool = False,
) -> list[dict[str, float]]:
    """Losses and norms of a few steps under a layout; in fp32."""
    if compiled:
        torch.compiler.reset()  # else the many layouts of one process exceed torch's recompilation limit
    config = size(name).config(checkpointing=checkpointing)
    batch = size(name).batch
    layouts.check(layout, config, batch)
    mesh = mesh_of(layout, place)
    choices = Choices(dtype=torch.float32, reshard=reshard, fused=fused, compiled=compiled)
    models = [spread(model, layout, mesh, choices) for model in pieces_here(config, layout, mesh, place)]
    stepper = Stepper(models, config, layout, mesh, place, choices, batch, 1e-3)
    return [stepper.step(number) for number in range(steps)]


def alone(place: Place, steps: int, name: str) -> list[dict[str, float]]:
    """The same on every rank by itself."""
    from course_lib.model.transformer import loss
    from course_runs.model import build
    from course_runs.stepping import batch_of

    config, batch = size(name).config(), size(name).batch
    model = build(config, place.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)
    rows = []
    for number in range(steps):
        tokens, targets = batch_of(number, batch, config, 0, 1, place.device)
        value = loss(model(tokens), targets)
        value.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        rows.append({"loss": value.item(), "gradient_norm": norm.item()})
    return rows


class Curves(TypedDict):
    """Of a run's steps."""

    losses: list[float]
    gradient_norms: list[float]


class Row(Curves):
    """A layout's run: how far its losses and norms are off at most, and what rounding explains."""

    layout: str
    ranks: int
    steps: int
    loss: float
    gradient_norm: float
    allowed: float
    ok: bool


class Table(TypedDict):
    """The run of one process, and a row for each layout."""

    single: Curves
    rows: list[Row]


def table(
    place: Place,
    steps: int = 4,
    name: str = "1m",
    texts: Sequence[str] | None = None,
    fused: bool | None = None,
    compiled: bool = False,
) -> Table:
    """ "single": losses and norms of one process; "rows": of each layout, how far they are off at most, and whether
    rounding explains it."""
    want = alone(place, steps, name)
    chosen = layouts.PROVEN.get(place.ranks) if texts is None else texts
    if not chosen:
        raise Trouble(
            f"There is no list of layouts for {count_text(place.ranks, 'rank')}.",
            f"use {', '.join(map(str, layouts.PROVEN))} ranks, or --layouts",
        )
    rows: list[Row] = []
    for text in chosen:
        cut, _, schedule = text.partition(":")
        layout = layouts.parse(cut, place.ranks, schedule=schedule or "1f1b")
        got = train(layout, place, steps, name, fused=fused, compiled=compiled)
        off = {
            key: max(abs(a[key] - b[key]) / abs(b[key]) for a, b in zip(got, want, strict=True))
            for key in ("loss", "gradient_norm")
        }
        limit = allowed(steps, size(name).batch * size(name).seq_len)
        rows.append(
            {
                "layout": text,
                "ranks": place.ranks,
                "steps": steps,
                "loss": off["loss"],
                "gradient_norm": off["gradient_norm"],
                "allowed": limit,
                "ok": max(off.values()) <= limit,
                **curves(got),
            }
        )
        if place.first:
            row = rows[-1]
            print(
                f"{text:18} loss {row['loss']:.1e}  norm {row['gradient_norm']:.1e}  (rounding explains {limit:.1e})  "
                f"{'ok' if row['ok'] else 'NOT THE SAME'}",
                flush=True,
            )
    return {"single": curves(want), "rows": rows}


def curves(rows: Sequence[dict[str, float]]) -> Curves:
    """Losses and norms of a run's steps."""
    return {"losses": [row["loss"] for row in rows], "gradient_norms": [row["gradient_norm"] for row in rows]}


def as_evidence(found: Table, place: Place, name: str) -> evidence.Evidence:
    """A table as an evidence file."""
    rows = found["rows"]
    setup = {
        "size": name,
        "ranks": place.ranks,
        "steps": rows[0]["steps"],
        "backend": place.backend,
        "device": place.device.type,
        "dtype": "float32",
    }
    measured = {
        "same": sum(row["ok"] for row in rows),
        "of": len(rows),
        "worst": max(max(row["loss"], row["gradient_norm"]) for row in rows),
    }
    return evidence.evidence("parity", setup=setup, raw=found, measured=measured)


def main(argv: Sequence[str] | None = None) -> int:
    """0 if all layouts train the same model."""
    parser = argparse.ArgumentParser(prog="parity", description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="1m")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--layouts", default="", help="semicolon-separated, such as 'ddp;pp=2,tp=2;pp:gpipe'")
    parser.add_argument("--fused", action="store_true", help="AdamW in its fused form on a CPU too, as on a GPU")
    parser.add_argument("--compile", action="store_true", help="torch.compile each block of the layouts")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", default="", help="folder of the evidence file (default: none is written)")
    parser.add_argument("--name", default="parity", help="name of the evidence file")
    given = parser.parse_args(argv)
    try:
        place = join(given.device)
        torch.backends.cuda.matmul.allow_tf32 = False  # its rounding is not fp32's
        texts = given.layouts.split(";") if given.layouts else None
        found = table(place, given.steps, given.size, texts, True if given.fused else None, given.compile)
        if given.out and place.first:
            print(
                f"evidence: {evidence.write(as_evidence(found, place, given.size), given.out, given.name)}", flush=True
            )
        return 0 if all(row["ok"] for row in found["rows"]) else 1
    except Trouble as trouble:
        return refused("parity", trouble)
    finally:
        leave()


if __name__ == "__main__":
    end(main())
