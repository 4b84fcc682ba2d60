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
        "deadline": 6 * job["params"] * job["tokens"] / (job["gpu_flops"] * job["mfu"]) > job["deadline_s"],
        "latency": serves
        and max(weights / job["gpu_memory"], weights / job["gpu_bandwidth"] * job["user_tokens_s"]) > 1,
        "traffic": job["qps"] > job["replica_qps"],
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


# %% wrong: always stay => values one-answer-for-all  from: four questions
# ~ walls = [name for name, hit in questions.items() if hit] ==> walls = []

# %% wrong: only the first wall => values only-the-first  from: four questions
# ~ if hit] ==> if hit][:1]

# %% wrong: state of a model that is only served => values not-memory  from: four questions
# ~ trains and 16 ==> 16

# %% wrong: at full speed => generality missed-deadline  from: four questions
# ~ (job["gpu_flops"] * job["mfu"]) > ==> job["gpu_flops"] >

# %% wrong: reading the weights is forgotten => generality -  from: four questions
# ~ max(weights / job["gpu_memory"], weights / job["gpu_bandwidth"] * job["user_tokens_s"]) ==> weights / job["gpu_memory"]

# %% wrong: a deadline that is just kept is missed => generality -  from: four questions
# ~ * job["mfu"]) > ==> * job["mfu"]) >=

# %% wrong: a reader who is just served waits => generality -  from: four questions
# ~ job["user_tokens_s"]) > 1 ==> job["user_tokens_s"]) >= 1

# %% wrong: every wall twice => values named-twice  from: four questions
# ~ "stay on one GPU"), walls ==> "stay on one GPU"), walls * 2

# %% wrong: all requests share the bandwidth => generality not-latency  from: four questions
# ~ job["user_tokens_s"] ==> job["user_tokens_s"] * job["qps"]

# %% wrong: the response to the last wall => values wrong-response  from: four questions
# ~ walls[0] ==> walls[-1]

# %% wrong: one word => values wrong-shape  from: four questions
# ~ "stay on one GPU"), walls ==> "stay on one GPU")

# %% half: serving is not answered => 3.5  from: four questions
# ~ job["qps"] > 0 ==> False
# ~ job["qps"] > job["replica_qps"] ==> False
