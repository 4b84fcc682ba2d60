from course_grader.exercises import Card, ListOf, Maybe, Number, Rows, Worth, pick

CARD = Card(
    title="How many replicas?",
    text="""Size a fleet from memory and Little's law, and use the law to find impossible rows in a benchmark report.
Write three functions:

- `concurrency(memory, weights, kv, tokens, page)`: how many sequences of `tokens` tokens fit into `memory` bytes beside
  `weights` bytes, at `kv` bytes per token. The cache consists of whole pages of `page` tokens, and sequences share no
  pages. Return 0 if there is no room.
- `replicas(rate, ttft, itl, answer, concurrency, load)`: the fewest replicas for `rate` requests per second. A request
  stays for `ttft` seconds until its first token and `itl` seconds for each of the other `answer` - 1 tokens of the
  reply. A replica holds `concurrency` requests, and on average at most the fraction `load` of these places may be in
  use. Return None if `concurrency` is 0.
- `inconsistent(report, slack)`: the indices of the impossible rows of `report` in ascending order. `report` is a list
  of (requests per second, mean seconds in the system, mean number of requests in the system). By Little's law the third
  is the product of the others; a row is impossible if the third differs from the product by **more than** the fraction
  `slack` of the product.

A first fleet serves {{rate}} requests per second with replies of {{answer}} tokens.""",
    **Worth(points=6, minutes=15, difficulty=2, importance=4),
    kind="more",
    hints=(
        "How many pages does a sequence need, and how many are there? Which of the two divisions rounds up?",
        "Little's law: requests in the system = requests per second · seconds in the system.",
        "`max(0, int((memory - weights) // (kv * page))) // ceil(tokens / page)`; `ceil(rate * (ttft + (answer - 1) * "
        "itl) / (load * concurrency))`; `abs(held - rate * seconds) > slack * rate * seconds`.",
    ),
    answers=("concurrency", "replicas", "inconsistent"),
    allowed="`math` and plain Python; the library's queues are switched off.",
    params={"rate": 40, "answer": 257},
    vary=pick(rate=(25, 30, 50, 60), answer=(129, 385, 513)),
    returns=Rows(
        Number("sequences", whole=True), Maybe(Number("replicas", whole=True)), ListOf(Number("rows", whole=True))
    ),
)
