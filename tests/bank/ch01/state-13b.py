import math

GB = 1e9


# %% right: plain
def training_state(params):
    return params * (2 + 2 + 4 + 8)


def fewest_gpus(nbytes, gpu_memory):
    return max(1, math.ceil(nbytes / gpu_memory))


def headroom(nbytes, gpu_memory, gpus):
    return gpu_memory - nbytes / gpus


# %% right: floor division turned round, six digits  from: plain
# ~ params * (2 + 2 + 4 + 8) ==> float(f"{params * 16:.6g}")
# ~ max(1, math.ceil(nbytes / gpu_memory)) ==> int(max(-(-nbytes // gpu_memory), 1))
# ~ gpu_memory - nbytes / gpus ==> (gpu_memory / GB - nbytes / GB / gpus) * GB

# %% right: any variant  from: plain
# - def training_state(params):
# + from course_lib import memory, params
# + PER_PARAM = sum(memory.CONVENTIONS[params("state-13b").convention].buckets.values())
# + def training_state(params):
# ~ (2 + 2 + 4 + 8) ==> PER_PARAM
# ~ gpu_memory - nbytes ==> (gpu_memory * gpus - nbytes)

# %% wrong: no master copy => values missing-master  from: plain
# ~ (2 + 2 + 4 + 8) ==> 12

# %% wrong: weights only => values weights-only  from: plain
# ~ (2 + 2 + 4 + 8) ==> 2

# %% wrong: gigabytes => values gigabytes  from: plain
# ~ (2 + 2 + 4 + 8) ==> 16 / 1e9
# ~ gpu_memory - nbytes / gpus ==> (gpu_memory - nbytes / gpus) / 1e9

# %% wrong: rounded down => values rounded-down  from: plain
# ~ (2 + 2 + 4 + 8) ==> 16
# ~ max(1, math.ceil(nbytes / gpu_memory)) ==> int(nbytes // gpu_memory)

# %% wrong: not whole => values not-whole  from: rounded down
# ~ int(nbytes // gpu_memory) ==> nbytes / gpu_memory

# %% wrong: room of all GPUs together => values all-gpus-together  from: plain
# ~ (2 + 2 + 4 + 8) ==> 16
# ~ - nbytes / gpus ==> * gpus - nbytes

# %% wrong: the example by heart => values only-the-example  from: plain
# ~ params * (2 + 2 + 4 + 8) ==> 208e9
# ~ max(1, math.ceil(nbytes / gpu_memory)) ==> 3
# ~ gpu_memory - nbytes / gpus ==> {3: 10.6667e9, 4: 28e9, 8: 54e9}.get(gpus, 54e9)

# %% wrong: always one more => generality one-too-many  from: rounded down
# ~ (nbytes // gpu_memory) ==> (nbytes // gpu_memory) + 1  # one too many where it fits exactly

# %% wrong: rounded to the nearest => values rounded-down  from: rounded down
# ~ int(nbytes // gpu_memory) ==> max(1, round(nbytes / gpu_memory))

# %% wrong: never negative => generality cut-at-zero  from: room of all GPUs together
# ~ gpu_memory * gpus - nbytes ==> max(0, gpu_memory - nbytes / gpus)

# %% wrong: fractions come back => raised  from: plain
# ~ params * (2 + 2 + 4 + 8) ==> __import__("fractions").Fraction(params) * 16

# %% half: only the state => 1  from: plain
# ~ (2 + 2 + 4 + 8) ==> 16
# ~ return max(1, math.ceil(nbytes / gpu_memory)) ==> raise NotImplementedError
# ~ return gpu_memory - nbytes / gpus ==> raise NotImplementedError

# %% half: no room left => 1.5  from: plain
# ~ params * (2 + 2 + 4 + 8) ==> 16 * params
# ~ gpu_memory - nbytes / gpus ==> None

# %% wrong: a GB of 2³⁰ bytes => values gib-for-gb  from: plain
# -     return params * (2 + 2 + 4 + 8)
# +     return params * (2 + 2 + 4 + 8) / 2**30 * GB
