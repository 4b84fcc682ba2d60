"""What a run is: its layout, its model, its batch and its optimizer, in one record."""

from collections.abc import Callable
from dataclasses import dataclass

LAYOUTS = ("data", "half", "zero", "sharded", "tensor", "pipeline", "context", "experts", "mesh")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One run. Sizes are those of the whole model and of the whole batch, however many ranks share them."""

    layout: str = "data"
    steps: int = 6
    sequences: int = 8  # of a step, over all ranks
    seq: int = 32  # tokens of a sequence
    hidden: int = 32
    layers: int = 4
    heads: int = 4
    vocab: int = 64
    experts: int = 4  # of each layer, in the layout "experts"
    active: int = 2  # experts of a token
    microbatches: int = 4  # of a step, in the layout "pipeline"
    peak: float = 0.01  # learning rate
    floor: float = 0.001
    warmup: int = 2  # updates
    total: int = 40  # updates until the floor
    most: float = 1.0  # norm at which gradients are clipped
    decay: float = 0.1
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    seed: int = 0
    stop: int = 0  # in the run with a checkpoint: the step after which a new trainer goes on; 0 for none

    def __post_init__(self) -> None:
        if self.layout not in LAYOUTS:
            raise ValueError(f"layout={self.layout!r}: choose one of {', '.join(LAYOUTS)}.")

    def check(self, ranks: int, refuse: Callable[[str], object]) -> None:
        """Call `refuse` with a sentence if so many ranks cannot share this run."""
        cut = ranks // 2 if self.layout == "mesh" and ranks % 4 == 0 else ranks
        name = {"tensor": "heads", "mesh": "heads", "experts": "experts"}.get(self.layout, "")
        if ranks < 1 or self.sequences % ranks:
            refuse(
                f"{self.sequences} sequences cannot be shared evenly by {ranks} ranks; change --ranks or --sequences."
            )
        elif name and getattr(self, name) % cut:
            refuse(f"{getattr(self, name)} {name} cannot be shared evenly by {cut} ranks; change --ranks or --{name}.")
        elif self.layout == "pipeline" and self.layers < ranks:
            refuse(f"{self.layers} layers are too few for {ranks} ranks; change --ranks or --layers.")
