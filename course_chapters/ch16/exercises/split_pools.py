from collections.abc import Mapping

from course_grader.exercises import Card, Number, Rows, Worth

SENDS: Mapping[str, str] = {
    "overlaps": "A cache is sent while the next prompt is computed, so the longer of the two sets the pace.",
    "waits": "The GPU computes no prompt while it sends a cache, so the times of the two add up.",
}

CARD = Card(
    title="GPUs for prefill, GPUs for decode",
    text="""Prefill and decode run on different GPUs, and each prompt's KV cache is sent from one pool to the other.
Write two functions:

- `requests_per_second(prefill, decode, prompt, answer, kv, prefill_speed, decode_speed, link)`: what `prefill` and
  `decode` GPUs can serve. Every request has `prompt` tokens, computed at `prefill_speed` tokens per second and GPU, and
  a reply of `answer` tokens, at `decode_speed` tokens per second and GPU. A prefill GPU sends `kv` bytes for each
  prompt token at `link` bytes per second.
- `best_split(gpus, prompt, answer, kv, prefill_speed, decode_speed, link)`: the number of prefill GPUs, out of `gpus`
  in all, that serves the most requests per second. Each pool has at least one GPU. Among equals, take the smallest
  number. `gpus` is at least 2.

{{means}}""",
    **Worth(points=6, minutes=10, difficulty=2, importance=3),
    kind="more",
    hints=(
        "How many seconds is a prefill GPU busy with one request, and how many a decode GPU?",
        "The slower pool sets the pace of both.",
        "`min(prefill / busy, decode * decode_speed / answer)`, where busy is the `max` or the sum of `prompt / "
        "prefill_speed` and `prompt * kv / link`; then `max(range(1, gpus), key=…)`, which returns the "
        "first of equals.",
    ),
    answers=("requests_per_second", "best_split"),
    allowed="plain Python; the library's pools are switched off.",
    hides=("course_lib.operate.serving.layouts:pool_sizes",),
    params={"sends": "overlaps", "means": SENDS["overlaps"]},
    vary=lambda draw: {"sends": "waits", "means": SENDS["waits"]},
    structural="sends",
    returns=Rows(Number("requests per second"), Number("GPUs", whole=True)),
)
