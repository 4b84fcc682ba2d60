"""What several of chapter 12's cards use."""

from course_grader.exercises import Anything, DictOf, ListOf, Params, Random, Tensor


def vary_layout(draw: Random) -> Params:
    group, copies = draw.choice(((2, 4), (3, 2), (4, 2)))
    return {"group": group, "ranks": group * copies}


LAYER = DictOf({"output": Anything(), "gradients": ListOf(Tensor()), "calls": ListOf(ListOf(Tensor()))})
