from course_grader.exercises import Anything, Card, ListOf, Rows, TupleOf, Word, Worth, pick

RESPONSES = {
    "memory": "shard the state",
    "deadline": "split the data",
    "latency": "split each replica",
    "traffic": "replicate the server",
}
STAY = "stay on one GPU"


CARD = Card(
    title="Do you need this at all?",
    **Worth(points=10, minutes=10, difficulty=2, importance=5),
    kind="more",
    answers=("triage",),
    text=f"""Write `triage(job)`, which says whether a project needs more than one GPU. Distributing a model costs time
and money, and not every project has to pay. `job` is a dictionary:

| key | is |
|---|---|
| `params` | parameters of the model |
| `tokens`, `deadline_s` | training tokens and seconds allowed; `tokens` is 0 if nothing is trained |
| `gpu_memory`, `gpu_flops`, `gpu_bandwidth` | bytes, dense FLOP/s and bytes/s of one GPU |
| `mfu` | fraction of the peak that training reaches |
| `qps`, `replica_qps` | requests a second that arrive (0 if nothing is served), and that one replica can answer |
| `user_tokens_s` | tokens a second that one user must see |

Check four conditions for **one GPU**, in this order; an exact fit is no wall:

| wall | is hit if | first response |
|---|---|---|
| `"memory"` | it trains, and 16 bytes per parameter exceed the memory | `"{RESPONSES["memory"]}"` |
| `"deadline"` | it trains, and 6 FLOP per parameter and token take longer than allowed | `"{RESPONSES["deadline"]}"` |
| `"latency"` | it serves, and 2 bytes per parameter do not fit, or take too long to read | `"{RESPONSES["latency"]}"` |
| `"traffic"` | it serves, and one replica cannot answer all requests | `"{RESPONSES["traffic"]}"` |

All divisors are positive. Return `(response, walls)`: the list of **all** walls that are hit, in this order, and the
response to the first of them; `("{STAY}", [])` if there is none. You see six projects on {{{{device}}}}; grading adds
unseen ones.""",
    hints=(
        "What would a project that neither trains nor serves much gain from a second GPU?",
        "There are four independent yes-or-no conditions; collect the names in order and look up the first one's "
        "response. Only a job with tokens can hit the first two, only one with requests the last two.",
        '`walls = [name for name, hit in (("memory", trains and 16 * p > memory), …) if hit]`; '
        '`return (RESPONSES[walls[0]] if walls else "stay on one GPU", walls)`.',
    ),
    allowed="the standard library and numpy.",
    hides=(
        "course_chapters.ch01.walls:triage",
        "course_lib.estimate.compute:train_seconds",
        "course_lib.estimate.memory:state_bytes",
    ),
    params={"device": "H100 SXM", "mfu": 0.4, "params": 1e9},
    vary=pick(device=("H100 SXM", "A100 SXM 80GB"), mfu=(0.35, 0.4, 0.45), params=(0.6e9, 0.8e9, 1.1e9)),
    returns=Rows(TupleOf({"response": Anything("a response"), "walls": ListOf(Word(tuple(RESPONSES)), what="wall")})),
)
