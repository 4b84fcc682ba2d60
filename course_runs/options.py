"""The options of `course_runs.train`, and the job that they ask for."""

import argparse
from collections.abc import Sequence

from course_runs import layouts, predict
from course_runs.sizes import SIZES, size


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        prog="train",
        description="Train the course's model for real: `torchrun --nproc-per-node 8 -m course_runs.train --size 1b "
        "--layout fsdp`.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n  train --size 1m --steps 20\n  train --size 1b --layout fsdp --checkpointing full\n"
        "  train --size 1m --layout pp=2,tp=2 --schedule gpipe --micro-batches 8\n  train --size 7b --layout "
        "ddp=2,fsdp=4 --out runs/7b --save-every 100 --resume",
    )
    add = parser.add_argument
    add("--size", default="1m", help=f"size of the model: {', '.join(SIZES)}")
    add(
        "--layout",
        default="",
        help="how to divide the work: ddp, fsdp, cp, tp, pp or a product of them, such as ddp=2,fsdp=4 or "
        "cp=2,tp=4,sp (default: ddp over all ranks)",
    )
    add("--schedule", default="1f1b", help="schedule of the pipeline: gpipe, 1f1b or interleaved")
    add("--micro-batches", type=int, default=None, help="number of micro-batches of each data-parallel rank in a step")
    add("--batch", type=int, default=None, help="number of sequences in a step, over all ranks")
    add("--seq-len", type=int, default=None, help="number of tokens in a sequence")
    add("--steps", type=int, default=20, help="number of steps to train")
    add(
        "--until",
        type=int,
        default=0,
        help="train up to this step, instead of --steps; the steps of a resumed run count too",
    )
    add("--learning-rate", type=float, default=1e-3, help="peak learning rate of AdamW")
    add(
        "--warmup",
        type=int,
        default=0,
        help="number of steps in which the learning rate rises; then it falls along half a cosine to a tenth (0: the "
        "rate stays constant)",
    )
    add(
        "--total-steps",
        type=int,
        default=0,
        help="number of steps that the cosine covers (default: those of this run, or of the resumed run)",
    )
    add(
        "--dtype",
        default="auto",
        choices=("auto", "fp32", "bf16"),
        help="number format of the arithmetic (auto: bf16 on a GPU, fp32 on a CPU)",
    )
    add(
        "--checkpointing",
        default="none",
        choices=("none", "selective", "full"),
        help="which activations the backward pass recomputes",
    )
    add(
        "--keep-gathered",
        action="store_true",
        help="FSDP keeps the gathered weights of a unit from its forward pass to its backward pass",
    )
    add("--compile", action="store_true", help="compile each block with torch.compile")
    add(
        "--fp8",
        action="store_true",
        help="compute the matrix products of the blocks in 8-bit floats; needs an H100, L40S or newer (a CPU computes "
        "the same numbers slowly)",
    )
    add("--device", default="auto", help="where to train: auto, cpu or cuda")
    add("--backend", default="auto", help="how the ranks communicate: auto, gloo or nccl")
    add("--timeout", type=float, default=120.0, help="end the run if a collective takes longer than this, in seconds")
    add("--seed", type=int, default=0, help="seed of the initial weights")
    add("--out", default="", help="folder for the evidence file (default: write none)")
    add("--name", default="", help="name of the evidence file (default: made from size, layout and time)")
    add(
        "--save-every",
        type=int,
        default=0,
        help="write a checkpoint to OUT/checkpoints after every so many steps (0: never)",
    )
    add("--save-async", action="store_true", help="write checkpoints while the next steps run")
    add("--keep", type=int, default=2, help="how many of the newest checkpoints to keep (0: all)")
    add("--resume", action="store_true", help="continue from the newest checkpoint in OUT/checkpoints")
    add(
        "--trace",
        action="store_true",
        help="profile one step: record when it computed and communicated, and write OUT/traces for ui.perfetto.dev",
    )
    add(
        "--tensorboard",
        action="store_true",
        help="log the steps for TensorBoard in OUT/tensorboard; TensorBoard must be installed",
    )
    add(
        "--wandb",
        action="store_true",
        help="log the steps to Weights & Biases, which must be installed; WANDB_MODE=offline keeps the log on this "
        "machine, WANDB_PROJECT names the project",
    )
    add(
        "--print-command",
        default="",
        choices=("", "torchtitan", "megatron"),
        metavar="{torchtitan,megatron}",
        help="print the command line of another framework for the same layout, and do not train",
    )
    add("--rates", default="", help="evidence file of an earlier run; its measured rates predict this run")
    return parser.parse_args(argv)


def job_of(given: argparse.Namespace, ranks: int, kind: str) -> predict.Job:
    """The job that the command line asks for; Trouble where it cannot be divided."""
    chosen = size(given.size)
    text = given.layout or ("ddp" if ranks > 1 else "single")
    layout = layouts.parse(text, ranks, schedule=given.schedule, micro_batches=given.micro_batches)
    batch = given.batch or max(chosen.batch, 2 * layout.data * layout.micro_batches)
    config = chosen.config(given.seq_len, given.checkpointing)
    layouts.check(layout, config, batch)
    width = 2 if (given.dtype == "bf16" or (given.dtype == "auto" and kind == "cuda")) else 4
    return predict.Job(config=config, layout=layout, batch=batch, width=width, reshard=not given.keep_gathered)
