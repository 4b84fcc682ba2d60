from course_grader.exercises import Card, Worth, pick, rows

CARD = Card(
    title="Where a step goes",
    text="""Write three functions that say where the time of a step goes and what would make it shorter. `rows` are the
steps of a run as the course's tools record them: `{"step", "seconds", "parts"}`. `row["parts"]` has seconds by name,
such as `"data"`, `"forward"`, `"backward"`, `"communication"`, `"optimizer"`, `"checkpoint"`. Parts follow one another,
and a part that is missing took no time. The run writes a checkpoint in every `every`-th step, and `"seconds"` includes
it.

- `where_it_goes(rows, warm_up, every)` returns a dictionary with the seconds **per step** of every part in the timed
  rows, of `"checkpoint"`, and of `"other"`, the time that no part explains. The first `warm_up` rows are not timed.
  Parts are **means**: they must add up, and medians do not. For the checkpoint, take the mean time of one over the
  timed rows that have one, shared out over `every` steps; 0 if there are none.
- `closer_model(alone, measured)`: `alone` has the seconds of `"compute"`, of `"communication"` and perhaps of other
  parts, each timed by itself; `measured` is a real step. Two theories: everything adds up, or the step takes the longer
  of computing and communicating plus the other parts. Return `(name, hidden)`: `"sum"` or `"max"`, whichever is nearer
  in seconds (`"sum"` in a tie), and the share of the shorter of the two that was hidden, from 0 to 1 (0 if the shorter
  takes no time).
- `tokens_without(parts, tokens, name)` returns the tokens per second of a step of `tokens` tokens if part `name` took
  no time and all else stayed the same.

Shown: {{warm_up}} steps of warm-up, a checkpoint every {{every}} steps, {{tokens:int}} tokens.""",
    **Worth(points=7, minutes=15, difficulty=2, importance=5),
    kind="more",
    hints=(
        "One of ten steps writes a checkpoint of 5 s. What is the median of the ten checkpoint times, and what does a "
        "step cost on average? And if your log happens to hold two of them?",
        "Drop the first rows. Each part: the mean over the rows. Other: the mean of what remains of a row after its "
        "parts. The checkpoint by itself: the mean over the rows that wrote one, over `every`. For the two theories, "
        "compute both sums and compare distances; the excess of the sum over the measurement was hidden.",
        "`saved = [r['parts']['checkpoint'] for r in timed if r['parts'].get('checkpoint')]`; `fmean(saved) / every "
        "if saved else 0.0`. Hidden: `(both - measured) / min(compute, talk)`, clipped to 0 and 1. Without a part: "
        "`tokens / (sum(parts.values()) - parts.get(name, 0))`.",
    ),
    answers=("where_it_goes", "closer_model", "tokens_without"),
    params={"warm_up": 3, "every": 8, "tokens": 32_768},
    vary=pick(warm_up=(2, 4, 5), every=(4, 5, 10), tokens=(4096, 16_384, 65_536)),
    probe=rows,
)
