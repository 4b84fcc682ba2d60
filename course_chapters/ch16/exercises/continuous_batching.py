from course_chapters.ch16.exercises.probes import planned
from course_grader.exercises import Anything, Card, ListOf, Worth

PROMPTS = {
    "chunked": "A prompt may be split: a request computes its missing tokens, or as many as the budget still allows.",
    "whole": "A prompt is never split: a waiting request starts only if the rest of the budget allows **all** of its "
    "tokens. (A running request then misses exactly one token.)",
}

CARD = Card(
    title="Plan the next iteration",
    text="""Requests join and leave a running batch at every iteration. Write
`plan(running, waiting, budget, free, size)`, which decides what the next iteration computes.

- A request is `(id, tokens, cached)`. It has `tokens` tokens so far, of prompt and reply, and `cached` of them have
  keys and values in pages of `size` tokens. At least one token is not cached. A waiting request has none cached.
- Both lists are in the order of arrival. One iteration computes at most `budget` tokens, and `free` pages are free.
- Return `(run, preempted)`: a dictionary from id to the number of tokens to compute, and the list of the ids that lose
  their pages, in the order in which they lose them.

1. Running requests come first, in order, while budget is left. {{means}} A request that gets no tokens keeps its pages
   and is not in `run`.
2. A request needs enough pages for its cached tokens and those it computes now. While too few pages are free for a
   running request, preempt the **last** running request that is not preempted yet. Its pages are free at once. If that
   is the request itself, no further running request is planned.
3. If no request was preempted, waiting requests start in order while budget and pages suffice. Stop at the first one
   that cannot start: **no request overtakes another**.""",
    **Worth(points=10, minutes=25, difficulty=4, importance=5),
    hints=(
        "How many pages does a request hold, and how many will it hold after this iteration?",
        "`-(-tokens // size)` pages hold `tokens` tokens. Loop over a list of the running requests, and pop the "
        "preempted ones from its end.",
        "While `need > free`: `victim = left.pop()`, `free += pages(victim.cached)`; stop if the victim is the "
        "request itself. Then subtract the need and go on.",
    ),
    answers=("plan",),
    allowed="plain Python.",
    params={"prompts": "chunked", "means": PROMPTS["chunked"]},
    vary=lambda draw: {"prompts": "whole", "means": PROMPTS["whole"]},
    structural="prompts",
    probe=planned,
    returns=ListOf(Anything("(run, preempted)"), what="plan"),
)
