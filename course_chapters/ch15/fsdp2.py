"""One step of FSDP2 in two real processes: what it sent, and what was predicted."""

from collections.abc import Callable, Mapping

import torch
from IPython.display import Markdown
from torch import nn

from course_chapters.table import table
from course_lib.cluster import ClusterError
from course_lib.model import text
from course_lib.model.transformer import Config, loss
from course_runs import sharded
from course_runs.real_ranks import launch

Way = tuple[bool, torch.dtype | None]  # reshard_after_forward, param_dtype
Wrap = Callable[..., nn.Module]  # wrap(mesh, reshard_after_forward, param_dtype)


def in_two_processes(wrap: Wrap, config: Config, ways: Mapping[str, Way]) -> Markdown:
    """Gathers, bytes and loss for each way of wrapping the model; AssertionError if a byte differs from the prediction.

    Where two processes cannot run, the table has recorded runs of another model instead.
    """
    try:
        seen = launch(_steps, 2, args=(wrap, list(ways.values())), timeout=100).results[0]
    except (OSError, ClusterError) as reason:
        print(f"Two processes could not run here ({str(reason).splitlines()[0]}).")
        print("The table has recorded runs of another model instead, with 32-bit weights only:")
        return table(sharded.kept())
    return table(sharded.tried(config, ways, seen))


def _steps(_: object, wrap: Wrap, ways: list[Way]) -> list[sharded.Seen]:
    """For each way: loss, bytes of weights held whole after the forward pass, calls and bytes sent in both passes."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh

    from course_runs.counting import Wire

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    found: list[sharded.Seen] = []
    inputs, targets = (rows.tensor_split(mesh.size())[dist.get_rank()] for rows in text.batch(0, 8, 32))
    for reshard, dtype in ways:
        model, forward, backward = wrap(mesh, reshard, dtype), Wire(), Wire()
        with forward:
            batch_loss = loss(model(inputs), targets)
        whole = sum(weight.nbytes for weight in model.parameters() if not hasattr(weight, "placements"))
        with backward:
            batch_loss.backward()
        ahead, back = ((wire.calls["all_gather"], wire.sent) for wire in (forward, backward))
        found.append((batch_loss.item(), whole, ahead, back))
    return found
