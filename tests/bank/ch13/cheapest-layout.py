import itertools
import math


# %% right: nested loops
def cheapest(cluster, model, steps, limit, evaluate):
    best, least = None, math.inf
    per = cluster["per_server"]
    for gpus in range(per, cluster["gpus"] + 1, per):
        for tp in range(1, per + 1):
            if per % tp or model["heads"] % tp:
                continue
            for pp in range(1, model["layers"] + 1):
                if model["layers"] % pp or gpus % (tp * pp):
                    continue
                dp = gpus // (tp * pp)
                for micro in range(1, model["sequences"] + 1):
                    if model["sequences"] % (dp * micro):
                        continue
                    seconds, held = evaluate(gpus, tp, pp, micro)
                    run = steps * seconds
                    cost = gpus * run
                    if held <= cluster["memory"] and run <= limit and cost < least:
                        best, least = {"gpus": gpus, "tp": tp, "pp": pp, "micro": micro}, cost
    return best


# %% right: any variant  from: nested loops
# - def cheapest(cluster, model, steps, limit, evaluate):
# + from course_lib import params
# + GOAL = params("cheapest-layout").goal
# + def cheapest(cluster, model, steps, limit, evaluate):
#                       cost = gpus * run
# +                     if GOAL == "quickest":
# +                         run, cost = cost, run

# %% wrong: the quickest => values other-goal  from: nested loops
# ~ gpus * run ==> run

# %% wrong: the fewest GPUs => values -  from: nested loops
# ~ gpus * run ==> gpus

# %% wrong: all GPUs => values -  from: nested loops
# ~ range(per, cluster["gpus"] + 1, per) ==> [cluster["gpus"]]

# %% wrong: powers of two => values -  from: nested loops
# ~ (tp * pp): ==> (tp * pp) or any(n & (n - 1) for n in (pp, tp, gpus)):

# %% wrong: memory is forgotten => values does-not-fit  from: nested loops
# ~ held <= cluster["memory"] and run ==> run

# %% wrong: the limit is forgotten => values over-the-limit  from: nested loops
# ~ run <= limit and cost ==> cost

# %% wrong: memory must not be full => generality limits-excluded  from: nested loops
# ~ held <= ==> held <

# %% wrong: the limit must not be reached => generality limits-excluded  from: nested loops
# ~ run <= ==> run <

# %% wrong: no pipelines => values -  from: nested loops
# ~ range(1, model["layers"] + 1) ==> (1,)

# %% wrong: invalid layouts are asked about => raised  from: nested loops
# -                     if model["sequences"] % (dp * micro):
# -                         continue
# +                     pass

# %% wrong: an error where nothing is allowed => generality raised  from: nested loops
# ~ return best ==> return {**best}

# %% wrong: never tries all sequences as one micro-batch => generality -  from: nested loops
# ~ range(1, model["sequences"] + 1) ==> range(1, model["sequences"])

# %% wrong: eight GPUs a server at most => generality ~  from: any variant
# ~ range(1, per + 1) ==> range(1, min(per, 8) + 1)

# %% wrong: 48 GPUs at most => generality ~  from: any variant
# ~ cluster["gpus"] + 1 ==> min(cluster["gpus"], 48) + 1
