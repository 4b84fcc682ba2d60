import math


# %% right: tries the fixes in order and counts up
def loads(job):
    state = 16 * job["params"] / (job["gpus"] if job["sharded"] else 1)
    speed = job["gpus"] * job["dense_flops"] * job["mfu"]
    return {
        "memory": state / (job["gpu_memory"] * (1 - job["reserve"])),
        "compute": 6 * job["params"] * job["step_tokens"] / speed / job["step_s"],
        "deadline": 6 * job["params"] * job["tokens"] / speed / job["deadline_s"],
    }


def first_wall(job):
    now = loads(job)
    heaviest = max(now, key=now.get)
    wall = heaviest if now[heaviest] > 1 else "none"
    options = [("nothing", job), ("shard state", {**job, "sharded": True})]
    if job["latest_s"] is not None:
        options.append(("longer deadline", {**job, "deadline_s": job["latest_s"]}))
    for fix, changed in options:
        if max(loads(changed).values()) <= 1:
            return wall, fix, job["gpus"]
    gpus = job["gpus"]
    while max(loads({**job, "sharded": True, "gpus": gpus}).values()) > 1:
        gpus += 1
    return wall, "more GPUs", gpus


# %% right: any variant
from course_lib import params

PER_PARAM = params("first-wall").bytes_per_param


def first_wall(job):
    n, p = job["gpus"], job["params"]
    rate = 6 * p / (job["dense_flops"] * job["mfu"])
    one = {
        "memory": PER_PARAM * p / (job["gpu_memory"] * (1 - job["reserve"])),
        "compute": rate * job["step_tokens"] / job["step_s"],
        "deadline": rate * job["tokens"] / job["deadline_s"],
    }
    now = {name: load / n for name, load in one.items()}
    kept = now if job["sharded"] else {**now, "memory": one["memory"]}
    wall = max(kept, key=kept.get) if max(kept.values()) > 1 else "none"
    later = job["deadline_s"] / job["latest_s"] if job["latest_s"] else 1
    if max(kept.values()) <= 1:
        return wall, "nothing", n
    if max(now.values()) <= 1:
        return wall, "shard state", n
    if max({**kept, "deadline": kept["deadline"] * later}.values()) <= 1:
        return wall, "longer deadline", n
    return wall, "more GPUs", math.ceil(max(one.values()))


# %% right: closed form, a list, the wall that is not there as None
def first_wall(job):
    usable = job["gpu_memory"] - job["reserve"] * job["gpu_memory"]
    n = job["gpus"]
    one_step = 6 * job["params"] * job["step_tokens"] / job["dense_flops"] / job["mfu"]
    one_run = one_step / job["step_tokens"] * job["tokens"]
    memory = job["params"] * 16 / usable
    compute, deadline = one_step / job["step_s"], one_run / job["deadline_s"]
    mine = memory / n if job["sharded"] else memory
    ranked = sorted([(mine, "memory"), (compute / n, "compute"), (deadline / n, "deadline")])
    wall = ranked[-1][1] if ranked[-1][0] > 1 else None
    time_fits = compute / n <= 1 and deadline / n <= 1
    if wall is None:
        return [None, "nothing", n]
    if time_fits and memory / n <= 1:
        return [wall, "shard state", n]
    later = job["latest_s"]
    if later and mine <= 1 and compute / n <= 1 and one_run / later / n <= 1:
        return [wall, "longer deadline", n]
    return [wall, "more GPUs", math.ceil(max(memory, compute, deadline))]


# %% wrong: sparse peak => values sparse-peak  from: tries the fixes in order and counts up
# ~ dense_flops ==> sparse_flops

# %% wrong: forgets the reserve for activations => generality no-reserve  from: tries the fixes in order and counts up
# ~ (job["gpu_memory"] * (1 - job["reserve"])) ==> job["gpu_memory"]

# %% wrong: memory of all GPUs although each holds a copy => values always-sharded  from: tries the fixes in order and counts up
# ~ (job["gpus"] if job["sharded"] else 1) ==> job["gpus"]

# %% wrong: a fix for the first wall only => values only-the-first-wall  from: tries the fixes in order and counts up
# ~ if max(loads(changed).values()) <= 1: ==> if loads(changed)[heaviest] <= 1:
# -     while max(loads({**job, "sharded": True, "gpus": gpus}).values()) > 1:
# +     while loads({**job, "sharded": True, "gpus": gpus})[heaviest] > 1:

# %% wrong: GPUs added, not GPUs in use => values gpus-added  from: tries the fixes in order and counts up
# ~ return wall, "more GPUs", gpus ==> return wall, "more GPUs", gpus - job["gpus"]

# %% wrong: an exact fit does not fit => generality -  from: tries the fixes in order and counts up
# ~ now[heaviest] > 1 ==> now[heaviest] >= 1
# ~ values()) <= 1 ==> values()) < 1
# ~ values()) > 1 ==> values()) >= 1

# %% wrong: memory is always the first wall => values one-answer-for-all  from: tries the fixes in order and counts up
# ~ now = loads(job) ==> return "memory", "more GPUs", 2 * job["gpus"] // job["gpus"] * 8

# %% wrong: words of its own => values no-such-word  from: tries the fixes in order and counts up
# ~ now = loads(job) ==> return "memory", "buy more", 8

# %% wrong: not a triple => values wrong-shape  from: tries the fixes in order and counts up
# ~ now = loads(job) ==> return "memory"

# %% half: the wall but never the fix => 4  from: tries the fixes in order and counts up
# ~ if max(loads(changed).values()) <= 1: ==> if True:

# %% wrong: always one GPU more than the whole part => generality one-too-many  from: tries the fixes in order and counts up
# ~ values()) > 1 ==> values()) >= 1

# %% wrong: a step that is exactly in time is late => generality -  from: tries the fixes in order and counts up
# ~ if max(loads(changed).values()) <= 1: ==> if max(loads(changed).values()) <= 1 and loads(changed)["compute"] < 1:
