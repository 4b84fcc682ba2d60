"""Judge of spike-guard: skip it, or roll back?"""

import math
import random
from collections.abc import Sequence
from statistics import fmean, median, median_high, median_low
from typing import Any

from course_lib.judging import Fault, Judging, Params, oracle
from course_lib.judging.cases import hidden, shown
from course_lib.records import Case


def guard(
    rule: str,
    window: int,
    factor: float,
    patience: int,
    losses: Sequence[float],
    *,
    middle: Any = median,
    joins: bool = False,  # whether spikes join the window
    forever: bool = False,  # whether all accepted losses count
    resets: bool = True,  # whether a rollback sets the count back
    total: bool = False,  # whether spikes that are not in a row count
    least: bool = False,  # whether a loss at the limit is a spike
    finite: bool = True,  # whether NaN is a spike
    late: int = 0,
) -> list[str]:
    """What the guard says of each loss; the keywords are known mistakes."""
    kept: list[float] = []
    said, row = [], 0
    for loss in losses:
        recent = kept if forever else kept[-window:]
        limit = math.inf
        if len(kept) >= window:
            center = middle(recent)
            limit = factor * center if rule == "ratio" else center + factor * middle([abs(x - center) for x in recent])
        spike = (finite and not math.isfinite(loss)) or loss > limit or (least and loss == limit)
        row = row + 1 if spike else row if total else 0
        if not spike or joins:
            kept.append(loss)
        back = spike and row >= patience + late
        said.append("rollback" if back else "skip" if spike else "go")
        row = 0 if back and resets else row
    return said


def _guard_cases(params: Params, rng: random.Random) -> list[Case]:
    def noisy(count: int, *spikes: int) -> list[float]:
        return [3.0 + rng.randrange(-8, 9) / 64 + (6.0 if at in spikes else 0.0) for at in range(count)]

    def case(make: Any, name: str, share: str, window: int, factor: float, patience: int, losses: list[float]) -> Case:
        return make(name, share, window, factor, patience, losses)

    falling = [8 - each / 8 for each in range(40)]
    falling[30] = 6.0  # above what is usual by now, and below what was usual at first
    # a window of 0, 1, 2 has median 1; one of 1, 2, 3 has median 2 and deviation 1
    limits = {"ratio": [0.0, 1.0, 2.0, 2.0, 4.0001, 4.0, 1.0], "deviation": [1.0, 2.0, 3.0, 4.0, 6.0, 6.0001, 2.0]}
    zero = [0.0, 0.0, 0.0, 0.0, 0.25, 0.0, -0.5, 0.0, 2e4, math.nan]
    usual = noisy(40, *range(10, 30))
    pauses = noisy(24, 6, 7, 9, 10, 12, 14, 15, 16, 17, 18, 19)
    odd = [math.nan, 2.0, 2.125, math.inf, 2.0, 2.0, -math.inf, 2.0, math.nan]
    edges: dict[str, tuple[int, float, int, list[float]]] = {
        "a rollback at every spike": (3, 2.0, 1, [*noisy(12, 5, 6, 10), math.nan]),
        "at the limit, and just above it": (3, 2.0, 2, limits[params["rule"]]),
        "an even window": (2, 2.0, 2, [1.0, 3.0, 3.5, 6.75, 3.875, 3.0]),
        "a median of zero": (3, 2.0, 2, zero),
        "a window of one": (1, 2.0, 2, [2.0, 4.0, 1.0, 3.0, 1.0, 5.0, 6.0, 1.0]),
        "a window of eleven": (11, 2.0, 2, [1.0] * 6 + [2e4] * 5 + [3.0, 1.0]),
        "NaN in a row of spikes": (3, 2.0, 3, [2.0, 2, 2, 9, math.nan, 9, math.inf, 2]),
        "NaN at a rollback": (3, 2.0, 3, [2.0, 2, 2, 9, 9, math.nan, math.inf, math.nan, 9]),
        "not finite from the first loss on": (3, 2.0, 2, [math.nan, math.inf, 2.0, 2.0]),
        "NaN, a good loss and NaN at the start": (4, 2.0, 2, [math.nan, 2.0, math.nan, 2.0]),
        "a falling loss": (6, 1.2 if params["rule"] == "ratio" else 3.0, 2, falling),
        "a long plateau that would become usual": (4, 2.0, 50, usual),
        "2,100 losses": (8, 2.0, 3, noisy(2100, 400, 401, 402, 1999)),
    }
    return [
        case(shown, "one spike", "values:skips", 5, 2.0, 3, noisy(12, 8)),
        case(shown, "a plateau of spikes", "values:rollbacks", 4, 2.0, 3, noisy(20, *range(9, 13))),
        case(hidden, "spikes at the start are accepted", "values:skips", 4, 1.5, 2, noisy(14, 1, 6, 9)),
        case(hidden, "NaN and infinity, from the first loss on", "values:skips", 4, 3.0, 5, odd),
        case(hidden, "spikes with a pause", "values:rollbacks", 4, 2.0, 3, pauses),
        *[case(hidden, name, "generality:edges", *given) for name, given in edges.items()],
    ]


