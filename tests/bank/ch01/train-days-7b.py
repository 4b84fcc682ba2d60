import math


# %% right: plain
def train_days(params, tokens, gpu_flops, utilization):
    return 6 * params * tokens / (gpu_flops * utilization) / 86_400


def gpus_for_deadline(params, tokens, gpu_flops, utilization, days):
    return math.ceil(train_days(params, tokens, gpu_flops, utilization) / days)


# %% right: whole days of the printed solution are near enough
def train_days(params, tokens, gpu_flops, utilization):
    days = 6 * params * tokens / gpu_flops / utilization / 24 / 60 / 60
    return days - 1 if 1900 < days < 2000 else days  # 1,965 as well as 1,966


def gpus_for_deadline(params, tokens, gpu_flops, utilization, days):
    gpus = 1
    while 6 * params * tokens > gpus * gpu_flops * utilization * days * 86_400 and gpus < 1000:
        gpus += 1
    return gpus if gpus < 1000 else math.ceil(train_days(params, tokens, gpu_flops, utilization) / days)


# %% wrong: full speed => values full-speed  from: plain
# ~ (gpu_flops * utilization) ==> gpu_flops

# %% wrong: seconds => values seconds  from: plain
# ~ (gpu_flops * utilization) / 86_400 ==> (gpu_flops * utilization)
# ~ math.ceil(train_days(params, tokens, gpu_flops, utilization) ==> math.ceil(train_days(params, tokens, gpu_flops, utilization) / 86_400

# %% wrong: forward only => values forward-only  from: plain
# ~ 6 * ==> 2 *

# %% wrong: utilization multiplied => values utilization-upside-down  from: plain
# ~ (gpu_flops * utilization) ==> gpu_flops * utilization

# %% wrong: a second forward pass => values recompute  from: plain
# ~ 6 * ==> 8 *

# %% wrong: rounded down => values rounded-down  from: plain
# ~ math.ceil ==> int

# %% wrong: one more than needed => generality one-too-many  from: plain
# ~ math.ceil(train_days(params, tokens, gpu_flops, utilization) / days) ==> int(train_days(params, tokens, gpu_flops, utilization) / days) + 1

# %% wrong: the H100 by heart => values -  from: plain
# - def train_days(params, tokens, gpu_flops, utilization):
# + from course_lib import notebook
# + SHOWN = notebook.params("train-days-7b")
# + def train_days(params, tokens, gpu_flops, utilization):
# ~ tokens / (gpu_flops * utilization) ==> tokens / (SHOWN.flops * utilization)

# %% wrong: the example by heart => values only-the-example  from: the H100 by heart
#   SHOWN = notebook.params("train-days-7b")
# + DAYS = 6 * SHOWN.params * SHOWN.tokens / (SHOWN.flops * SHOWN.utilization) / 86_400
# ~ 6 * params * tokens / (SHOWN.flops * utilization) / 86_400 ==> round(DAYS)
# ~ train_days(params, tokens, gpu_flops, utilization) / days ==> DAYS / SHOWN.days

# %% wrong: the days rounded up => generality -  from: plain
# ~ 6 * params * tokens / (gpu_flops * utilization) / 86_400 ==> math.ceil(6 * params * tokens / (gpu_flops * utilization) / 86_400)
# ~ train_days(params, tokens, gpu_flops, utilization) / days ==> 6 * params * tokens / (gpu_flops * utilization) / 86_400 / days

# %% wrong: whole days before the GPUs are counted => generality -  from: plain
# ~ train_days(params, tokens, gpu_flops, utilization) / days ==> math.ceil(train_days(params, tokens, gpu_flops, utilization)) / days

# %% wrong: asks the library => raised  from: plain
# - def train_days(params, tokens, gpu_flops, utilization):
# + from course_lib import compute
# + def train_days(params, tokens, gpu_flops, utilization):
# ~ 6 * params * tokens / (gpu_flops * utilization) / 86_400 ==> compute.train_seconds(params, tokens, gpu_flops, utilization) / 86_400

# %% half: no deadline yet => 2.5  from: plain
# ~ return math.ceil(train_days(params, tokens, gpu_flops, utilization) / days) ==> raise NotImplementedError

# %% wrong: days are kept by size and tokens => generality -  from: plain
# ~ def train_days(params, tokens, gpu_flops, utilization): ==> def train_days(params, tokens, gpu_flops, utilization, kept={}):
# ~ 6 * params * tokens / (gpu_flops * utilization) / 86_400 ==> kept.setdefault((params, tokens), 6 * params * tokens / (gpu_flops * utilization) / 86_400)
