from course_grader.exercises import Card, Worth, pick, rows

CARD = Card(
    title="What the session really bought",
    text="""Compute what the dollars of a GPU session paid for, and when to stop it so that it stays within a budget. A
rented machine is billed from minute 0 until it is stopped, whatever its GPUs do: `gpus` of them at `price` dollars an
hour each, in increments of `increment` minutes, the last one in full. It ran a list of stages,
`{"name", "start", "end", "state"}`, in minutes, one after another with gaps between them. `"state"` is `"done"`, or the
problem: `"failed"` or `"timed out"`. The machine was stopped after `stop` minutes, perhaps in the middle of a stage.

- `ledger(stages, stop, gpus, price, increment)` returns a dictionary of dollars, exact or rounded to the cent.
  `"useful"`: minutes of stages that are done and ended by the stop. `"failed"`: minutes of all other stages, until
  their end or the stop. `"idle"`: minutes up to the stop in which no stage ran. `"rounding"`: what was billed beyond
  the stop. `"total"`: the bill, which is the sum of the other four.
- `stop_by(budget, gpus, price, increment, grace)`: the machine is gone `grace` minutes after you order its stop, and it
  is billed until then. Return the **last** minute at which you may order the stop so that the bill is at most `budget`
  dollars; `None` if even an order at minute 0 comes too late.

Shown: {{gpus}} GPUs at {{price:usd}} an hour each, billed by {{increment}} minutes, and a budget of {{budget:usd}} or
twice that.""",
    **Worth(points=5, minutes=10, difficulty=2, importance=4),
    kind="more",
    hints=(
        "A budget pays for 47 minutes, and minutes are billed by tens. When is the 47th minute paid for?",
        "One rate in dollars a minute for all GPUs. Idle is the rest up to `stop`, rounding the rest of the bill. To "
        "stop: how many whole increments does the budget pay for?",
        "`rate = gpus * price / 60`; `billed = math.ceil(stop / increment - 1e-9) * increment`; `minutes = max(0, "
        "min(end, stop) - start)`. `blocks = math.floor(budget / (rate * increment) + 1e-9)`; `last = blocks * "
        "increment - grace`, `None` below 0 or without a block.",
    ),
    answers=("ledger", "stop_by"),
    hides=("course_runs.budget:dollars", "course_runs.budget:budget", "course_lib.estimate.compute:cost_usd"),
    params={"gpus": 8, "price": 2.5, "increment": 15, "budget": 30},
    vary=pick(gpus=(2, 4, 16), price=(1.5, 2.25, 4.0), increment=(5, 10, 30), budget=(15, 40, 75)),
    needs=("01",),
    probe=rows,
)
