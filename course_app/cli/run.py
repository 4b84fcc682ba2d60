"""`course run`: real runs on this machine's processors or GPUs."""

from typing import Annotated

import typer

from course_app.cli.console import HELP, examples, part
from course_lib.messages import Trouble

EXAMPLES = examples(
    "course run                                        what can be run",
    "course run train --size 1m --nproc 2 --layout fsdp     two processes of this CPU",
    "course run train --size 1b --nproc 8 --layout fsdp --out work/evidence",
    "course run train --size 1b --nproc 8 --layout fsdp --save-every 100 --out runs/1b --retries 3    on a "
    "spot machine",
    "course run collectives --nproc 8 --out work/evidence",
    "course run tour --minutes 55 --out tour            make good use of a paid hour",
    "course run tour --dry --gpus 4 --out /tmp/tour     the same at home",
    "course run failures                                kill, hang, slow and mismatch a rank, and see what "
    "each looks like",
    "course run survive                                 the same in a training that continues and reads "
    "each sample once",
    "course run serve --load auto                       serve a small model and measure its latency against load",
    "course run posttrain --trainers 2 --generators 2     a small model learns to add from rewards",
    "course run data --before 2 --after 3                 a mixed stream from a slow store, resumed on other ranks",
    "course run diloco --compare                        workers that rarely exchange outer gradients",
    "course run verify work/evidence/train.json         does anything contradict this evidence?",
)
PROGRAMS = {
    "train": "train the course's model with ddp, fsdp, cp, tp, pp or a product of them",
    "collectives": "measure the time and bandwidth of each collective by message size",
    "matmul": "measure the FLOP/s that one device reaches",
    "parity": "test that every layout trains the same model, on 2, 4 or 8 processes",
    "resumed": "stop a run, resume it, and compare it with a run that was not stopped",
    "tour": "run every stage that fits the GPUs and the time",
    "failures": "make a training fail in several ways, and diagnose each",
    "serve": "serve a small model behind an OpenAI-compatible endpoint under load, and compare with the prediction",
    "posttrain": "let a small model learn to add from rewards, on one process or on trainers and generators",
    "data": "read mixed data from a slow store, stop, and resume on another number of processes",
    "diloco": "train on workers that rarely exchange outer gradients, as over a slow link",
    "survive": "kill, hang, slow and resize the ranks of a training, and compare it with an undisturbed one",
    "verify": "check that nothing contradicts the evidence",
}
_ALONE = ("matmul", "tour", "failures", "survive")  # they start what they need themselves
_OF_CHAPTERS = {  # programs that a chapter teaches, and their modules
    "posttrain": "course_chapters.ch19.posttrain",
    "data": "course_chapters.ch20.data_run",
    "diloco": "course_chapters.ch20.diloco_run",
}
_OWN_RANKS = ("failures", "survive")  # of these, the programs that take --nproc themselves


def run(
    context: typer.Context,
    program: Annotated[str, typer.Argument(help="What to run; without a name, a list.")] = "",
    nproc: Annotated[
        int | None,
        typer.Option("--nproc", help="Processes on this machine; with GPUs one each (default: the program's)."),
    ] = None,
    max_minutes: Annotated[float | None, typer.Option("--max-minutes", help="Stop after this many minutes.")] = None,
    max_cost: Annotated[
        float | None, typer.Option("--max-cost", help="Stop before the run costs more than this many dollars.")
    ] = None,
    price: Annotated[float | None, typer.Option("--price", help="Dollars per GPU and hour.")] = None,
    retries: Annotated[
        int,
        typer.Option(
            "--retries",
            min=0,
            help="For spot machines: how often to start a training again from its newest checkpoint after a lost "
            "process or a signal to stop.",
        ),
    ] = 0,
    asks_for_help: Annotated[bool, typer.Option("--help", "-h", help=HELP)] = False,
) -> None:
    """Run on real processes: predicted first, then measured.

    Further flags go to the program itself: course run train --help lists them. --retries needs --save-every and --out;
    it never repeats a refusal, an error of the program or Ctrl-C, and the limits count all tries. Exits with 0 if the
    run went well, 2 if it was refused before it began, 124 if it was stopped by a limit, 143 if it saved and stopped
    because of SIGTERM.
    """
    if asks_for_help and not program:
        typer.echo(context.get_help())
        return
    if not program:
        for name, what in PROGRAMS.items():
            typer.echo(f"{name:12} {what}")
        return
    if program not in PROGRAMS:
        raise Trouble(f"There is no run {program!r}.", f"choose one of {', '.join(PROGRAMS)}")
    if retries and program != "train":
        raise Trouble(f"`run {program}` has no --retries.", "only `run train` goes on from checkpoints")
    rest = [*context.args, *(["--help"] if asks_for_help else [])]
    if program == "verify":
        raise typer.Exit(part("course_runs.verify", "verifying evidence").main(rest))
    if program in _OWN_RANKS and nproc is not None:
        rest += ["--nproc", str(nproc)]
    if program == "serve":  # it drains when it is interrupted, so that nothing may end it from outside
        rest += ["--seconds", f"{60 * max_minutes:g}"] if max_minutes is not None else []
        raise typer.Exit(part("course_runs.serve", "serving").main(rest))
    if program in _OF_CHAPTERS:
        for flag, value in {"--nproc": nproc, "--max-cost": max_cost, "--price": price}.items():
            if value is not None:
                instead = (
                    f"see its own flags: course run {program} --help" if flag == "--nproc" else "it runs on processors"
                )
                raise Trouble(f"`run {program}` has no {flag}.", instead)
        rest += ["--minutes", f"{max_minutes:g}"] if max_minutes is not None else []
        raise typer.Exit(part(_OF_CHAPTERS[program], f"`run {program}`").main(rest))
    if asks_for_help:
        typer.echo("Flags of `course run` itself, such as --nproc, --max-cost and --retries: course run --help\n")
    starting = part("course_runs.worker_start", "real runs")
    limits = starting.Limits(minutes=max_minutes, dollars=max_cost, price=price)
    raise typer.Exit(
        starting.start(program, rest, 1 if program in _ALONE or nproc is None else nproc, limits, retries=retries)
    )
