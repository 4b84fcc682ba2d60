from collections.abc import Mapping

from course_chapters.ch20.exercises.probes import rows_or_error
from course_grader.exercises import Card, Worth
from course_grader.exercises.result_schema import Anything, Rows

ORDERS: Mapping[str, str] = {
    "largest": "from the largest to the smallest, equal ones in the order of the list",
    "listed": "in the order of the list, as they arrive",
}

CARD = Card(
    title="Shards for hosts of unequal bandwidth",
    text="""Each host caches some shards before training, and each shard goes to one host. Assign them so that the last
host is done early. Write two functions. `sizes` lists the shards' GB, `rates` each host's bandwidth from the store in
GB/s.

- `assign(sizes, rates)`: the number of the host of each shard, a list in the order of `sizes`. Go through the shards
  {{means}}. Each goes to the host that would then have read all of its shards first, this one included; of hosts that
  would be done at the same moment, to the first.
- `shortest_step(sizes, rates, steps)`: the epoch takes `steps` steps, and the hosts read the next epoch's shards,
  assigned in the same way, meanwhile. Return the seconds that a step must take at least so that no host is late.
- A rate that is not positive is a `ValueError` that contains the host's number.

Without shards, a step needs 0 s. The first case has {{hosts}} hosts.""",
    **Worth(points=6, minutes=12, difficulty=2, importance=4),
    kind="more",
    hints=(
        "A host with twice the bandwidth should get about twice the bytes. When is a host done?",
        "`(load[host] + size) / rates[host]` is when it would be done with this shard.",
        "`sorted(range(len(sizes)), key=lambda at: -sizes[at])` keeps the order of equal sizes. The step needs the "
        "largest of the hosts' seconds, divided by `steps`.",
    ),
    answers=("assign", "shortest_step"),
    params={"order": "largest", "means": ORDERS["largest"], "hosts": 3},
    vary=lambda draw: {"order": "listed", "means": ORDERS["listed"], "hosts": draw.choice((2, 4, 5))},
    structural="order",
    probe=rows_or_error,
    returns=Rows(Anything("a list of hosts"), Anything("seconds")),
)
