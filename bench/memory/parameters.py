"""Parameters counted matrix by matrix against the counts that the models' authors print."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from bench.memory.rows import Cells, Tables, whole
from course_lib.estimate import facts
from course_lib.estimate.memory import Shape, count_params
from course_lib.estimate.units import BILLION

FILE = "model_architectures.csv"
WITHIN = 0.005
RELATIVE = {"gopher-280b", "chinchilla-70b"}  # relative positions: a further matrix in each layer, Rae et al. (2021)
KNOWN = {
    "gpt3-medium": "350 M is a nominal size: the printed shape has 356 M",
    "gpt3-xl": "24 heads of 128 are printed for a width of 2,048; with heads that fit the width it has 1.316 B",
}


@dataclass(frozen=True, slots=True)
class Count:
    """One model's parameters, counted and printed."""

    name: str
    counted: int
    printed: float
    explanation: str = ""  # of a difference above the bound

    @property
    def error(self) -> float:
        """Counted over printed, less one."""
        return self.counted / self.printed - 1

    @property
    def ok(self) -> bool:
        """Within half a per cent."""
        return abs(self.error) <= WITHIN


def counts(tables: Tables) -> list[Count]:
    """All dense models that carry a printed count; those of the course where the folder has no table of models."""
    if not tables.has(FILE):
        shapes = ((one.name, one, one.published_billion) for one in facts.models().values() if one.dense)
        return [_count(name, count_params(one), f"{printed:g}") for name, one, printed in shapes]
    return list(_from_table(tables[FILE]))


def _from_table(table: list[Cells]) -> Iterator[Count]:
    for cells in table:
        printed = cells.get("params_published_b", "")
        if cells.get("n_experts") or not printed:
            continue
        try:
            yield _count(cells.get("name", "?"), count_params(_shape(cells)), printed)
        except (ValueError, InvalidOperation):
            continue  # a row without a shape is not a model


def _shape(cells: Cells) -> Shape:
    return Shape(
        layers=whole(cells, "layers"),
        hidden=whole(cells, "hidden"),
        heads=whole(cells, "heads"),
        kv_heads=whole(cells, "kv_heads"),
        head_dim=whole(cells, "head_dim"),
        ffn=whole(cells, "ffn"),
        vocab=whole(cells, "vocab"),
        gated=cells.get("mlp", "").startswith("gated"),
        tied=cells.get("tied_embeddings") == "True",
        norm=cells.get("norm", "LayerNorm"),
        biases=cells.get("biases") == "True",
        learned_positions=whole(cells, "seq_len", 0) if cells.get("learned_positions") == "True" else 0,
        relative_positions=cells.get("name") in RELATIVE,
    )


def _count(name: str, counted: int, printed: str) -> Count:
    figure = Decimal(printed)
    one = Count(name, counted, float(figure) * BILLION)
    if one.ok:
        return one
    exponent = figure.as_tuple().exponent
    assert isinstance(exponent, int)  # a finite number
    half = Decimal(1).scaleb(exponent) / 2  # of the last printed digit
    rounds = abs(counted / BILLION - float(figure)) <= float(half)
    words = f"{counted / BILLION:.3f} B rounds to the printed {printed} B" if rounds else KNOWN.get(name, "")
    return Count(name, counted, one.printed, words)