def _guard_fault(params: Params, case: Case, got: Any) -> Fault | None:
    rule = params["rule"]
    want, said = guard(rule, *case.args), [each.strip().lower() for each in got]
    if len(said) != len(want):
        return "wrong-shape", f"one word for each of the {len(want)} losses; got {len(said)}."
    if said[-1:] == ["grows"]:
        return "grows", "the guard keeps far more losses than the last `window`, which are enough."
    if said == want:
        return None
    other = "deviation" if rule == "ratio" else "ratio"
    lead = "this solves the public form of the exercise: " if rule != "ratio" else ""
    known: list[tuple[str, str, dict[str, Any], str]] = [
        ("public-form" if lead else "other-rule", other, {}, f"{lead}the limit is computed in another way."),
        ("spikes-join", rule, {"joins": True}, "spikes join the losses that set the limit, so that they become usual."),
        ("mean", rule, {"middle": lambda kept: fmean(kept)}, "this is the mean of the losses, not the median."),
        ("one-of-the-middle", rule, {"middle": median_low}, "this takes the lower of the two losses in the middle."),
        ("one-of-the-middle", rule, {"middle": median_high}, "this takes the upper of the two losses in the middle."),
        ("all-losses", rule, {"forever": True}, "all accepted losses set the limit, not the last `window`."),
        ("not-reset", rule, {"resets": False}, "after a rollback the count of spikes begins again."),
        ("not-in-a-row", rule, {"total": True}, "a loss that is no spike sets the count back to zero."),
        ("late", rule, {"late": 1}, "the rollback comes one spike too late."),
        ("at-the-limit", rule, {"least": True}, "a loss at the limit is no spike."),
        ("nan-accepted", rule, {"finite": False}, "NaN is no number to compare with; test for it first."),
    ]
    for name, kind, change, message in known:
        if said == guard(kind, *case.args, **change):
            return name, message
    at = next(at for at, pair in enumerate(zip(said, want, strict=True)) if pair[0] != pair[1])
    return "other-word", f"loss {at + 1} of {len(want)} is {case.args[3][at]:g}, and {said[at]!r} is not right."


JUDGING = Judging(
    shares="values:skips 0.3, values:rollbacks 0.3, generality:edges 0.4",
    cases=_guard_cases,
    verdicts=oracle(lambda params, case, outcome: _guard_fault(params, case, outcome.value), named=True),
    why="""A median over accepted losses is not moved by the spikes that it is to find. One bad batch is skipped; several in a row mean that the weights
are already hurt, and only an older checkpoint helps. PaLM's authors did both: they went back and left out the batches around the spike.""",
    pytorch="There is no such guard in PyTorch; `torch.nn.utils.clip_grad_norm_(…, error_if_nonfinite=True)` stops at NaN.",
)

