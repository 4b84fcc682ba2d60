"""Cards of chapter 16 on seconds and GPUs: prefill and decode, chunks, pools, fleets and waits."""

from collections.abc import Mapping

from course_lib.exercises import Card, Worth
from course_lib.exercises.drilling import pick
from course_lib.exercises.probes import PREDICTION, rows
from course_lib.exercises.returns import Anything, ListOf, Maybe, Number, Rows, TupleOf

_GPUS = (
    {"flops": 312e12, "bandwidth": 2.0e12},
    {"flops": 362e12, "bandwidth": 0.86e12},
    {"flops": 989e12, "bandwidth": 4.8e12},
)

PREFILL_AND_DECODE = Card(
    id="prefill-and-decode",
    chapter="16",
    title="Seconds of a prefill and of a decode step",
    text="""Predict how long a GPU takes for a prompt and for the next token of a batch, from the two roofs of chapter 3. Write three functions. `params` is the number of
parameters, each of `number` bytes; `flops` and `bandwidth` are the GPU's FLOP/s and bytes per second. Whichever takes longer, computing or reading, sets the time.

- `prefill_seconds(params, layers, width, tokens, number, flops, bandwidth)`: one prompt of `tokens` tokens. Computing takes 2 FLOPs a parameter and token; in
  each layer every token also attends to **itself and all tokens before it**, at 4 · `width` FLOPs a pair. Reading takes the weights, once.
- `decode_seconds(params, number, kv, batch, context, flops, bandwidth)`: one more token for each of `batch` requests, which have `context` tokens each in the cache, of
  `kv` bytes a token. Computing takes 2 FLOPs a parameter and token, and reading the weights once and the whole cache.
- `ridge_batch(params, number, kv, context, flops, bandwidth)`: the smallest batch for which computing takes **at least as long** as reading in `decode_seconds`,
  or None if there is no such batch.

For example, {{params:count}} parameters of {{number}} bytes on a GPU with {{flops:tflops}} and {{bandwidth:gbps}}.""",
    **Worth(points=8, minutes=15, difficulty=2, importance=5),
    needs=("03",),
    hints=(
        "Which of the bytes are read once for all requests, and which once for each request?",
        "A prompt of n tokens has n · (n + 1) / 2 pairs. For the third function, how much longer does one more request make computing, and how much longer reading?",
        "Computing grows by `2 * params / flops` a request and reading by `kv * context / bandwidth`; with the difference d of the two, "
        "the batch is `ceil(params * number / bandwidth / d)`, and there is none if d is not positive.",
    ),
    answers=("prefill_seconds", "decode_seconds", "ridge_batch"),
    allowed="`math` and plain Python; the library's deployments are switched off.",
    hides=("serving.speed:prefill_seconds", "serving.speed:decode_seconds", "serving.speed:ridge_batch"),
    params={"params": 8e9, "number": 2, "flops": 989e12, "bandwidth": 3.35e12},
    vary=lambda draw: {"params": draw.choice((3e9, 13e9, 14e9, 32e9)), **draw.choice(_GPUS)},
    probe=rows,
    returns=Rows(Number("seconds"), Number("seconds"), Maybe(Number("requests", whole=True))),
)

TIMES: Mapping[str, str] = {
    "longer": "the longer of `read` and n · `each`, because reading the weights and computing overlap",
    "both": "`read` + n · `each`, because reading the weights and computing do not overlap",
}

