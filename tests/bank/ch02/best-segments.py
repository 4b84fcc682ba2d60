import math


# %% right: bisect the cap, fewest inputs for every prefix
def peak_bytes(inputs, inner, starts):
    peak = kept = 0
    for start, end in zip(starts, [*starts[1:], len(inputs)]):
        kept += inputs[start]
        peak = max(peak, kept + sum(inner[start:end]))
    return peak


def best_segments(inputs, inner):
    layers = len(inputs)

    def cut(cap):
        least, came = [0] + [math.inf] * layers, [0] * (layers + 1)
        for end in range(1, layers + 1):
            for start in range(end):
                kept = least[start] + inputs[start]
                if kept + sum(inner[start:end]) <= cap and kept < least[end]:
                    least[end], came[end] = kept, start
        starts, end = [], layers
        while end:
            end = came[end]
            starts.append(end)
        return starts[::-1] if least[layers] < math.inf else None

    low, high = 0, sum(inputs) + sum(inner)
    while low < high:
        middle = (low + high) // 2
        if cut(middle):
            high = middle
        else:
            low = middle + 1
    return cut(low)


# %% right: for every prefix all (inputs, peak) that nothing beats
def peak_bytes(inputs, inner, starts):
    ends = [*starts[1:], len(inputs)]
    return max(sum(inputs[s] for s in starts[: j + 1]) + sum(inner[starts[j] : ends[j]]) for j in range(len(starts)))


def best_segments(inputs, inner):
    front = [[(0, 0, ())]]
    for end in range(1, len(inputs) + 1):
        found = []
        for start in range(end):
            for kept, peak, starts in front[start]:
                now = kept + inputs[start]
                found.append((now, max(peak, now + sum(inner[start:end])), (*starts, start)))
        found.sort()
        best, lowest = [], math.inf
        for each in found:
            if each[1] < lowest:
                best.append(each)
                lowest = each[1]
        front.append(best)
    return min(front[-1], key=lambda each: each[1])[2]


# %% wrong: root of the number of layers => values root-of-layers  from: for every prefix all (inputs, peak) that nothing beats
def best_segments(inputs, inner):
    return list(range(0, len(inputs), round(math.sqrt(len(inputs)))))


# %% wrong: one segment => values one-segment  from: root of the number of layers
# ~ list(range(0, len(inputs), round(math.sqrt(len(inputs))))) ==> [0]

# %% wrong: the best equal length => values every-layer  from: root of the number of layers
# -     return list(range(0, len(inputs), round(math.sqrt(len(inputs)))))
# +     ways = [list(range(0, len(inputs), length)) for length in range(1, len(inputs) + 1)]
# +     return min(ways, key=lambda starts: peak_bytes(inputs, inner, starts))

# %% wrong: all inputs stay to the end => values all-inputs-all-the-time  from: root of the number of layers
# -     return max(sum(inputs[s] for s in starts[: j + 1]) + sum(inner[starts[j] : ends[j]]) for j in range(len(starts)))
# +     return sum(inputs[s] for s in starts) + max(sum(inner[a:b]) for a, b in zip(starts, ends))
# -     return list(range(0, len(inputs), round(math.sqrt(len(inputs)))))
# +     n = len(inputs)
# +     ways = ([0, *(k + 1 for k in range(n - 1) if mask >> k & 1)] for mask in range(2 ** (min(n, 14) - 1)))
# +     return min(ways, key=lambda starts: peak_bytes(inputs, inner, starts))


# %% wrong: the sum of everything => values sum-of-all
def peak_bytes(inputs, inner, starts):
    return sum(inputs[s] for s in starts) + sum(inner)


def best_segments(inputs, inner):
    return [0]


# %% wrong: every layer's input counted => values every-layers-input  from: the sum of everything
# -     return sum(inputs[s] for s in starts) + sum(inner)
# +     ends = [*starts[1:], len(inputs)]
# +     return max(sum(inputs[:b]) + sum(inner[a:b]) for a, b in zip(starts, ends))

# %% wrong: from the front to the back => values later-inputs  from: the sum of everything
# -     return sum(inputs[s] for s in starts) + sum(inner)
# +     alive, peak = sum(inputs[s] for s in starts), 0
# +     for start, end in zip(starts, [*starts[1:], len(inputs)]):
# +         peak = max(peak, alive + sum(inner[start:end]))
# +         alive -= inputs[start]
# +     return peak

# %% wrong: lengths for starts => values lengths  from: root of the number of layers
# ~ list(range(0, len(inputs), round(math.sqrt(len(inputs))))) ==> [3] * (len(inputs) // 3)

# %% wrong: only as many layers as can be tried => generality -  from: root of the number of layers
# -     return list(range(0, len(inputs), round(math.sqrt(len(inputs)))))
# +     n = len(inputs)
# +     if n > 12:
# +         return list(range(0, n, round(math.sqrt(n))))
# +     ways = ([0, *(k + 1 for k in range(n - 1) if mask >> k & 1)] for mask in range(2 ** (n - 1)))
# +     return min(ways, key=lambda starts: peak_bytes(inputs, inner, starts))


# %% wrong: greedy up to a fixed cap => values -  from: for every prefix all (inputs, peak) that nothing beats
def best_segments(inputs, inner):
    best = None
    for cap in sorted({sum(inner[a:b]) for a in range(len(inner)) for b in range(a + 1, len(inner) + 1)}):
        starts, inside = [0], 0
        for layer, size in enumerate(inner):
            if inside and inside + size > cap:
                starts.append(layer)
                inside = 0
            inside += size
        if best is None or peak_bytes(inputs, inner, starts) < peak_bytes(inputs, inner, best):
            best = starts
    return best


# %% half: only the peak => 6  from: root of the number of layers
# ~ return list(range(0, len(inputs), round(math.sqrt(len(inputs))))) ==> raise NotImplementedError

# %% wrong: segments of twelve layers at most => generality -  from: bisect the cap, fewest inputs for every prefix
# ~ for start in range(end): ==> for start in range(max(0, end - 12), end):
