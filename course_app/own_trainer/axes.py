"""What the trainer can do: one entry for each axis along which ranks share the work, with the parts that it needs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from course_app.own_trainer.kit.settings import Settings

_ALWAYS = ("learning_rate", "write_adamw", "exactly_once", "ring_all_reduce")


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One way to train."""

    name: str
    chapter: str  # the chapter after which it can be tried
    layout: str
    words: str
    own_parts: tuple[str, ...]  # besides those that every layout needs
    stop: int = 0  # the step after which a new trainer goes on from a checkpoint

    @property
    def parts(self) -> tuple[str, ...]:
        """The files of all parts that it runs."""
        return (*_ALWAYS, *self.own_parts)

    @property
    def most_ranks(self) -> int:
        """The most ranks that the small model can be shared by: it has four heads, layers and experts."""
        return 4 if self.layout in ("tensor", "pipeline", "experts") else 8

    @property
    def tolerance(self) -> float:
        """By how much a loss may differ from the library's, in nats: fp32 adds in another order, fp16 also rounds."""
        return 0.02 if self.layout == "half" else 1e-3

    def settings(self, steps: int = 6, small: bool = False) -> Settings:
        """A run of this axis; `small` for a notebook's cell."""
        full = Settings(layout=self.layout, steps=steps, stop=self.stop)
        return replace(full, hidden=16, seq=16) if small else full


_CUT = ("column_and_row", "conjugate_pair", "parallel_mlp", "parallel_attention", "mesh_coordinates", "norm_on_mesh")

_AXES = (
    Axis(
        name="data",
        chapter="07",
        layout="data",
        words="replicas, gradients in buckets",
        own_parts=("ddp_buckets", "clip_pieces"),
    ),
    Axis(
        name="half",
        chapter="07",
        layout="half",
        words="fp16 with a loss scale, replicas",
        own_parts=("loss_scaler", "average_gradients", "clip_pieces"),
    ),
    Axis(
        name="zero",
        chapter="08",
        layout="zero",
        words="replicas that share the optimizer state",
        own_parts=("ddp_hooks", "own_and_tell", "clip_pieces"),
    ),
    Axis(
        name="sharded",
        chapter="08",
        layout="sharded",
        words="sharded weights, gathered unit by unit",
        own_parts=("fsdp_by_hand", "clip_shards"),
    ),
    Axis(name="tensor", chapter="09", layout="tensor", words="columns and rows of each matrix", own_parts=_CUT),
    Axis(
        name="pipeline",
        chapter="10",
        layout="pipeline",
        words="layers in a 1F1B pipeline",
        own_parts=("three_schedules", "run_any_schedule", "norm_on_mesh"),
    ),
    Axis(
        name="context",
        chapter="11",
        layout="context",
        words="tokens of each sequence, ring attention",
        own_parts=("zig_zag_positions", "ring_attention", "ring_backward", "mean_over_the_mesh", "clip_pieces"),
    ),
    Axis(
        name="experts",
        chapter="12",
        layout="experts",
        words="experts on many ranks",
        own_parts=("route_tokens", "expert_parallel", "average_gradients", "norm_on_mesh"),
    ),
    Axis(
        name="mesh",
        chapter="13",
        layout="mesh",
        words="replicas of tensor-parallel groups",
        own_parts=(*_CUT, "average_gradients"),
    ),
    Axis(
        name="checkpoint",
        chapter="14",
        layout="data",
        words="stopped half-way, resumed from a file",
        own_parts=("ddp_buckets", "clip_pieces", "snapshot_and_restore", "atomic_checkpoint"),
        stop=2,
    ),
)
AXES: Mapping[str, Axis] = {axis.name: axis for axis in _AXES}


def new_in(chapter: str) -> list[Axis]:
    """The axes that this chapter adds."""
    return [axis for axis in _AXES if axis.chapter == chapter]
