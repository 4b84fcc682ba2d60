import math
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
