# %% right: every number tried
def stage_peaks(job, schedule, micro_batches):
    stages, peaks = len(job["state"]), []
    for s in range(stages):
        held = micro_batches if schedule == "gpipe" else min(stages - s, micro_batches)
        out = job["boundary"][s] if s < stages - 1 else 0
        peaks.append(job["state"][s] + held * (job["kept"][s] + out) + out + job["work"][s])
    return peaks


def most_micro_batches(job, schedule, memory):
    stages = len(job["state"])
    if schedule == "1f1b" and max(stage_peaks(job, schedule, stages)) <= memory:
        return None
    return max((count for count in range(1, 100) if max(stage_peaks(job, schedule, count)) <= memory), default=0)


# %% right: one expression, and solved for the number
def stage_peaks(job, schedule, micro_batches):
    out = [*job["boundary"], 0]
    flying = [micro_batches if schedule == "gpipe" else min(micro_batches, left) for left in range(len(out), 0, -1)]
    rows = zip(job["state"], job["kept"], job["work"], out, flying)
    return [state + work + (n + 1) * cross + n * kept for state, kept, work, cross, n in rows]


def most_micro_batches(job, schedule, memory):
    out = [*job["boundary"], 0]
    stages, limit = len(out), None
    for s, cross in enumerate(out):
        room = (memory - job["state"][s] - job["work"][s] - cross) // (job["kept"][s] + cross)
        if schedule == "1f1b" and room >= stages - s:
            continue
        limit = max(0, int(room)) if limit is None else min(limit, max(0, int(room)))
    return limit


# %% wrong: GPipe twice => values gpipe-for-both  from: every number tried
# ~ micro_batches if schedule == "gpipe" else min(stages - s, micro_batches) ==> micro_batches

# %% wrong: 1F1B twice => values 1f1b-for-both  from: every number tried
# ~ micro_batches if schedule == "gpipe" else min ==> min

# %% wrong: more than there are => values not-capped  from: the peaks only
# ~ min(stages - s, micro_batches) ==> stages - s
# ~ raise NotImplementedError ==> return None

# %% wrong: all stages hold as many => values stages-alike  from: every number tried
# ~ stages - s, ==> stages,

# %% wrong: the last stage holds the most => values turned-round  from: every number tried
# ~ stages - s ==> s + 1

# %% wrong: one fewer => values one-less  from: the peaks only
# ~ if schedule == "gpipe" else min(stages - s, micro_batches) ==> - 1 if schedule == "gpipe" else min(stages - s, micro_batches) - 1
# ~ raise NotImplementedError ==> return 0

# %% wrong: outputs do not stay => values outputs-forgotten  from: every number tried
# ~ (job["kept"][s] + out) ==> job["kept"][s]

# %% wrong: no gradient comes back => values gradient-forgotten  from: every number tried
# ~ out + job ==> job

# %% wrong: nothing crosses => values boundary-forgotten  from: every number tried
# ~ job["boundary"][s] if s < stages - 1 else 0 ==> 0

# %% wrong: no work => values work-forgotten  from: every number tried
# ~ out + job["work"][s] ==> out

# %% wrong: work of each that waits => values work-each  from: every number tried
# ~ out) + out + job["work"][s] ==> out + job["work"][s]) + out

# %% wrong: what came in => values inputs-for-outputs  from: every number tried
# ~ ["boundary"][s] if s < stages - 1 else 0 ==> ["boundary"][s - 1] if s else 0

# %% wrong: the sum over stages => values wrong-shape  from: the peaks only
# ~ return peaks ==> return sum(peaks)
# ~ raise NotImplementedError ==> return 1

# %% wrong: 1F1B has a limit, too => values none-is-right  from: every number tried
# ~ return None ==> stages = 0
# ~ range(1, 100) ==> range(1, 1001)

# %% wrong: exactly full is too full => values one-less  from: every number tried
# ~ <= memory: ==> < memory:
# ~ <= memory) ==> < memory)

# %% wrong: the first stage decides => generality first-stage-only  from: every number tried
# ~ max(stage_peaks(job, schedule, stages)) ==> stage_peaks(job, schedule, stages)[0]
# ~ max(stage_peaks(job, schedule, count)) ==> stage_peaks(job, schedule, count)[0]


# %% half: the peaks only => 2.7  from: every number tried
def most_micro_batches(job, schedule, memory):
    raise NotImplementedError


# %% wrong: at most thirty-two => generality ~  from: every number tried
# ~ range(1, 100) ==> range(1, 33)
