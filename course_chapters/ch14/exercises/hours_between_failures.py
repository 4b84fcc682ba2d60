from course_grader.exercises import Card, Number, Rows, Worth, pick

CARD = Card(
    title="From a log to your own cluster",
    text="""Write two functions that scale the failures of one job, counted in a published log, to a job of another
size:

- `hours_between(failures, days, gpus, size)`: a job on `gpus` GPUs failed `failures` times in `days` days. Return the
  mean hours between failures of a job on `size` GPUs, if every GPU fails at the same rate.
- `chance(hours, between)`: failures strike at random, on average every `between` hours. Return the probability that a
  run of `hours` hours sees at least one.

For example, the Llama 3 report counts {{failures}} unexpected interruptions in {{days}} days on {{gpus:int}} GPUs.""",
    **Worth(points=4, minutes=5, difficulty=1, importance=5),
    hints=(
        "How many GPU-hours does the log hold for each failure? How many does your job use in an hour?",
        "Twice the GPUs fail twice as often. For the second function, first find the probability that nothing fails.",
        "`days * 24 * gpus / failures / size`; `1 - math.exp(-hours / between)`.",
    ),
    answers=("hours_between", "chance"),
    allowed="`math` and plain Python.",
    params={"failures": 419, "days": 54, "gpus": 16384, "size": 1024, "hours": 40.0},
    vary=pick(size=(512, 768, 2048, 3072, 4096, 8192), hours=(20.0, 30.0, 50.0, 60.0, 80.0, 100.0)),
    returns=Rows(Number("hours"), Number("a probability")),
)
