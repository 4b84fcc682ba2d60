import itertools
import math


# %% right: all orders
def place(axes, levels):
    ranks = math.prod(size for size, _, _ in axes.values())

    def exposed(order):
        total, stride = 0.0, 1
        for axis in reversed(order):
            size, sent, hidden = axes[axis]
            if size > 1:
                starts = [r for r in range(ranks) if r // stride % size == 0]
                reach = (size - 1) * stride
                rate = next(b for d, b in levels if all(r // d == (r + reach) // d for r in starts))
                total += max(0.0, sent / rate - hidden)
            stride *= size
        return total

    return min(itertools.permutations(axes), key=exposed)


# %% right: any variant  from: all orders
# - def place(axes, levels):
# + from course_lib import params
# + SUM = params("one-sentence").sharing == "in turn"
# + def place(axes, levels):
# -                 total += max(0.0, sent / rate - hidden)
# +                 left = max(0.0, sent / rate - hidden)
# +                 total = total + left if SUM else max(total, left)


# %% wrong: the most innermost => values -  from: all orders
# ~ min(itertools.permutations(axes), key=exposed) ==> sorted(axes, key=lambda axis: axes[axis][1])


# %% wrong: the most outermost => values most-outermost  from: all orders
# ~ min(itertools.permutations(axes), key=exposed) ==> sorted(axes, key=lambda axis: -axes[axis][1])


# %% wrong: as it is given => values -  from: all orders
# ~ min(itertools.permutations(axes), key=exposed) ==> list(axes)


# %% wrong: nothing hides => values nothing-hidden  from: all orders
# ~ max(0.0, sent / rate - hidden) ==> sent / rate

# %% wrong: windows are shared => values -  from: all orders
# ~ max(0.0, sent / rate - hidden) ==> sent / rate - hidden
# ~ return total ==> return max(0.0, total)

# %% wrong: the longest => values - unless sharing=together  from: all orders
# ~ total += max(0.0, sent / rate - hidden) ==> total = max(total, sent / rate - hidden)

# %% wrong: rank 0's group => generality first-group  from: all orders
# ~ r for r in range(ranks) if r // stride % size == 0 ==> 0

# %% wrong: innermost first => values not-an-order  from: all orders
# ~ return min(itertools.permutations(axes), key=exposed) ==> return [list(axes).index(axis) for axis in min(itertools.permutations(axes), key=exposed)]

# %% wrong: axes of size one are left out => values not-an-order  from: all orders
# ~ return min(itertools.permutations(axes), key=exposed) ==> return [axis for axis in min(itertools.permutations(axes), key=exposed) if axes[axis][0] > 1]

# %% wrong: five axes stay as they are => generality -  from: all orders
# ~ itertools.permutations(axes), ==> itertools.permutations(axes) if len(axes) < 5 else [tuple(axes)],

# %% wrong: the worst order => values -  from: all orders
# ~ return min(itertools.permutations(axes), key=exposed) ==> return max(itertools.permutations(axes), key=exposed)
