SIZE = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}
KEPT = {"sgd": 0, "momentum": 1, "lion": 1, "adamw": 2}


# %% right: a table of sizes
def state_buckets(params, plan):
    def of(key):
        return params * SIZE[plan[key]] if plan[key] else 0

    return {
        "weights": of("weights"),
        "grads": of("grads"),
        "main_grads": of("main_grads"),
        "master": of("master"),
        "moments": params * KEPT[plan["optimizer"]] * SIZE[plan["moments"]],
    }


def largest_model(memory, plan):
    return memory / sum(state_buckets(1, plan).values())


# %% right: the largest model by bisection  from: a table of sizes
def largest_model(memory, plan):
    low, high = 0.0, memory
    for _ in range(200):
        middle = (low + high) / 2
        if sum(state_buckets(middle, plan).values()) > memory:
            high = middle
        else:
            low = middle
    return low


# %% wrong: no master copy => values master-missing  from: a table of sizes
# ~ of("master") ==> 0

# %% wrong: gradients counted twice => values gradients-twice  from: a table of sizes
# ~ ("main_grads") ==> ("grads")

# %% wrong: one moment for Adam => values one-moment  from: a table of sizes
# ~ KEPT[plan["optimizer"]] * SIZE ==> SIZE

# %% wrong: the master copy inside the moments => values master-in-moments  from: a table of sizes
# ~ [plan["moments"]], ==> [plan["moments"]] + of("master"),

# %% wrong: bits => values bits  from: a table of sizes
# - def state_buckets(params, plan):
# + SIZE = {"fp32": 32, "bf16": 16, "fp16": 16, "fp8": 8, "int8": 8}
# + def state_buckets(params, plan):

# %% wrong: gigabytes => values gigabytes  from: a table of sizes
#   def state_buckets(params, plan):
# +     params = params / 1e9


# %% wrong: the total only => values one-number
def state_buckets(params, plan):
    return 16 * params


def largest_model(memory, plan):
    return memory / 16


# %% wrong: a bucket is left out => values missing-part  from: the total only
# ~ 16 * params ==> {"weights": 2 * params, "grads": 2 * params, "master": 4 * params, "moments": 8 * params}

# %% wrong: room for the weights alone => values weights-only  from: a table of sizes
# ~ sum(state_buckets(1, plan).values()) ==> SIZE[plan["weights"]]

# %% wrong: in billions => values billions  from: a table of sizes
# ~ (state_buckets(1, plan).values()) ==> (state_buckets(1, plan).values()) / 1e9

# %% wrong: always sixteen bytes => generality always-two-bytes  from: the total only
# -     return 16 * params
# +     return {"weights": 2 * params, "grads": 2 * params, "main_grads": 0, "master": 4 * params, "moments": 8 * params}

# %% wrong: gradients in the weights' type => generality weights-type  from: a table of sizes
# ~ ("grads") ==> ("weights")

# %% wrong: two moments whatever the optimizer => generality always-two-moments  from: a table of sizes
# ~ KEPT[plan["optimizer"]] ==> 2

# %% wrong: a main copy is forgotten => generality main-missing  from: a table of sizes
# ~ of("main_grads") ==> 0

# %% wrong: moments always in fp32 => generality -  from: a table of sizes
# ~ SIZE[plan["moments"]] ==> 4

# %% wrong: asks the library => raised  from: the total only
# - def state_buckets(params, plan):
# + from course_lib import memory as library
# + def state_buckets(params, plan):
# ~ 16 * params ==> {"main_grads": 0.0, **library.state_by_bucket(params, "B")}
# ~ memory / 16 ==> library.largest_model(memory, "B")

# %% half: the buckets alone => 1.5  from: a table of sizes
# ~ return memory / sum(state_buckets(1, plan).values()) ==> raise NotImplementedError

# %% half: both, for this plan only => 2.5  from: always sixteen bytes

# %% wrong: fp8 takes two bytes for lion => generality -  from: a table of sizes
# ~ SIZE[plan["moments"]], ==> max(SIZE[plan["moments"]], 2 * (plan["optimizer"] == "lion")),
