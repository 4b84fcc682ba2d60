from collections.abc import Mapping

from course_chapters.ch16.exercises.probes import speculated
from course_grader.exercises import Anything, Card, Number, Rows, Worth

DRAFTS: Mapping[str, str] = {
    "sampled": "`draft[i]` are the draft model's probabilities, from which `guesses[i]` was drawn.",
    "copied": "The drafted tokens are not drawn: they are copied from an earlier part of the text, so each has "
    "probability 1. `draft` is None.",
}

CARD = Card(
    title="Guess ahead, and keep the distribution",
    text="""A draft model proposes some tokens, and the target model checks them all in one step. Write `verify`, which
accepts or rejects them so that the output has **exactly** the target's distribution, and `tokens_per_step`, which
predicts the gain.

- `verify(target, draft, guesses, rng)` returns a list of one or more tokens. `guesses` are the drafted
  tokens in order; there may be none. `target[i]` is the list of the target's probabilities for the position of drafted
  token i, given those before it. `target` has one list more, for the position after all drafted tokens.
- {{means}}
- Go through `guesses` in order. Accept a token with probability min(1, p/q), where p is its probability in the target
  and q its probability in the draft. If it is rejected, draw a replacement so that the target's distribution results,
  and **stop**. If all are accepted, draw one more token.
- `rng` is a `random.Random`, and all random numbers come from it. Probabilities may be 0; those of a list sum to 1 up
  to rounding.
- `tokens_per_step(rate, guesses)` returns the mean number of tokens of a step, if each drafted token is accepted with
  probability `rate`, whatever happened before. `rate` is 0 to 1.""",
    **Worth(points=10, minutes=20, difficulty=3, importance=4),
    kind="more",
    hints=(
        "A token x appears either because it was drafted and accepted, or as a replacement. How often does the first "
        "happen, and how much is missing from p(x)?",
        "Token x is drafted and accepted with probability min(p(x), q(x)). The missing part is max(0, p(x) − q(x)); "
        "draw from that, divided by its sum.",
        "`rng.random() * q < p` accepts; `rng.choices(range(len(p)), [max(0, a - b) for a, b in zip(p, q)])[0]` "
        "draws the replacement. The mean is 1 + rate + rate² + … + rate^guesses.",
    ),
    answers=("verify", "tokens_per_step"),
    allowed="plain Python, torch; the library's verification is switched off.",
    hides=("course_lib.operate.serving.speculative:verify", "course_lib.operate.serving.speculative:expected_tokens"),
    params={"drafts": "sampled", "means": DRAFTS["sampled"]},
    vary=lambda draw: {"drafts": "copied", "means": DRAFTS["copied"]},
    structural="drafts",
    probe=speculated,
    returns=Rows(Anything("a list of tokens"), Number("tokens")),
)
