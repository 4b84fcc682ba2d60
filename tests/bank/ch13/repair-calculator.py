# %% right: repaired
def estimate(model, job, tp, pp, dp, zero):
    layers, params = model["layers"] / pp, model["parameters"] / pp
    tokens = job["length"] * job["micro"]
    weights = 2 * params / tp
    if zero == 3:
        weights /= dp
    gradients = 2 * params / tp / (dp if zero >= 2 else 1)
    optimizer = job["state"] * params / tp / (dp if zero >= 1 else 1)
    scores = 5 * model["heads"] * job["length"] / model["hidden"]
    factor = {"none": 34 + scores, "selective": 34, "full": 2}[job["recompute"]]
    activations = layers * tokens * model["hidden"] * factor / tp
    keys = model["hidden"] // model["heads"] * model["kv_heads"]
    cache = 2 * layers * tokens * keys * 2 / tp
    return {
        "weights": weights,
        "gradients": gradients,
        "optimizer": optimizer,
        "activations": activations,
        "cache": cache,
    }


# %% right: from the parameters of one GPU
def estimate(model, job, tp, pp, dp, zero):
    own = model["parameters"] / (tp * pp)
    width, seq = model["hidden"], job["length"]
    block = seq * job["micro"] * model["layers"] / (tp * pp)
    bytes_of = {"full": 2 * width, "selective": 34 * width, "none": 34 * width + 5 * model["heads"] * seq}
    shared = [dp if zero >= stage else 1 for stage in (3, 2, 1)]
    parts = [2 * own / shared[0], 2 * own / shared[1], job["state"] * own / shared[2]]
    parts += [block * bytes_of[job["recompute"]], 4 * block * width * model["kv_heads"] / model["heads"]]
    return dict(zip(("weights", "gradients", "optimizer", "activations", "cache"), parts))


# %% wrong: as it was => values states-defect
def estimate(model, job, tp, pp, dp, zero):
    layers, params = model["layers"] / pp, model["parameters"] / pp
    tokens = job["length"] * job["micro"]
    weights = 2 * params / tp
    if zero == 3:
        weights /= tp * dp
    gradients = 2 * params / (dp if zero >= 2 else 1)
    optimizer = job["state"] * params / (dp if zero >= 1 else 1)
    scores = 5 * model["heads"] * job["length"] / model["hidden"]
    factor = {"none": 34 + scores, "selective": 34, "full": 34}[job["recompute"]]
    activations = layers * tokens * model["hidden"] * factor
    cache = 2 * layers * tokens * model["hidden"] * 2 / tp
    return {
        "weights": weights,
        "gradients": gradients,
        "optimizer": optimizer,
        "activations": activations,
        "cache": cache,
    }


# %% wrong: the weights' defect is left => values weights-defect  from: repaired
# ~ weights /= dp ==> weights /= tp * dp

# %% wrong: the optimizer's defect is left => values states-defect  from: repaired
# ~ tp / (dp if zero >= 1 else 1) ==> (dp if zero >= 1 else 1)

# %% wrong: the gradients' defect is left => values states-defect  from: repaired
# ~ gradients = 2 * params / tp / (dp if zero >= 2 else 1) ==> gradients = 2 * params / (dp if zero >= 2 else 1)

# %% wrong: the activations' defect is left => values activations-defect  from: repaired
# ~ factor / tp ==> factor

# %% wrong: the recomputation's defect is left => values recompute-defect  from: repaired
# ~ : 2 ==> : 34

# %% wrong: the cache's defect is left => values cache-defect  from: repaired
# ~ ["hidden"] // model["heads"] * model["kv_heads"] ==> ["hidden"]

# %% wrong: the stages of ZeRO are off by one => values -  from: repaired
# ~ (dp if zero >= 2 else 1) ==> (dp if zero >= 1 else 1)

# %% wrong: the cache is kept whole => values -  from: repaired
# ~ 2 / tp ==> 2

# %% half: the activations' two defects are left => 5.0  from: repaired
# -     factor = {"none": 34 + scores, "selective": 34, "full": 2}[job["recompute"]]
# -     activations = layers * tokens * model["hidden"] * factor / tp
# +     factor = {"none": 34 + scores, "selective": 34, "full": 34}[job["recompute"]]
# +     activations = layers * tokens * model["hidden"] * factor

# %% wrong: four stages at most => generality ~  from: repaired
# ~ model["layers"] / pp ==> model["layers"] / min(pp, 4)
