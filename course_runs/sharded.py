"""What FSDP2 sent in the two passes of a step, as rows: of a try just made, beside what was predicted, or of recorded
runs."""

from collections.abc import Mapping, Sequence

import torch

from course_lib.estimate.units import bytes_text
from course_lib.model.transformer import Config, build
from course_runs.reading import recorded
from course_runs.ring_bytes import ring_sent

RECORDED = ("cpu2/fsdp", "cpu2/fsdp-kept")  # two processes, with resharding and without
FP32, HALF = 4, 2  # bytes of a number
Row = dict[str, object]
Seen = tuple[
    float, int, tuple[int, Mapping[str, int]], tuple[int, Mapping[str, int]]
]  # loss, bytes whole between the passes, calls and bytes of each pass


def parameters(config: Config) -> tuple[int, int]:
    """Parameters of all blocks, and of the whole model."""
    model = build(config)
    blocks = sum(each.numel() for each in model.blocks.parameters())
    return blocks, sum(each.numel() for each in model.parameters())


def predicted(config: Config, reshard: bool, narrow: bool, ranks: int = 2) -> dict[str, float]:
    """Bytes of weights and of gradients that a rank sends in a step, and of weights whole between the passes: blocks
    are units, the rest stays whole."""
    blocks, everything = parameters(config)
    width = HALF if narrow else FP32
    return {
        "weights": ring_sent("all_gather", width * (everything + blocks * reshard), ranks),
        "gradients": ring_sent("reduce_scatter", FP32 * everything, ranks),
        "whole": width * (everything - blocks * reshard),
    }


def tried(config: Config, ways: Mapping[str, tuple[bool, torch.dtype | None]], seen: Sequence[Seen]) -> list[Row]:
    """A row for each way; AssertionError if a byte is not as predicted."""
    rows: list[Row] = []
    for (name, (reshard, dtype)), (loss, whole, (there, forward), (back, backward)) in zip(
        ways.items(), seen, strict=True
    ):
        found = {
            "weights": forward["all_gather"] + backward["all_gather"],
            "gradients": backward["reduce_scatter"],
            "whole": whole,
        }
        want = predicted(config, reshard, dtype is not None)
        if found != want:
            raise AssertionError(f"{name}: {found} bytes, and {want} were predicted")
        rows.append(
            {
                "two real processes": name,
                "gathers forward, backward": f"{there}, {back}",
                "whole between the passes": bytes_text(whole),
                "weights sent": bytes_text(found["weights"]),
                "gradients sent": bytes_text(found["gradients"]),
                "loss on rank 0": f"{loss:.5f}",
            }
        )
    return rows


def kept() -> list[Row]:
    """The same of the recorded runs, as far as they say it: of a whole step, and of no 16-bit weights."""
    rows: list[Row] = []
    for run in map(recorded, RECORDED):
        setup, measured = run["setup"], run["measured"]
        kept = f"reshard_after_forward={setup['reshard_after_forward']}"
        rows.append(
            {
                f"recorded: {setup['size']}, {setup['layout']['name']}": kept,
                "gathers in a step": measured["wire_calls"]["all_gather"],
                "weights sent": bytes_text(measured["wire"]["all_gather"]),
                "gradients sent": bytes_text(measured["wire"]["reduce_scatter"]),
                "first loss": f"{measured['first_loss']:.5f}",
            }
        )
    return rows
