from course_grader.exercises import Card, ListOf, Maybe, Number, PerRank, Worth, pick

CARD = Card(
    title="Which replica has another gradient?",
    text="""Find the rank that computed a wrong bit. After the all-reduce, all replicas should hold the same gradient,
so they compare short digests of it: whole gradients would take as long as a second all-reduce.

`odd_replicas(comm, gradient)` returns the same on every rank. Two replicas are equal if all their **bits** are: 0.0 and
−0.0 differ, and so do two numbers that have changed places.

- None if all replicas are equal, as on a single rank.
- If **more than half** of the replicas are equal, the sorted list of the ranks that differ from these.
- Otherwise there is no majority, and every rank is suspect: the list of all ranks. With two replicas, only this or
  None is possible.

`gradient` is a tensor of any shape and dtype, the same on all ranks; leave it as it is. Each rank may send at most
{{budget}} bytes for each other rank, however large the gradient is. Send them in any order.""",
    **Worth(points=8, minutes=15, difficulty=2, importance=4),
    kind="more",
    hints=(
        "Which function of a gradient changes if any single bit does, and has only a few bytes?",
        "Take a hash of the bytes. Give every rank all digests, and let each rank count on its own.",
        "`hashlib.sha256(gradient.reshape(-1).view(torch.uint8).numpy().tobytes()).digest()[:8]`; `comm.all_gather`; "
        "`Counter(digests).most_common(1)`.",
    ),
    answers=("odd_replicas",),
    allowed="every operation of `comm`; the standard library, torch and numpy. The library's checksum and vote are "
    "switched off.",
    hides=("course_lib.operate.faults.corruption:checksum, vote",),
    params={"ranks": 3, "budget": 64},
    vary=pick(ranks=(4, 5), budget=(32, 48)),
    returns=PerRank(Maybe(ListOf(Number("a rank", whole=True)))),
)
