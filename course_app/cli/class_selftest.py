"""`course class self-test`: attack the grader that is installed here, and say what holds."""

import json
import sys
import time
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer

from course_app.cli.console import examples, part
from course_lib.folders import ROOT, require

if TYPE_CHECKING:
    from course_grader.attacks.sheet import Attack
    from course_grader.attacks.trial import Row

EXAMPLES = examples(
    "course class self-test                          every attack, on the strongest sandbox of this machine",
    "course class self-test leak tampering           some kinds",
    "course class self-test --only fork-bomb         one attack",
    "course class self-test --level contained        a weaker sandbox than this machine has",
    "course class self-test --list                   the attacks, without running them",
)


def self_test(
    kinds: Annotated[
        list[str] | None,
        typer.Argument(help="forging, leak, tampering, exhaustion, cluster, accident; all without one."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Attacks with this in their name; may be given again.")
    ] = None,
    level: Annotated[
        str,
        typer.Option(
            "--level", help="namespaces, contained or none; by default the strongest that this machine offers."
        ),
    ] = "",
    list_: Annotated[bool, typer.Option("--list", help="List the attacks without running them.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Attack the grader on this machine: forgeries, leaks, tampering, floods, cheats of the cluster, and accidents.

    Exits non-zero if anything got through. Runs on this machine only: services, secrets and processes that are attacked
    are its own.
    """
    trial = part("course_grader.attacks.trial", "attacking the grader")
    require(ROOT, "solutions", "Attacking the grader")
    sandbox = part("course_grader.sandbox", "attacking the grader")
    level = level or (sandbox.best_level() if trial.on_linux() else "none")
    attacks = _chosen(trial, sandbox, [*(kinds or ()), *(only or ())], level)
    if list_:
        _print_list(attacks, as_json)
        return
    start = time.monotonic()
    rows = _tried(trial, sandbox, attacks, level, quiet=as_json)
    if as_json:
        held = sum(row.held for row in rows)
        data = {
            "level": level,
            "tried": len(rows),
            "held": held,
            "seconds": round(time.monotonic() - start, 1),
            "does_not_protect_from": list(_unprotected(level)),
            "attacks": [row.as_data() for row in rows],
        }
        typer.echo(json.dumps(data, indent=1, ensure_ascii=False))
    else:
        _show(rows, level, time.monotonic() - start)
    raise typer.Exit(int(not rows or not all(row.held for row in rows) or level == "none"))


def _chosen(trial: ModuleType, sandbox: ModuleType, words: list[str], level: str) -> "list[Attack]":
    """The attacks that these words name and that this level can be tried with."""
    from course_grader.attacks.sheet import KINDS
    from course_lib.messages import Trouble

    if level not in sandbox.LEVELS:
        raise Trouble(f"There is no level {level!r}.", f"choose from {', '.join(sandbox.LEVELS)}")
    found = trial.chosen(words, walled=level == "namespaces")
    if level == "none":
        found = [each for each in found if each.kind in ("forging", "accident")]
    if not found:
        raise Trouble(
            f"No attack is named {' or '.join(words)}.", f"kinds are {', '.join(KINDS)}; --list prints every name"
        )
    return found


def _tried(trial: ModuleType, sandbox: ModuleType, attacks: "list[Attack]", level: str, quiet: bool) -> "list[Row]":
    """All of them tried, with a bar where somebody looks."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from course_grader.attacks.stage import Stage

    console = Console(stderr=True, quiet=quiet)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        Progress(*columns, console=console, transient=True) as bar,
        Stage() as stage,
        trial.Range(stage, sandbox.Wall(level=level)) as ground,
    ):
        task = bar.add_task("attacking", total=len(attacks))

        def say(row: "Row") -> None:
            bar.update(task, advance=1, description=row.attack.name)
            if not row.held:
                bar.console.print(f"{row.attack.name}: {row.why}", style="red", markup=False, highlight=False)

        return trial.try_all(attacks, ground, say)


def _unprotected(level: str) -> tuple[str, ...]:
    from course_grader.attacks.limits import UNPROTECTED, WEAKER

    return (*([WEAKER[level]] if level in WEAKER else []), *UNPROTECTED)


def _print_list(attacks: "list[Attack]", as_json: bool) -> None:
    if as_json:
        data = [
            {"attack": each.name, "kind": each.kind, "words": each.words, "chapter": each.chapter} for each in attacks
        ]
        typer.echo(json.dumps(data, indent=1, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("kind", "attack", "what is tried"):
        table.add_column(name)
    for each in attacks:
        table.add_row(each.kind, each.name, each.words)
    Console(highlight=False, width=None if sys.stdout.isatty() else 140).print(table)


def _show(rows: "list[Row]", level: str, seconds: float) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name, more in (
        ("kind", {}),
        ("attack", {"overflow": "fold"}),
        ("gained", {"justify": "right"}),
        ("honest points kept", {"justify": "right"}),
        ("read", {}),
        ("others, services, files", {"overflow": "fold"}),
        ("", {}),
    ):
        table.add_column(name, **more)  # type: ignore[arg-type]
    for row in sorted(rows, key=lambda row: row.attack.kind):
        harmed = "; ".join([*row.touched, *row.reached, *([row.others] if row.others else []), *row.wrong])
        verdict = Text("held", style="green") if row.held else Text("GOT THROUGH", style="bold red")
        kept = f"{row.kept:g} of {row.kept + row.lost:g}" if row.kept or row.lost else "–"
        table.add_row(
            row.attack.kind,
            f"{row.attack.name}",
            f"{row.gained:g}",
            kept,
            Text("; ".join(row.read) or "nothing"),
            Text(harmed or "untouched"),
            verdict,
        )
    console.print(table)
    held = sum(row.held for row in rows)
    console.print(
        Text(
            f"\n{held} of {len(rows)} held, on the sandbox's level “{level}”, in {seconds:.0f} s.",
            style="bold" if held == len(rows) else "bold red",
        )
    )
    console.print(Text("\nWhat this does not protect from", style="bold"))
    for each in _unprotected(level):
        console.print(Text(f"- {each}"))
