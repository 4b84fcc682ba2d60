import math
from collections.abc import Sequence

from course_grader.judging import Case, Fault, Judging, Params, Random, Worked, hidden, oracle, shown
from course_grader.judging.cases import Maker

right = Worked("spike-guard")


def _guard_cases(params: Params, rng: Random) -> list[Case]:
    def noisy(count: int, *spikes: int) -> list[float]:
        return [3.0 + rng.randrange(-8, 9) / 64 + (6.0 if at in spikes else 0.0) for at in range(count)]

    def case(
        make: Maker, name: str, share: str, window: int, factor: float, patience: int, losses: list[float]
    ) -> Case:
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
        "NaN, then a high loss among the first finite ones": (4, 2.0, 3, [math.nan, 2.0, 2.0, 2.0, 9.0, 2.0]),
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


def _guard_fault(case: Case, got: Sequence[str]) -> Fault | None:
    want, said = right.value(case), [each.strip().lower() for each in got]
    if len(said) != len(want):
        return "wrong-shape", f"one word for each of the {len(want)} losses; got {len(said)}."
    if said[-1:] == ["grows"]:
        return "grows", "the guard keeps far more losses than the last `window`, which are enough."
    if said == want:
        return None
    at = next(at for at, pair in enumerate(zip(said, want, strict=True)) if pair[0] != pair[1])
    return "other-word", f"loss {at + 1} of {len(want)} is {case.args[3][at]:g}, and {said[at]!r} is not right."


JUDGING = Judging(
    shares="values:skips 0.3, values:rollbacks 0.3, generality:edges 0.4",
    cases=_guard_cases,
    verdicts=oracle(lambda params, case, outcome: _guard_fault(case, outcome.value), named=True),
    why="""Spikes do not move a median over accepted losses. One bad batch is skipped;
several in a row mean that the weights are already hurt, and only an older checkpoint helps. PaLM's authors did both:
they went back and left out the batches around the spike.""",
    pytorch="There is no such guard in PyTorch; `torch.nn.utils.clip_grad_norm_(…, error_if_nonfinite=True)` "
    "stops at NaN.",
)

