from course_grader.exercises import Anything, Card, Worth, call, watched

CARD = Card(
    title="Merge attention over parts of the keys",
    text="""Write `merge_parts(parts)`, which combines attention over several sets of keys into attention over all of
them. It is the step that lets a rank process one block of keys and values at a time.

- `parts` is a list of at least one pair `(output, log_sum)` in fp32. `output`, in shape (heads, tokens, width), is
  attention over this part's keys alone, and `log_sum`, in shape (heads, tokens), is the log of its sum of exponentials.
  Return such a pair for all keys.
- Log-sums may be as large as ±10,000.
- A log-sum of −∞ means that this query saw none of the part's keys. Its output may hold anything there, NaN too, and
  does not count.
- A query that saw no key in any part has the output 0 and the log-sum −∞.
- Leave the given tensors as they are.""",
    **Worth(points=6, minutes=10, difficulty=2, importance=5),
    hints=(
        "A part's output is a weighted mean. What was it divided by, and what should it be divided by?",
        "The total log-sum is the logsumexp of the log-sums. A part's weight is exp(its log-sum − the total). Handle "
        "rows with −∞ apart.",
        "`total = torch.logsumexp(torch.stack(log_sums), 0)`; `w = (log_sum - total).exp()`; where `log_sum` is −∞, "
        "set the weight and the output to 0.",
    ),
    answers=("merge_parts",),
    allowed="torch; the library's merge is switched off.",
    hides=(
        "course_lib.parallel.context.log_sum_exp_merge:merge, attend",
        "course_lib.parallel.four_axes:merge, attend",
    ),
    params={"heads": 2, "width": 4},
    vary=lambda draw: {"heads": draw.choice((3, 4, 5)), "width": draw.choice((2, 3, 6))},
    needs=("05",),
    probe=watched(call),
    returns=Anything("(output, log_sum)"),
)