LATENCY_BUDGET = Card(
    id="latency-budget",
    chapter="16",
    title="How long a chunk?",
    text="""A server computes prompts in chunks, so that a long prompt does not hold up the requests that are being answered. Write two functions: one predicts the latencies of a
chunk size, the other chooses the size. An iteration over n tokens takes {{means}}. Times are whole microseconds.

- `latencies(chunk, prompt, batch, read, each)` returns `(ttft, itl)` for a prompt of `prompt` tokens that is computed `chunk` tokens an iteration; the last chunk
  is what remains. Every iteration also has one token for each of `batch` other requests. `ttft` is the time of all iterations of the prompt, `itl` the longest of them.
- `best_chunk(prompt, batch, read, each, limit)` returns the chunk, from 1 to `prompt`, with the shortest `ttft` whose `itl` is at most `limit`. Among
  equals, take the smallest. Return None if no chunk meets the limit.

`batch` may be 0. Prompts have up to 8,192 tokens.""",
    **Worth(points=6, minutes=15, difficulty=2, importance=4),
    kind="more",
    hints=(
        "Which iterations are full, and how many tokens does the last one have?",
        "`divmod(prompt, chunk)` gives both. Is the largest chunk within the limit always the best one?",
        "Take `min` over the chunks within the limit with the key `(latencies(chunk, …)[0], chunk)`, and the default None.",
    ),
    answers=("latencies", "best_chunk"),
    allowed="plain Python.",
    params={"times": "longer", "means": TIMES["longer"]},
    vary=lambda draw: {"times": "both", "means": TIMES["both"]},
    structural="times",
    probe=rows,
    returns=Rows(
        TupleOf({"ttft": Number("microseconds"), "itl": Number("microseconds")}), Maybe(Number("tokens", whole=True))
    ),
)

SENDS: Mapping[str, str] = {
    "overlaps": "A cache is sent while the next prompt is computed, so the longer of the two sets the pace.",
    "waits": "The GPU computes no prompt while it sends a cache, so the times of the two add up.",
}

SPLIT_POOLS = Card(
    id="split-pools",
    chapter="16",
    title="GPUs for prefill, GPUs for decode",
    text="""Prefill and decode run on different GPUs, and each prompt's KV cache is sent from one pool to the other. Write two functions:

- `requests_per_second(prefill, decode, prompt, answer, kv, prefill_speed, decode_speed, link)`: what `prefill` and `decode` GPUs can serve. Every request has
  `prompt` tokens, computed at `prefill_speed` tokens per second and GPU, and `answer` tokens at `decode_speed` tokens per second and GPU. A prefill GPU sends `kv` bytes
  for each prompt token at `link` bytes per second.
- `best_split(gpus, prompt, answer, kv, prefill_speed, decode_speed, link)`: the number of prefill GPUs, out of `gpus` in all, that serves the most requests per second. Each
  pool has at least one GPU. Among equals, take the smallest number. `gpus` is at least 2.

{{means}}""",
    **Worth(points=6, minutes=10, difficulty=2, importance=3),
    kind="more",
    hints=(
        "How many seconds is a prefill GPU busy with one request, and how many a decode GPU?",
        "The slower pool sets the pace of both.",
        "`min(prefill / busy, decode * decode_speed / answer)`, where busy is the `max` or the sum of `prompt / prefill_speed` and `prompt * kv / link`; "
        "then `max(range(1, gpus), key=…)`, which returns the first of equals.",
    ),
    answers=("requests_per_second", "best_split"),
    allowed="plain Python; the library's pools are switched off.",
    hides=("serving.layouts:pool_sizes",),
    params={"sends": "overlaps", "means": SENDS["overlaps"]},
    vary=lambda draw: {"sends": "waits", "means": SENDS["waits"]},
    structural="sends",
    probe=rows,
    returns=Rows(Number("requests per second"), Number("GPUs", whole=True)),
)

SIZE_THE_FLEET = Card(
    id="size-the-fleet",
    chapter="16",
    title="How many replicas?",
    text="""Size a fleet from memory and Little's law, and use the law to find impossible rows in a benchmark report. Write three functions:

- `slots(memory, weights, kv, tokens, page)`: how many sequences of `tokens` tokens fit beside `weights` bytes into `memory` bytes, at `kv` bytes a token. The cache
  consists of whole pages of `page` tokens, and sequences share no pages. Return 0 if there is no room.
- `replicas(rate, ttft, itl, answer, slots, load)`: the fewest replicas for `rate` requests per second. A request stays for `ttft` seconds until its first token and `itl` seconds for
  each of the other `answer` - 1 tokens. A replica holds `slots` requests, and on average at most the fraction `load` of them may be in use. Return None if `slots` is 0.
- `inconsistent(report, slack)`: the indices of the impossible rows of `report` in ascending order. `report` is a list of (requests per second, mean seconds in the system, mean number of
  requests in the system). By Little's law the third is the product of the others; a row is impossible if it differs by **more than** the fraction `slack` of the product.

A first fleet serves {{rate}} requests per second with answers of {{answer}} tokens.""",
    **Worth(points=6, minutes=15, difficulty=2, importance=4),
    kind="more",
    hints=(
        "How many pages does a sequence need, and how many are there? Which of the two divisions rounds up?",
        "Little's law: requests in the system = requests per second · seconds in the system.",
        "`max(0, int((memory - weights) // (kv * page))) // ceil(tokens / page)`; `ceil(rate * (ttft + (answer - 1) * itl) / (load * slots))`; "
        "`abs(held - rate * seconds) > slack * rate * seconds`.",
    ),
    answers=("slots", "replicas", "inconsistent"),
    allowed="`math` and plain Python; the library's queues are switched off.",
    hides=("serving.queues:littles_law", "serving.kv_cache:sequences_that_fit"),
    params={"rate": 40, "answer": 257},
    vary=pick(rate=(25, 30, 50, 60), answer=(129, 385, 513)),
    probe=rows,
    returns=Rows(
        Number("sequences", whole=True), Maybe(Number("replicas", whole=True)), ListOf(Number("rows", whole=True))
    ),
)

