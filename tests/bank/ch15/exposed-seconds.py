# %% right: three unions
def busy(spans, begin, end):
    total, reach = 0.0, begin
    for s, e in sorted(spans):
        s, e = max(s, reach), min(e, end)
        if e > s:
            total, reach = total + e - s, e
    return total


def spans_of(kernels, *kinds):
    return [(s, e) for kind, _, s, e in kernels if kind in kinds]


def step_times(kernels, begin, end):
    compute, talk = spans_of(kernels, "compute"), spans_of(kernels, "communication")
    one, two, both = (busy(spans, begin, end) for spans in (compute, talk, compute + talk))
    return {"compute": one, "exposed": both - one, "hidden": one + two - both, "idle": end - begin - both}


# %% right: three unions of what the variant calls communication  from: three unions
from course_lib.notebook import params

also = {"communication": ["copy"]} if params("exposed-seconds").copies == "talk" else {}


def spans_of(kernels, asked):
    return [(s, e) for kind, _, s, e in kernels if kind in [asked, *also.get(asked, [])]]


# %% right: every moment against every kernel
def step_times(kernels, begin, end):
    edges = sorted({begin, end, *[min(max(t, begin), end) for one in kernels for t in one[2:]]})
    found = {"compute": 0.0, "exposed": 0.0, "hidden": 0.0, "idle": 0.0}
    for s, e in zip(edges, edges[1:]):
        kinds = {kind for kind, _, a, b in kernels if a <= s and e <= b}
        found["compute"] += (e - s) * ("compute" in kinds)
        found["hidden"] += (e - s) * ({"compute", "communication"} <= kinds)
        found["exposed"] += (e - s) * ("communication" in kinds and "compute" not in kinds)
        found["idle"] += (e - s) * (not kinds & {"compute", "communication"})
    return found


# %% right: a sweep over starts and ends
def step_times(kernels, begin, end):
    found = {"compute": 0.0, "exposed": 0.0, "hidden": 0.0, "idle": 0.0}
    events = [(begin, None, 0), (end, None, 0)]
    for kind, _, s, e in kernels:
        if kind != "copy" and e > s:
            events += [(min(max(s, begin), end), kind, 1), (min(max(e, begin), end), kind, -1)]
    running = {"compute": 0, "communication": 0}
    last = begin
    for moment, kind, change in sorted(events, key=lambda event: event[0]):
        width = moment - last
        if running["compute"] > 0:
            found["compute"] += width
            if running["communication"] > 0:
                found["hidden"] += width
        elif running["communication"] > 0:
            found["exposed"] += width
        else:
            found["idle"] += width
        last = moment
        if kind:
            running[kind] += change
    return found


# %% wrong: wall time less computing => values wall-less-computing  from: three unions
# -     return {"compute": one, "exposed": both - one, "hidden": one + two - both, "idle": end - begin - both}
# +     exposed = end - begin - one
# +     return {"compute": one, "exposed": exposed, "hidden": two - exposed, "idle": 0.0}

# %% wrong: all communication is exposed => values all-communication  from: three unions
# ~ both - one ==> two

# %% wrong: each kernel that communicates by itself => values one-by-one  from: three unions
# -     return {"compute": one, "exposed": both - one, "hidden": one + two - both, "idle": end - begin - both}
# +     cut = [(max(s, begin), min(e, end)) for s, e in talk if min(e, end) > max(s, begin)]
# +     hidden = sum(busy(compute, s, e) for s, e in cut)
# +     exposed = sum(e - s for s, e in cut) - hidden
# +     return {"compute": one, "exposed": exposed, "hidden": hidden, "idle": end - begin - both}

# %% wrong: overlaps of pairs => values pairs-summed  from: each kernel that communicates by itself
# ~ sum(busy(compute, s, e) for s, e in cut) ==> sum(max(0.0, min(e, d) - max(s, c)) for s, e in cut for c, d in compute)
# ~ sum(e - s for s, e in cut) ==> two

# %% wrong: streams added up => values -  from: three unions
#       one, two, both = (busy(spans, begin, end) for spans in (compute, talk, compute + talk))
# +     streams = [[one for one in kernels if one[1] == stream] for stream in {one[1] for one in kernels}]
# +     kinds = ("compute", "communication")
# +     one, two = (sum(busy(spans_of(stream, kind), begin, end) for stream in streams) for kind in kinds)

# %% wrong: ends of the step ignored => values not-cut  from: three unions
# ~ (spans, begin, end) for ==> (spans, -1e9, 1e9) for

# %% wrong: only kernels that lie inside whole => values left-out  from: three unions
#   def step_times(kernels, begin, end):
# +     kernels = [one for one in kernels if begin <= one[2] and one[3] <= end]

# %% wrong: copies count as communication => values other-form unless copies=talk  from: three unions
# ~ (kernels, "communication") ==> (kernels, "communication", "copy")

# %% wrong: the last end instead of the latest => values end-forgotten  from: three unions
# -         if e > s:
# -             total, reach = total + e - s, e
# +         total, reach = total + max(e - s, 0.0), max(e, begin)

# %% wrong: nothing to cover => generality raised  from: three unions
#       compute, talk = spans_of(kernels, "compute"), spans_of(kernels, "communication")
# +     first = min(s for s, _ in compute)
# +     assert first is not None

# %% wrong: the dictionary lacks a part => values missing-part  from: three unions
# ~ both, "idle": end - begin - both ==> both

# %% wrong: the step ends with its last kernel => values to-the-last-kernel  from: three unions
#       one, two, both = (busy(spans, begin, end) for spans in (compute, talk, compute + talk))
# +     last = max((min(e, end) for *_, e in kernels), default=begin)
# ~ end - begin - both ==> max(last, begin) - begin - both

# %% wrong: kernels of a kind added up => values kernels-summed  from: three unions
# ~ total, reach = total + e - s, e ==> total += e - s
# ~ one + two - both ==> min(one, two)
