from course_chapters.ch07.exercises.probes import hooked
from course_chapters.ch07.exercises.shared import READY, STEPS
from course_grader.exercises import Anything, Card, DictOf, PerRank, Worth

CARD = Card(
    title="Buckets, last layer first",
    text="""Write `bucket_gradients(comm, model, bucket_bytes)`: like `hook_gradients`, it registers hooks and returns
`finish`, but it sends gradients in **buckets**. One all-reduce per parameter pays a latency for every bias; a bucket
pays it once for many parameters.

- Take the trained parameters in the reverse order of `model.parameters()` and fill buckets one after another. Start a
  new bucket when the next parameter would not fit into `bucket_bytes` or has another dtype. A larger parameter is a
  bucket of its own.
- A bucket is one flat tensor and one asynchronous all-reduce, which starts in the backward pass as soon as the bucket's
  last gradient is complete.
- Gradients can complete in a different order on another rank. Buckets leave in **one order on all ranks**: each waits
  until the previous one has left.
- After `finish()`, every trained parameter's `.grad` is the mean over ranks, in its own shape and dtype. Several steps
  follow; no handle of an earlier one is kept. Every rank's loss uses all trained parameters. Frozen parameters keep
  None, and two layers can share a parameter.""",
    **Worth(points=12, minutes=25, difficulty=5, importance=4),
    kind="more",
    hints=(
        "What does a bucket have to know before it can leave? What does the *queue* have to know?",
        "Build the list of buckets once. Each hook removes its parameter from the bucket's missing ones; then a loop "
        "sends every complete bucket at the head of the queue. `finish` waits, copies back, and resets everything for "
        "the next step.",
        "`missing = [set(ids) …]`, `sent = 0`; in the hook: `while sent < len(buckets) and not missing[sent]:` pack "
        "`torch.cat([p.grad.reshape(-1) / comm.size …])`, start, `sent += 1`. In `finish`: wait, "
        "`p.grad.copy_(part.view_as(p))`.",
    ),
    answers=("bucket_gradients",),
    allowed="every operation of `comm`; torch.",
    hides=READY,
    params={"width": 12},
    vary=lambda draw: {"width": draw.randrange(9, 16)},
    needs=("06",),
    probe=hooked,
    returns=PerRank(DictOf({"gradients": STEPS, "returned": Anything(), "handles": Anything()})),
)
