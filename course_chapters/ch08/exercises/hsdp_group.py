from course_grader.exercises import Card, Worth, rows
from course_grader.exercises.snippets import memory_of
from course_lib.estimate import facts
from course_lib.estimate.units import BILLION, GB, US

H100 = facts.device("H100 SXM")
TWICE = "gathered **twice**, for the forward and again for the backward pass"
ONCE = "gathered **once** and kept from the forward to the backward pass"
PER_NODE = 8

CARD = Card(
    title="How large a group?",
    text="""Choose how many ranks should share one model. HSDP shards a model over groups of G ranks, with a copy of the
model in each of N / G groups.

- **Inside** a group, weights are {{words}}, and gradients are reduced. **Across** groups, each rank then all-reduces
  its part of the gradients with the ranks that hold the same part. All collectives are rings in 16 bits.
- State is 16 bytes per parameter, all of it sharded over the group.
- `hsdp(params, ranks, group)` returns `(held, inside, across)`: bytes of state on a rank, bytes it sends inside in a
  step, and across.
- `smallest_group(params, ranks, memory)` returns the smallest group, a divisor of `ranks`, whose state fits; `None` if
  all ranks are too few.
- `best_group(params, ranks, memory, per_node, fast, slow, latency)` returns the group that fits with the least **time
  on the links**; of equal ones the smallest, `None` if none fits. Consider groups that divide a node (a server) or
  fill whole nodes. The times inside and across add up.
- A ring whose ranks are all in one node sends at `fast` bytes/s. Any other ring leaves each node over the adapters of
  its m ranks there, at `min(fast, m * slow)`. Inside, those are `per_node` consecutive ranks. Across, the ranks of a
  ring are G apart.
- Each step of a ring takes `latency` seconds more: G − 1 steps for a gather or a reduce-scatter, 2 (N / G − 1) for the
  all-reduce.

Shown: {{params:count}} parameters on {{ranks:int}} GPUs of {{memory:gb}}, {{per_node}} to a node, {{fast:gbps}} inside,
{{slow:gbps}} for each adapter, {{latency:us}} a step. G = {{per_node}}, one server, has been published for this. Does
it fit?""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    kind="more",
    hints=(
        "If the group doubles, what happens to the bytes inside, and to the bytes across?",
        "Per rank, an all-gather or reduce-scatter among G ranks sends (G − 1)/G of the weights. An all-reduce among "
        "M = N / G ranks sends twice (M − 1)/M of a part, and a part is one G-th of the gradients.",
        "`inside = (gathers + 1) * (G - 1) / G * 2 * params`; `across = 2 * (M - 1) / M * 2 * params / G`; try the "
        "divisors of `ranks` for which `16 * params / G <= memory`.",
    ),
    answers=("hsdp", "smallest_group", "best_group"),
    hides=(
        "course_lib.parallel.sharding:hybrid_bytes, step_bytes, group_of, knee",
        "course_lib.estimate.memory:zero_bytes",
        "course_lib.cluster.collectives:ring_rate",
    ),
    params={
        "params": 405 * BILLION,
        "ranks": 24_576,
        "memory": memory_of("H100 SXM"),
        "per_node": PER_NODE,
        "fast": float(H100.link_one_way),
        "slow": float(H100.network_one_way),
        "latency": 10 * US,
        "kept": False,
        "gathers": 2,
        "words": TWICE,
    },
    vary=lambda draw: {
        **{"kept": True, "gathers": 1, "words": ONCE},
        "params": draw.choice((70, 180, 405)) * BILLION,
        "ranks": draw.choice((3072, 4096, 6144)),
        "slow": draw.choice((25, 50)) * GB,
    },
    structural="kept",
    needs=("06",),
    probe=rows,
)
