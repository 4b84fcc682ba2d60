"""What several of chapter 12's cards use."""

import random
from collections.abc import Mapping
from typing import Any

from course_grader.exercises.result_schema import Anything, DictOf, ListOf, Tensor


def vary_layout(draw: random.Random) -> Mapping[str, Any]:
    group, copies = draw.choice(((2, 4), (3, 2), (4, 2)))
    return {"group": group, "ranks": group * copies}


LAYER = DictOf(
    {"output": Anything(), "gradients": ListOf(Tensor()), "calls": ListOf(ListOf(Tensor())), "changed": Anything()}
)