SERVING_BILL = Card(
    id="serving-bill",
    chapter="16",
    title="The bill of a model",
    text="""A model costs the rent of the GPUs that answer, and its own training. Write two functions:

- `usd_per_million(usd, gpus, prompt, answer, prefill_speed, decode_speed, busy)`: the dollars for a million **answer** tokens. A replica has `gpus` GPUs at `usd` dollars per
  hour each. Every request has `prompt` tokens, which the replica computes at `prefill_speed` tokens per second, and then `answer` tokens at `decode_speed` tokens per second. The
  replica works only for the fraction `busy` of the time.
- `cheapest(models, served)`: `models` is a list of (parameters, training tokens) of models with the same loss. Return the index of the one with the fewest FLOPs in its life,
  which serves `served` tokens: 6 for each parameter and training token, 2 for each parameter and served token. Among equals, return the smallest index.

For example, {{gpus}} GPUs at {{usd}} dollars an hour work {{busy}} % of the time.""",
    **Worth(points=4, minutes=10, difficulty=2, importance=3),
    kind="more",
    needs=("04",),
    hints=(
        "How many seconds does the replica work for one request? For how many seconds is it paid?",
        "Rent is paid for 1 / `busy` of the seconds that it works. In the second function, a larger model costs more for each training token and for each served one.",
        "`usd * gpus / 3600 * (prompt / prefill_speed + answer / decode_speed) / busy / answer * 1e6`; `min(range(len(models)), key=…)` with "
        "`params * (6 * tokens + 2 * served)` returns the first of equals.",
    ),
    answers=("usd_per_million", "cheapest"),
    allowed="plain Python; the library's costs are switched off.",
    hides=("serving.cost:usd_per_million", "serving.cost:lifetime_flops", "serving.cost:cheapest_model"),
    params={"gpus": 2, "usd": 2.5, "busy": 40},
    vary=pick(gpus=(1, 4, 8), usd=(2.0, 3.0, 4.0), busy=(20, 30, 60)),
    probe=rows,
    returns=Rows(Number("dollars"), Number("an index", whole=True)),
)


PREDICT_WAIT = Card(
    id="predict-wait",
    chapter="16",
    title="Prediction: how fast do waits grow?",
    text="""Before you compute anything, commit to an interval for the factor by which the **mean wait** of a request grows when the server goes from {{low}} % busy to
{{high}} % busy. Write `growth()`: it returns `(low, high)`, with `high` at most four times `low`.

- Requests come at random times. The server answers one at a time, always in the same number of seconds.
- A wait is the time before the request's own service.

You earn the points for committing, not for being right.""",
    **Worth(points=2, minutes=5, difficulty=2, importance=4),
    **PREDICTION,
    kind="more",
    hints=(
        "What happens to the wait as the server comes close to being always busy?",
        "The mean wait is proportional to ρ / (1 − ρ), where ρ is the share of the time that the server is busy.",
        "Compute ρ / (1 − ρ) for both loads and divide.",
    ),
    answers=("growth",),
    params={"low": 50, "high": 90},
    vary=pick(low=(40, 60), high=(80, 85, 95)),
    returns=Anything("a pair of factors"),
)
