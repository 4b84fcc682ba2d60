from course_grader.exercises import Card, Number, Rows, Worth, pick

CARD = Card(
    title="How many spare nodes?",
    text="""Find out how many spare nodes a job needs. It uses `servers` nodes at once. Each node, spare or not,
breaks on average after `mtbf` hours of operation, and its repair takes `repair` hours on average. At any moment it is
therefore under repair with probability repair / (mtbf + repair), whatever the others do.

Write `spares(servers, mtbf, repair, chance)`: the smallest number of spare nodes for which the job has to wait with a
probability of at most `chance`. It waits if fewer than `servers` of all nodes work.

- Spares break as well, so one more spare is also one more node that may be under repair.
- Compute the exact probability, not an approximation. `repair` may be 0, and `chance` may be 1.
- Up to 2,500 nodes; 50 calls may take 2 seconds.""",
    **Worth(points=6, minutes=10, difficulty=2, importance=3),
    kind="more",
    hints=(
        "With s spares, the job waits when more than s nodes are under repair. Out of how many?",
        "The number of nodes under repair is binomial with servers + s trials. Raise s until the tail is small enough.",
        "P(k) = comb(n, k) · q^k · (1 − q)^(n − k), summed for k = 0 … s, is the probability that the job runs; "
        "`math.lgamma` helps with large n.",
    ),
    answers=("spares",),
    allowed="`math` and plain Python; the library's count of spares is switched off.",
    hides=("course_lib.operate.faults.spares:waiting_fraction", "course_lib.operate.faults.spares:spares_needed"),
    params={"servers": 128, "mtbf": 2000.0, "repair": 24.0, "chance": 0.01},
    vary=pick(
        servers=(64, 96, 160, 200), mtbf=(1500.0, 2500.0, 3000.0), repair=(12.0, 36.0, 48.0), chance=(0.02, 0.005)
    ),
    returns=Rows(Number("nodes", whole=True)),
)