ANSWERS = r'''from collections import deque
from statistics import fmean
# %% right: worked
rule = params("spike-guard").rule  # leave as is: the limit is a "ratio" to the median, or a "deviation" from it


class SpikeGuard:
    """Says of each loss whether to "go", "skip" the update or make a "rollback"."""

    def __init__(self, window: int, factor: float, patience: int) -> None:
        ### BEGIN SOLUTION
        self.kept, self.factor, self.patience, self.row = deque(maxlen=window), factor, patience, 0
        ### END SOLUTION

    def see(self, loss: float) -> str:
        """What to do with this step."""
        ### BEGIN SOLUTION
        limit = math.inf
        if len(self.kept) == self.kept.maxlen:
            middle = median(self.kept)
            apart = median([abs(each - middle) for each in self.kept])
            limit = self.factor * middle if rule == "ratio" else middle + self.factor * apart
        if math.isfinite(loss) and loss <= limit:
            self.kept.append(loss)
            self.row = 0
            return "go"
        self.row = (self.row + 1) % self.patience
        return "skip" if self.row else "rollback"
        ### END SOLUTION
# %% right: with a list, counting down
# -         self.kept, self.factor, self.patience, self.row = deque(maxlen=window), factor, patience, 0
# +         self.kept, self.window, self.factor = [], window, factor
# +         self.left = self.patience = patience
# ~ kept.maxlen ==> window
# -             self.kept.append(loss)
# -             self.row = 0
# +             self.kept, self.left = [*self.kept, loss][-self.window :], self.patience
# ~ row = (self.row + 1) % ==> left = self.left - 1 or
# ~ row else ==> left < self.patience else
# %% wrong: other rule => values
# > the limit is computed in another way: a loss is a spike if it is above {{means}}.
# ~ rule == "ratio" ==> rule != "ratio"
# %% wrong: spikes join => values
# > spikes are kept among the losses that set the limit, so they raise it.
#           self.row = (self.row + 1) % self.patience
# +         if math.isfinite(loss):
# +             self.kept.append(loss)
# %% wrong: mean => generality
# > this is the mean of the losses, not the median.
# ~ params("spike-guard").rule ==> "ratio"
# ~ median(self.kept) ==> fmean(self.kept)
# %% wrong: the lower of the middle => generality one-of-the-middle
# > this takes the lower of the two losses in the middle.
# ~ median(self.kept) ==> median_low(self.kept)
# ~ median([abs ==> median_low([abs
# %% wrong: the upper of the middle => generality one-of-the-middle
# > this takes the upper of the two losses in the middle.
# ~ params("spike-guard").rule ==> "ratio"
# ~ median(self.kept) ==> median_high(self.kept)
# %% wrong: all losses => generality
# > all accepted losses set the limit, not the last `window`.
# ~ params("spike-guard").rule ==> "ratio"
# ~ self.row = deque(maxlen=window), factor, patience, 0 ==> self.row, self.window = [], factor, patience, 0, window
# ~ len(self.kept) == self.kept.maxlen ==> len(self.kept) >= self.window
# %% wrong: all losses are kept => generality grows
# > the guard keeps far more losses than the last `window`, which are enough.
#           limit = math.inf
# +         self.history = [*getattr(self, "history", []), loss]
# %% wrong: not reset => values
# > after a rollback the count of spikes begins again.
# ~ = (self.row + 1) % self.patience ==> += 1
# ~ row else ==> row < self.patience else
# %% wrong: not in a row => values
# > a loss that is no spike sets the count back to zero.
# -             self.row = 0
# %% wrong: late => values
# > the rollback comes one spike too late.
# ~ % self.patience ==> % (self.patience + 1)
# %% wrong: at the limit => generality
# > a loss at the limit is no spike.
# ~ params("spike-guard").rule ==> "ratio"
# ~ loss <= limit ==> loss < limit
# %% wrong: nan accepted => values
# > every comparison with NaN is false; test for it first.
# ~ math.isfinite(loss) and loss <= limit ==> not loss > limit
# %% wrong: infinity accepted => values
# > infinity is always a spike, also while fewer than `window` losses are accepted.
# ~ math.isfinite(loss) and ==> not math.isnan(loss) and
# %% wrong: it never rolls back => values
# > the `patience`-th spike in a row gives "rollback".
# ~ else "rollback" ==> else "skip"
# %% wrong: from the first loss on => values
# > the first `window` finite losses are all accepted.
# ~ if len(self.kept) == self.kept.maxlen: ==> if self.kept:
# %% wrong: the first losses are counted with nan => generality
# > the first `window` finite losses are accepted; NaN and infinite ones are not counted among them.
#           limit = math.inf
# +         self.seen = getattr(self, "seen", 0) + 1
# ~ len(self.kept) == self.kept.maxlen ==> self.kept and self.seen > self.kept.maxlen
# %% wrong: minus infinity accepted => values
# > minus infinity is a spike as well.
# ~ math.isfinite(loss) and ==> loss < math.inf and
# %% wrong: nan rolls back at once => values
# > NaN and infinity are spikes like others: only the `patience`-th in a row gives "rollback".
# ~ "skip" if self.row else ==> "skip" if self.row and math.isfinite(loss) else
# %% wrong: a rollback empties the window => values
# > a rollback leaves the accepted losses as they are.
# ~ else "rollback" ==> else self.kept.clear() or "rollback"
# %% wrong: nan not counted => generality
# > NaN and infinity are spikes: they count as well.
# ~ % self.patience ==> % self.patience if math.isfinite(loss) else self.row or -self.patience
# %% wrong: all guards share one count => values other-word
# ~ self.patience, self.row = ==> self.patience, SpikeGuard.row =
# ~ self.row = 0 ==> SpikeGuard.row = 0
# ~ self.row = (self.row + 1) ==> SpikeGuard.row = (self.row + 1)
# %% wrong: a good loss at the start leaves the count => generality ~
# ~ self.row = 0 ==> self.row = 0 if len(self.kept) == self.kept.maxlen else self.row
# %% wrong: nothing is above a median of zero => generality ~
# ~ loss <= limit ==> (loss <= limit or not limit)
# %% wrong: a rollback at NaN leaves one spike => generality other-word
# -         return "skip" if self.row else "rollback"
# +         said = "skip" if self.row else "rollback"
# +         self.row = self.row or int(not math.isfinite(loss))
# +         return said
'''
