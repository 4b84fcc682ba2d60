from collections import Counter
from statistics import median


# %% right: in the order of the table
def what_happened(notes, exits):
    def odd(values):
        usual = Counter(values).most_common(1)[0][0]
        return next((rank for rank, value in enumerate(values) if value != usual), None)

    notes = sorted(notes, key=lambda note: note["rank"])
    if (rank := odd([note["torch"] for note in notes])) is not None:
        return "version", rank, 0
    first = min(seen for seen, _, _ in exits)
    for seen, pid, code in exits:
        if code == -9 and seen == first:
            return next(("killed", note["rank"], note["step"]) for note in notes if note["pid"] == pid)
    if any(code for _, _, code in exits):
        rank = odd([note["doing"] for note in notes])
        kind = "hung" if notes[rank]["doing"] in ("data", "compute", "checkpoint") else "mismatched"
        return kind, rank, notes[rank]["step"]
    for step, sums in enumerate(zip(*(note["checksums"] for note in notes))):
        if (rank := odd(sums)) is not None:
            return "flipped", rank, step
    for note in notes:
        others = [other["work"] for other in notes if other is not note]
        slow = [mine >= 3 * median(work[step] for work in others) for step, mine in enumerate(note["work"])]
        if all(slow[-3:]):
            return "slow", note["rank"], next(step for step in range(len(slow)) if all(slow[step:]))
    return "none", None, None


# %% right: silence first, by dictionaries
def what_happened(notes, exits):
    by = {note["rank"]: note for note in notes}

    def rarest(values):
        return min(values, key=lambda rank: list(values.values()).count(values[rank]))

    versions = {rank: note["torch"] for rank, note in by.items()}
    if len(set(versions.values())) > 1:
        return ["version", rarest(versions), 0]
    ends = {pid: (seen, code) for seen, pid, code in exits}
    for rank, note in by.items():
        if not note["error"] and note["doing"] != "done":
            killed = ends[note["pid"]] == (min(ends.values())[0], -9)
            return ["killed" if killed else "hung", rank, note["step"]]
    if any(note["error"] for note in notes):
        rank = rarest({rank: note["doing"] for rank, note in by.items()})
        return ["mismatched", rank, by[rank]["step"]]
    steps = len(notes[0]["checksums"])
    for step in range(steps):
        sums = {rank: note["checksums"][step] for rank, note in by.items()}
        if len(set(sums.values())) > 1:
            return ["flipped", rarest(sums), step]
    for rank, note in by.items():
        others, since = [other["work"] for other in notes if other is not note], steps
        while since and note["work"][since - 1] >= 3 * median(work[since - 1] for work in others):
            since -= 1
        if steps - since >= 3:
            return ["slow", rank, since]
    return ["none", None, None]


# %% wrong: every signal 9 is a kill => generality broom  from: in the order of the table
# ~ if code == -9 and seen == first: ==> if code == -9:

# %% wrong: the very first entry of the exits => values not-killed  from: every signal 9 is a kill
# ~ for seen, pid, code in exits: ==> for seen, pid, code in exits[:1]:

# %% wrong: notes are taken to stand by rank => values wrong-rank  from: in the order of the table
# -     notes = sorted(notes, key=lambda note: note["rank"])

# %% wrong: checksums are not compared => values unnoticed  from: in the order of the table
# ~ if (rank := odd(sums)) is not None: ==> if False:

# %% wrong: only the last checksums => values wrong-step  from: in the order of the table
# ~ rank, step ==> rank, len(notes[0]["checksums"]) - 1

# %% wrong: rank 0 is the one that is right => generality wrong-rank  from: in the order of the table
# ~ Counter(values).most_common(1)[0] ==> values

# %% wrong: times are not looked at => generality unnoticed  from: in the order of the table
# ~ if all(slow[-3:]): ==> if False:

# %% wrong: one slow step is enough => values false-alarm  from: in the order of the table
# ~ all(slow[-3:]) ==> any(slow)
# ~ next(step for step in range(len(slow)) if all(slow[step:])) ==> slow.index(True)

# %% wrong: who is slow is asked before who failed => generality not-flipped  from: times are not looked at
#           return "version", rank, 0
# +     for note in notes:
# +         others = [other["work"] for other in notes if other is not note]
# +         slow = [
# +             mine >= 3 * median((work[step:] or [1.0])[0] for work in others) for step, mine in enumerate(note["work"])
# +         ]
# +         if len(slow) > 3 and all(slow[-3:]):
# +             return "slow", note["rank"], next(step for step in range(len(slow)) if all(slow[step:]))

# %% wrong: everybody in a collective is a hang => generality not-mismatched  from: in the order of the table
# ~ "hung" if notes[rank]["doing"] in ("data", "compute", "checkpoint") else "mismatched" ==> "hung"

# %% wrong: hangs only in computing => generality not-hung  from: in the order of the table
# ~ in ("data", "compute", "checkpoint") ==> == "compute"

# %% wrong: weights before who failed => generality -  from: in the order of the table
#           return "version", rank, 0
# +     for step, sums in enumerate(zip(*(note["checksums"] for note in notes))):
# +         if (rank := odd(sums)) is not None:
# +             return "flipped", rank, step

# %% wrong: versions after what ended the run => generality not-version  from: in the order of the table
# ~ [note["torch"] for note in notes] ==> [0 if any(code for *_, code in exits) else note["torch"] for note in notes]

# %% wrong: twice the others is slow => generality false-alarm  from: in the order of the table
# ~ mine >= 3 ==> mine >= 2

# %% wrong: more than three times => generality unnoticed  from: in the order of the table
# ~ mine >= 3 ==> mine > 3

# %% wrong: two steps are enough => generality false-alarm  from: in the order of the table
# ~ slow[-3:] ==> slow[-2:]

# %% wrong: the median of all => generality unnoticed  from: in the order of the table
# ~ [other["work"] for other in notes if other is not note] ==> [other["work"] for other in notes]

# %% wrong: the step in which the others wait => generality wrong-step  from: in the order of the table
# ~ notes[rank]["step"] ==> max(note["step"] for note in notes) if kind == "hung" else notes[rank]["step"]

# %% half: right of all that is shown => 2.45  from: every signal 9 is a kill

# %% wrong: ranks in the order of their text => generality ~  from: in the order of the table
# ~ key=lambda note: note["rank"]) ==> key=lambda note: str(note["rank"]))