ANSWERS = r"""import math
from collections import deque
from statistics import mean, median


# %% right: as written
class SpikeGuard:
    def __init__(self, window, factor, patience):
        self.kept, self.factor, self.patience = deque(maxlen=window), factor, patience
        self.row = 0

    def see(self, loss):
        spike = not math.isfinite(loss)
        if len(self.kept) == self.kept.maxlen and not spike:
            middle = median(self.kept)
            spike = loss > self.factor * middle
        if not spike:
            self.kept.append(loss)
            self.row = 0
            return "go"
        self.row += 1
        if self.row == self.patience:
            self.row = 0
            return "rollback"
        return "skip"


# %% right: with a list
class SpikeGuard:
    def __init__(self, window, factor, patience):
        self.window, self.factor, self.patience, self.last, self.left = window, factor, patience, [], patience

    def limit(self):
        if len(self.last) < self.window:
            return math.inf
        ordered = sorted(self.last)
        n = len(ordered)
        return self.factor * (ordered[(n - 1) // 2] + ordered[n // 2]) / 2

    def see(self, loss):
        if loss <= self.limit() and abs(loss) != math.inf:  # a comparison with NaN is false
            self.last, self.left = [*self.last, loss][-self.window :], self.patience
            return "go"
        self.left -= 1
        if self.left:
            return "skip"
        self.left = self.patience
        return "rollback"


# %% right: any variant  from: as written
# - class SpikeGuard:
# + from course_lib import params
# + RULE = params("spike-guard").rule
# + class SpikeGuard:
# -             spike = loss > self.factor * middle
# +             limit = self.factor * middle
# +             if RULE == "deviation":
# +                 limit = middle + self.factor * median([abs(x - middle) for x in self.kept])
# +             spike = loss > limit

# %% wrong: spikes join the window => values -  from: as written
#           self.row += 1
# +         if math.isfinite(loss):
# +             self.kept.append(loss)

# %% wrong: the mean => generality -  from: as written
# ~ median ==> mean

# %% wrong: all losses count => generality -  from: with a list
# ~ [*self.last, loss][-self.window :], self.patience ==> [*self.last, loss], self.patience

# %% wrong: all losses are kept => generality grows  from: as written
#               spike = loss > self.factor * middle
# +         self.history = [*getattr(self, "history", []), loss]

# %% wrong: the count goes on after a rollback => values -  from: as written
# -         if self.row == self.patience:
# -             self.row = 0
# +         if self.row >= self.patience:

# %% wrong: spikes need not be in a row => values not-in-a-row  from: as written
#               self.kept.append(loss)
# -             self.row = 0

# %% wrong: one spike too late => values late  from: as written
# ~ if self.row == self.patience: ==> if self.row == self.patience + 1:

# %% wrong: at the limit => generality at-the-limit  from: as written
# ~ loss > self.factor ==> loss >= self.factor

# %% wrong: NaN is compared => values nan-accepted  from: as written
# ~ not math.isfinite(loss) ==> False

# %% wrong: infinity is no spike at first => values -  from: as written
# ~ not math.isfinite ==> math.isnan

# %% wrong: it never rolls back => values -  from: as written
# ~ rollback ==> skip

# %% wrong: it judges from the first loss on => values -  from: as written
# ~ len(self.kept) == self.kept.maxlen ==> self.kept

# %% wrong: the lower of the two in the middle => generality one-of-the-middle  from: as written
# ~ median(self.kept) ==> sorted(self.kept)[(len(self.kept) - 1) // 2]

# %% wrong: NaN is not counted => generality -  from: as written
# ~ 1 ==> math.isfinite(loss)

# %% wrong: all guards share one count => values -  from: as written
#   class SpikeGuard:
# +     count = 0
#               self.kept.append(loss)
# -             self.row = 0
# +             SpikeGuard.count = 0
# -         self.row += 1
# -         if self.row == self.patience:
# -             self.row = 0
# +         SpikeGuard.count += 1
# +         if SpikeGuard.count >= self.patience:
# +             SpikeGuard.count = 0

# %% wrong: a good loss at the start leaves the count => generality ~  from: as written
#               self.kept.append(loss)
# -             self.row = 0
# +             self.row = 0 if len(self.kept) == self.kept.maxlen else self.row

# %% wrong: nothing is above a median of zero => generality ~  from: as written
# ~ loss > self.factor * middle ==> loss > self.factor * middle != 0

# %% wrong: a rollback at NaN leaves one spike => generality -  from: as written
#           if self.row == self.patience:
# -             self.row = 0
# +             self.row = int(not math.isfinite(loss))
"""
