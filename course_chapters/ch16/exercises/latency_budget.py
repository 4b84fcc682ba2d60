from course_grader.exercises import Card, Maybe, Number, Rows, TupleOf, Worth

TIMES = {
    "longer": "the longer of `read` and n · `each`, because reading the weights and computing overlap",
    "both": "`read` + n · `each`, because reading the weights and computing do not overlap",
}

CARD = Card(
    title="How large a chunk?",
    text="""A server computes prompts in chunks, so that a long prompt does not hold up the requests that are being
answered. Write two functions: one predicts the latencies of a chunk size, the other chooses the size. An iteration over
n tokens takes {{means}}. Times are whole microseconds.

- `latencies(chunk, prompt, batch, read, each)` returns `(ttft, itl)` for a prompt of `prompt` tokens that is computed
  `chunk` tokens an iteration; the last chunk is what remains. Every iteration also has one token for each of `batch`
  other requests. `ttft` is the time of all iterations of the prompt, `itl` the longest of them.
- `best_chunk(prompt, batch, read, each, limit)` returns the chunk, from 1 to `prompt`, with the shortest `ttft` whose
  `itl` is at most `limit`. Among equals, take the smallest. Return None if no chunk meets the limit.

For example, 1,000 tokens in chunks of 256 take four iterations, and the last chunk has 232 tokens. `batch` may be 0.
Prompts have up to 8,192 tokens.""",
    **Worth(points=6, minutes=15, difficulty=2, importance=4),
    kind="more",
    hints=(
        "Which iterations are full, and how many tokens does the last one have?",
        "`divmod(prompt, chunk)` gives both. Is the largest chunk within the limit always the best one?",
        "Take `min` over the chunks within the limit with the key `(latencies(chunk, …)[0], chunk)`, and the "
        "default None.",
    ),
    answers=("latencies", "best_chunk"),
    allowed="plain Python.",
    params={"times": "longer", "means": TIMES["longer"]},
    vary=lambda draw: {"times": "both", "means": TIMES["both"]},
    structural="times",
    returns=Rows(
        TupleOf({"ttft": Number("microseconds"), "itl": Number("microseconds")}), Maybe(Number("tokens", whole=True))
    ),
)
