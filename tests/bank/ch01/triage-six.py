RESPONSES = {
    "memory": "shard the state",
    "deadline": "split the data",
    "latency": "split each replica",
    "traffic": "replicate the server",
}


# %% right: four questions
def triage(job):
    trains, serves, weights = job["tokens"] > 0, job["qps"] > 0, 2 * job["params"]
    questions = {
        "memory": trains and 16 * job["params"] > job["gpu_memory"],
        "deadline": trains and 6 * job["params"] * job["tokens"] / (job["gpu_flops"] * job["mfu"]) > job["deadline_s"],
        "latency": serves
        and (weights > job["gpu_memory"] or weights / job["gpu_bandwidth"] * job["user_tokens_s"] > 1),
        "traffic": serves and job["qps"] > job["replica_qps"],
    }
    walls = [name for name, hit in questions.items() if hit]
    return (RESPONSES[walls[0]] if walls else "stay on one GPU"), walls


# %% right: if by if, tuples
def triage(job):
    walls = ()
    if job["tokens"]:
        if job["params"] * 16 > job["gpu_memory"]:
            walls += ("memory",)
        seconds = 6 * job["params"] * job["tokens"] / job["gpu_flops"] / job["mfu"]
        if seconds > job["deadline_s"]:
            walls += ("deadline",)
    if job["qps"]:
        tokens_s = job["gpu_bandwidth"] / (2 * job["params"])
        if job["params"] * 2 > job["gpu_memory"] or tokens_s < job["user_tokens_s"]:
            walls += ("latency",)
        if job["qps"] / job["replica_qps"] > 1:
            walls += ("traffic",)
    if not walls:
        return ["Stay on one GPU", walls]
    return [RESPONSES[walls[0]], walls]


# %% wrong: always stay => values one-answer-for-all
def triage(job):
    return "stay on one GPU", []


# %% wrong: only the first wall => values only-the-first
def triage(job):
    trains, serves, weights = job["tokens"] > 0, job["qps"] > 0, 2 * job["params"]
    if trains and 16 * job["params"] > job["gpu_memory"]:
        return "shard the state", ["memory"]
    if trains and 6 * job["params"] * job["tokens"] > job["gpu_flops"] * job["mfu"] * job["deadline_s"]:
        return "split the data", ["deadline"]
    if serves and (weights > job["gpu_memory"] or weights * job["user_tokens_s"] > job["gpu_bandwidth"]):
        return "split each replica", ["latency"]
    if serves and job["qps"] > job["replica_qps"]:
        return "replicate the server", ["traffic"]
    return "stay on one GPU", []


# %% wrong: state of a model that is only served => values not-memory  from: four questions
# -         "memory": trains and 16 * job["params"] > job["gpu_memory"],
# -         "deadline": trains and 6 * job["params"] * job["tokens"] / (job["gpu_flops"] * job["mfu"]) > job["deadline_s"],
# -         "latency": serves
# -         and (weights > job["gpu_memory"] or weights / job["gpu_bandwidth"] * job["user_tokens_s"] > 1),
# +         "memory": 16 * job["params"] > job["gpu_memory"],
# +         "deadline": trains and 6 * job["params"] * job["tokens"] > job["gpu_flops"] * job["mfu"] * job["deadline_s"],
# +         "latency": serves and (weights > job["gpu_memory"] or weights * job["user_tokens_s"] > job["gpu_bandwidth"]),

# %% wrong: at full speed => generality missed-deadline  from: four questions
# -         "deadline": trains and 6 * job["params"] * job["tokens"] / (job["gpu_flops"] * job["mfu"]) > job["deadline_s"],
# -         "latency": serves
# -         and (weights > job["gpu_memory"] or weights / job["gpu_bandwidth"] * job["user_tokens_s"] > 1),
# +         "deadline": trains and 6 * job["params"] * job["tokens"] > job["gpu_flops"] * job["deadline_s"],
# +         "latency": serves and (weights > job["gpu_memory"] or weights * job["user_tokens_s"] > job["gpu_bandwidth"]),

# %% wrong: reading the weights is forgotten => generality -  from: four questions
# -         "deadline": trains and 6 * job["params"] * job["tokens"] / (job["gpu_flops"] * job["mfu"]) > job["deadline_s"],
# -         "latency": serves
# -         and (weights > job["gpu_memory"] or weights / job["gpu_bandwidth"] * job["user_tokens_s"] > 1),
# +         "deadline": trains and 6 * job["params"] * job["tokens"] > job["gpu_flops"] * job["mfu"] * job["deadline_s"],
# +         "latency": serves and weights > job["gpu_memory"],

# %% wrong: a deadline that is just kept is missed => generality -  from: at full speed
# -         "deadline": trains and 6 * job["params"] * job["tokens"] > job["gpu_flops"] * job["deadline_s"],
# +         "deadline": trains and 6 * job["params"] * job["tokens"] >= job["gpu_flops"] * job["mfu"] * job["deadline_s"],

# %% wrong: a reader who is just served waits => generality -  from: reading the weights is forgotten
# -         "latency": serves and weights > job["gpu_memory"],
# +         "latency": serves and (weights > job["gpu_memory"] or weights * job["user_tokens_s"] >= job["gpu_bandwidth"]),

# %% wrong: every wall twice => values named-twice  from: four questions
# -         "deadline": trains and 6 * job["params"] * job["tokens"] / (job["gpu_flops"] * job["mfu"]) > job["deadline_s"],
# -         "latency": serves
# -         and (weights > job["gpu_memory"] or weights / job["gpu_bandwidth"] * job["user_tokens_s"] > 1),
# +         "deadline": trains and 6 * job["params"] * job["tokens"] > job["gpu_flops"] * job["mfu"] * job["deadline_s"],
# +         "latency": serves and (weights > job["gpu_memory"] or weights * job["user_tokens_s"] > job["gpu_bandwidth"]),
# -     return (RESPONSES[walls[0]] if walls else "stay on one GPU"), walls
# +     return (RESPONSES[walls[0]] if walls else "stay on one GPU"), walls * 2

# %% wrong: all requests share the bandwidth => generality not-latency  from: four questions
# -         "deadline": trains and 6 * job["params"] * job["tokens"] / (job["gpu_flops"] * job["mfu"]) > job["deadline_s"],
# +         "deadline": trains and 6 * job["params"] * job["tokens"] > job["gpu_flops"] * job["mfu"] * job["deadline_s"],
# -         and (weights > job["gpu_memory"] or weights / job["gpu_bandwidth"] * job["user_tokens_s"] > 1),
# +         and (weights > job["gpu_memory"] or weights * job["user_tokens_s"] * job["qps"] > job["gpu_bandwidth"]),

# %% wrong: the response to the last wall => values wrong-response  from: every wall twice
# -     return (RESPONSES[walls[0]] if walls else "stay on one GPU"), walls * 2
# +     return (RESPONSES[walls[-1]] if walls else "stay on one GPU"), walls


# %% wrong: one word => values wrong-shape
def triage(job):
    return "stay on one GPU" if job["params"] < 2e9 else "shard the state"


# %% half: serving is not answered => 3.5
def triage(job):
    walls = []
    if job["tokens"] and 16 * job["params"] > job["gpu_memory"]:
        walls.append("memory")
    if job["tokens"] and 6 * job["params"] * job["tokens"] / (job["gpu_flops"] * job["mfu"]) > job["deadline_s"]:
        walls.append("deadline")
    return (RESPONSES[walls[0]] if walls else "stay on one GPU"), walls
