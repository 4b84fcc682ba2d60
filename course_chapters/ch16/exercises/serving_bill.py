from course_grader.exercises import Card, Number, Rows, Worth, pick

CARD = Card(
    title="The bill of a model",
    text="""A model costs the rent of the GPUs that serve it, and its own training. Write two functions:

- `usd_per_million(usd, gpus, prompt, answer, prefill_speed, decode_speed, busy)`: the dollars for a million tokens of
  **replies**. A replica has `gpus` GPUs at `usd` dollars per hour each. Every request has `prompt` tokens, which the
  replica computes at `prefill_speed` tokens per second, and then a reply of `answer` tokens at `decode_speed`
  tokens per second. The replica works only for the fraction `busy` of the time.
- `cheapest(models, served)`: `models` is a list of (parameters, training tokens) of models with the same loss. Return
  the index of the one with the fewest FLOPs in its life, which serves `served` tokens: 6 for each parameter and
  training token, 2 for each parameter and served token. Among equals, return the smallest index.

For example, {{gpus}} GPUs at {{usd}} dollars an hour work {{busy}} % of the time.""",
    **Worth(points=4, minutes=10, difficulty=2, importance=3),
    kind="more",
    needs=("04",),
    hints=(
        "How many seconds does the replica work for one request? For how many seconds is it paid?",
        "Rent is paid for 1 / `busy` of the seconds that it works. In the second function, a larger model costs more "
        "for each training token and for each served one.",
        "`usd * gpus / 3600 * (prompt / prefill_speed + answer / decode_speed) / busy / answer * 1e6`; "
        "`min(range(len(models)), key=…)` with `params * (6 * tokens + 2 * served)` returns the first of equals.",
    ),
    answers=("usd_per_million", "cheapest"),
    allowed="plain Python; the library's costs are switched off.",
    hides=("course_lib.operate.serving.cost:usd_per_million, lifetime_flops, cheapest_model",),
    params={"gpus": 2, "usd": 2.5, "busy": 40},
    vary=pick(gpus=(1, 4, 8), usd=(2.0, 3.0, 4.0), busy=(20, 30, 60)),
    returns=Rows(Number("dollars"), Number("an index", whole=True)),
)
