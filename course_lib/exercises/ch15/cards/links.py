"""Exercises of chapter 15 on machines and rates: is the machine sound, what does an unmeasured message take, what is a rate worth?"""

from collections.abc import Mapping
from typing import Any

from course_lib.exercises import Card, Worth
from course_lib.exercises.card_parts import folded
from course_lib.exercises.ch15.cards import words_of
from course_lib.exercises.ch15.probes import sweeps
from course_lib.exercises.drilling import pick
from course_lib.exercises.probes import rows
from course_lib.exercises.returns import DictOf, Number, Rows

LINES: Mapping[str, str] = {
    "versions": "every rank has the same torch, NCCL and CUDA, to the last digit: `healthy`; otherwise `refuse`",
    "clocks": "the hardware (bit 0x8), heat (0x20, 0x40) or the power brake (0x80) slows a GPU: `degraded`. Being idle, a set clock and the "
    "requested power are harmless",
    "links": "NVLink (`NV…`) does not join two GPUs of one tensor-parallel group: `refuse`; two other GPUs: `degraded`. A group is "
    "`tp` GPUs in a row, from GPU 0 on",
    "copy": "the slowest GPU's copy as a share of the printed bandwidth",
    "all-reduce": "**bus** bandwidth of the all-reduce as a share of the printed link, one way",
    "shared memory": "bytes of `/dev/shm`",
    "open files": "files that may be open at once; −1 means that there is no limit",
}
WORDS = ("healthy", "degraded", "refuse")
RUNS = {"healthy": "go", "degraded": "with care", "refuse": "no-go"}
LIMITED = ("copy", "all-reduce", "shared memory", "open files")


def limits_of(copy: float, bus: float, shared: float, files: int) -> dict[str, tuple[float, float]]:
    """For each line with limits: healthy from here on, refused below there."""
    pairs = (copy, copy / 2), (bus, bus / 2), (shared, shared / 8), (files, files // 4)
    return dict(zip(LIMITED, pairs, strict=True))


def _limits(*sound: Any) -> dict[str, Any]:
    limits = limits_of(*sound)
    return {"limits": limits, "shown": ", ".join(f'"{name}": ({a:g}, {b:g})' for name, (a, b) in limits.items())}


LINE_ROWS = "\n".join(f"| `{name}` | {meaning} |" for name, meaning in LINES.items())
PREFLIGHT = Card(
    id="preflight-verdict",
    chapter="15",
    title="Would you start a run on this machine?",
    text=f"""You pay for a machine from the first minute, and one bad GPU slows all the others. Write `preflight(machine, tp, limits)`, which gives a verdict on
each line and one on the run. `machine` holds what a few commands report within a minute:

| key | |
|---|---|
| `"versions"` | for each rank a dictionary of `"torch"`, `"nccl"`, `"cuda"` |
| `"clocks"` | for each GPU: MHz now, and MHz at most |
| `"reasons"` | for each GPU the reason for its clock, `clocks_event_reasons.active` of `nvidia-smi`, bits as text: `"0x0000000000000041"` |
| `"topology"` | the matrix of `nvidia-smi topo -m`: `machine["topology"][a][b]` is `"NV18"`, `"PIX"`, `"NODE"`, `"SYS"`, …; `"X"` on the diagonal |
| `"copy"`, `"printed_copy"` | bytes/s of a copy inside each GPU, measured, and those of the data sheet |
| `"all_reduce"`, `"printed_link"` | bytes and seconds of one large all-reduce over all GPUs, `{{"nbytes": …, "seconds": …}}`; bytes/s of a link in one direction |
| `"shared_memory"`, `"open_files"` | of the system |

The verdicts are `"healthy"`, `"degraded"` and `"refuse"`:

| line | |
|---|---|
{LINE_ROWS}

For the last four, `limits[line]` is a pair: a line is healthy from the first number on, refused below the second, and degraded between them.
**What was not measured is degraded**: a GPU's copy, or the all-reduce, may be `None`.

Return the pair `(lines, run)`: a dictionary with a verdict for each of the seven lines, and `"go"` if all are healthy, `"no-go"` if one is refused, `"with care"`
otherwise. Shown: eight GPUs with one fault at a time, groups of {{{{tp}}}}, and the limits `{{{{{{shown}}}}}}`.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    kind="more",
    hints=(
        "Eight GPUs work in step. Does the mean of their copies say how fast all eight together are? And is a GPU that idles at 345 MHz faulty?",
        "One small function judges a value against a pair of limits, None included. Test the bits of `reasons` with `&`. Two GPUs a and b are in one group if "
        "`a // tp == b // tp`.",
        "`int(text, 16) & (0x8 | 0x20 | 0x40 | 0x80)`; `min(copies) / printed`, unless one is None; `2 * (n - 1) / n * nbytes / seconds / link`; "
        "`math.inf` for −1; then the worst of the seven words.",
    ),
    answers=("preflight",),
    allowed="the standard library and numpy.",
    params={"tp": 4, **_limits(0.52, 0.5, 1e9, 4096)},
    vary=lambda draw: {
        "tp": draw.choice((2, 4)),
        **_limits(*map(draw.choice, ((0.5, 0.56, 0.6), (0.44, 0.48, 0.55), (0.8e9, 1.6e9, 2e9), (2048, 8192)))),
    },
    probe=rows,
)

RATIOS = ("said", "others", "everything")  # what the probe brings back for a sweep: three ratios by size
HELD_OUT = Card(
    id="held-out-message",
    chapter="15",
    title="Predict a message that was not measured",
    text="""Write `predict_seconds` and `held_out`, because the message that you care about is rarely among those that were measured. One line does not describe a link: at
some size the library switches its protocol, and at some size the data no longer fits into a cache. So a sweep has **one regime or two**. Within each, a message takes
α + bytes/β seconds; at the border, the time may jump up or down.

A sweep is a list of rows in any order, `{"nbytes": 262144, "seconds": [0.00121, …]}`: the repeats of one size in the order in which they ran. The first repeat may be
slow, and so may up to a quarter of the others; the rest are off by a few per cent. A sweep has at least eight
sizes, up to 1 GiB; neighbors differ by a factor of about 4.

- `predict_seconds(rows, nbytes)` returns the seconds of a message whose size is **not in the sweep**, within {{close:percent}}. The size is between two sizes of
  one regime, or up to {{reach:int}} times the largest one.
- `held_out(rows)` returns a dictionary from each size of the sweep to **predicted over measured seconds** (the median), where the prediction has
  not seen that size. Ratios near 1 are evidence only for sizes that the fit has not seen.

Shown: four sweeps made with known constants, and one recorded sweep whose constants are unknown. For that one we ask only for `held_out`, and only
that it is honest, not that it is near 1.""",
    **Worth(points=8, minutes=15, difficulty=4, importance=5),
    hints=(
        "The times span five decades. If one line must fit all of them, which times decide a fit of raw seconds? And what does a line through two regimes describe?",
        "Use one number for each size: the median. Divide each equation α + n/β = t by its t. Try every cut of the sorted sizes into two parts of three or more, and keep "
        "the one with the least error. `held_out` calls the first function on a shorter list.",
        "`A = np.stack([1 / t, n / t], 1)`; `c, *_ = np.linalg.lstsq(A, np.ones(len(t)))`; error `((A @ c - 1) ** 2).sum()`. A message "
        "belongs to the lower part below `sqrt(n[cut - 1] * n[cut])`. `[other for other in rows if other is not row]`.",
    ),
    answers=("predict_seconds", "held_out"),
    allowed="the standard library and numpy.",
    returns=Rows(Number("seconds"), DictOf({name: DictOf({}, more=True) for name in RATIOS})),
    hides=("roofline.wires:fit_alpha_beta", "roofline.wires:fit_regimes"),
    params={"reach": 16, "alpha": 12e-6, "beta": 9e9, "close": 0.2},
    vary=pick(reach=(8, 16), alpha=(8e-6, 15e-6, 20e-6), beta=(5e9, 8e9, 12e9)),
    needs=("03",),
    probe=sweeps,
)

# bounds of the course's own gates: timed steps; slow end over fast end; share of the wall clock; share of the peak
LEAST, SPREAD, WAITED, ROOF = 5, 3, 0.9, 1.02

REASONS: Mapping[str, str] = {
    "no warm-up": "no step is excluded: `warm_up` is less than 1",
    "too few steps": "fewer than {{least:int}} steps were timed",
    "clock did not wait": "the timed steps add up to less than {{waited:percent}} of `wall_seconds`, which comes from a clock that did wait",
    "not steady": "the slow end takes more than {{spread}} times as long as the fast end",
    "above the roof": "the MFU is more than {{roof:percent}} of the peak (a clock itself is slightly off)",
}

_RUN = """| key | |
|---|---|
| `"rows"` | one dictionary for each step of each rank that kept a log, in any order: `"step"` (from 0), `"rank"`, `"seconds"` |
| `"warm_up"` | how many of the first steps to exclude |
| `"wall_seconds"` | all timed steps together, from before the first to after the last, by a clock that waited for the devices |
| `"tokens_per_step"` | of all ranks together |
| `"model_flops_per_token"` | forward and backward |
| `"hardware_flops_per_token"` | the same, plus what is recomputed because activations were dropped |
| `"ranks"`, `"dtype"` | |
| `"dense_flops"`, `"sparse_flops"` | FLOP/s of **one** device by dtype |"""

HONEST_MFU = Card(
    id="honest-mfu",
    chapter="15",
    title="An honest MFU, or none",
    text=f"""Write `honest_mfu(run)`, which computes the MFU from the raw steps of a log, or says why the log does not allow one. A user of nanoGPT
saw an MFU of 104 % on an H100 (*karpathy/nanoGPT, pull request 464, March 2024*), and a reader of another log computed 24 % where 46 %
was printed (*foundation-model-stack/fms-fsdp, issue 89, May 2024*). Each used the wrong peak.

{folded("The keys of the dictionary `run`", _RUN)}

- A step lasts until its **slowest rank** has finished. Sort the seconds of the n timed steps to t[0] … t[n − 1].
- The MFU is that of the **median** step; its low end is that of the slow end, t[9n // 10], and its high end that of the fast end, t[n // 10].
- Return `(mfu, low, high)` as fractions. If the log allows no MFU, return the first of these words that applies:

{words_of(REASONS, ordered=True)}

Shown: a run of this course's recorded evidence, eight {{{{device}}}}, and faulty logs of the same run.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    hints=(
        "Which of these numbers belong to one device, and which to all together? What does a rank do that finishes its step early?",
        "First find one number for each step: the largest of its ranks. Then drop the warm-up, and then ask the five questions in their order. MFU = "
        "model FLOPs per token × tokens per step / seconds / (ranks × dense peak of the dtype).",
        "`steps[row['step']] = max(steps.get(row['step'], 0), row['seconds'])`; `t = sorted(s for step, s in steps.items() if step >= warm_up)`; "
        "`sum(t) < 0.9 * wall`; `t[9 * n // 10] > spread * t[n // 10]`; `statistics.median(t)`.",
    ),
    answers=("honest_mfu",),
    allowed="the standard library and numpy.",
    hides=("compute:mfu", "compute:hfu"),
    params={"device": "H100 SXM", "least": LEAST, "spread": SPREAD, "waited": WAITED, "roof": ROOF},
    vary=pick(device=("H100 SXM", "A100 SXM 80GB", "B200 SXM")),
    needs=("01",),
    probe=rows,
)

CAUSES: Mapping[str, str] = {
    "bits for bytes": "the printed number is in bit/s",
    "both directions": "sent and received bytes were added up",
    "factor twice": "a bus bandwidth was mistaken for an algorithm bandwidth and multiplied by the factor again",
    "no ring": "no ring ran: a switch, or a tree over two servers, did the sums, so the tensor crosses the wire once",
    "fewer bits sent": "numbers were sent in fewer bits than they have in the tensor",
    "clock did not wait": "the clock stopped before the last byte arrived",
    "several wires": "the line is that of one wire, but several wires share the work",
    "as it says": "no fault: the definition gives the printed number, and no wire carries more than its line",
}

BUS_ABOVE_LINE = Card(
    id="bus-above-line",
    chapter="15",
    title="Faster than the wire",
    text=f"""Write `explain(report)`, which finds out why a bus bandwidth was reported that no wire can carry. Real reports claimed 125 Gbit/s over a network of 100 Gbit/s
(*NVIDIA/nccl-tests, issue 22, June 2019*; the same in *issue 196, February 2024*), 480 GB/s over links of 450 GB/s (*pull request 239, July 2024*), and 600 Gbit/s with
network cards of 100 Gbit/s (*NVIDIA/nccl, issue 495, April 2021*). No wire was faster than its line rate. A report is a dictionary:

| key | |
|---|---|
| `"collective"` | `"all_reduce"`, `"all_gather"` or `"reduce_scatter"` |
| `"ranks"`, `"nbytes"` | number of ranks; bytes of the whole tensor as the program counts it |
| `"seconds"`, `"waited_seconds"` | by the clock behind the printed number; by one that waited for the devices (never quite the same) |
| `"element_bytes"`, `"sent_bytes"` | of a number in the tensor; of the same number on the wire |
| `"sent_once"` | whether the tensor crosses the wire once, instead of around a ring |
| `"wires"` | number of equal wires that share the traffic |
| `"printed"` | what the report calls bus bandwidth |
| `"line"` | the most that one wire carries in one direction, bytes/s |

Bus bandwidth is defined as the bytes that a rank sends **around a ring**, over the time: for N ranks 2(N − 1)/N of the tensor in an all-reduce, and (N − 1)/N in the other two.

Return the pair `(cause, rate)`. `rate` is what **one wire really carries in one direction**, in bytes/s, by the clock that waited. The cause is
what makes the printed number larger than that, whether it is above the line or below; where several causes do, return the one with the largest effect:

{words_of(CAUSES)}""",
    **Worth(points=5, minutes=10, difficulty=3, importance=4),
    kind="more",
    hints=(
        "Forget the printed number for a moment: how many bytes left a rank, by which clock, over how many wires?",
        "`rate` follows from the other keys alone. For the cause, compare `printed` with what the definition gives from `nbytes` and `seconds`: a factor of 8, of 2, "
        "or of the ring is an error of the report. Otherwise the definition misleads: by how much does each of the other keys?",
        "`ring = k * (n - 1) / n`; `rule = ring * nbytes / seconds`; `rate = (1 if once else ring) * nbytes * sent / element / waited / wires`; "
        "`printed / rule` near 8, 2, `ring`; else the largest of `ring` (if once), `element / sent`, `waited / seconds`, `wires`, if it is above 1.1.",
    ),
    answers=("explain",),
    allowed="the standard library and numpy.",
    hides=("collectives:bus_bandwidth",),
    params={"line": 450e9},
    vary=lambda draw: {"line": draw.choice((300e9, 400e9, 900e9))},
    needs=("06",),
    probe=rows,
)

GROWTH: Mapping[str, tuple[str, str]] = {
    "doublings": (
        "every **doubling** of the GPUs adds the same seconds to a step: seconds = first + growth · log₂(N / fewest)",
        "seconds a doubling adds",
    ),
    "servers": (
        "every **server** of eight GPUs adds the same seconds to a step: seconds = first + growth · (N − fewest) / 8",
        "seconds a server adds",
    ),
}


def _growth(name: str) -> dict[str, Any]:
    law, words = GROWTH[name]
    return {"growth": name, "law": law, "grows": words}


SCALING_FIT = Card(
    id="scaling-fit",
    chapter="15",
    title="What does scaling cost here?",
    text="""Write two functions that describe how speed scales with the number of GPUs: two fitted numbers, and a third that says how far to trust them. The rows are measurements of one job,
in any order: `{"ranks": 64, "batch_tokens": 1048576, "tokens_per_s": 31112.0}`, with the tokens of all ranks in a step, and the tokens/s of **one** GPU.

- **strong**: the batch is the same in all rows. With more GPUs one part of a step shrinks and another stays: seconds = fixed + work / N.
- **weak**: the batch of each **GPU** is the same in all rows. Then {{law}}.
- **mixed**: neither. The rows come from different experiments and show nothing.

`fit_scaling(rows)` returns `("strong", fixed, work, worst)`, `("weak", first, growth, worst)` with {{grows}}, or `("mixed",)`. Fit the **seconds of a
step** by least squares of relative errors, (fit / measured − 1)²; `worst` is the largest |fit / measured − 1| of all rows. Every number must be within 1 %.

`efficiency(rows, ranks)` returns the tokens/s of one GPU among `ranks` GPUs over those of one GPU among the fewest measured, both by the fit; `ranks` need
not be among the rows. Return `None` for mixed rows.

Shown: two published series of this course's facts, one strong (1.34 billion parameters, data parallel) and one weak (6.66 billion, FSDP).""",
    **Worth(points=6, minutes=15, difficulty=3, importance=4),
    kind="more",
    hints=(
        "How many seconds does a step take, from these three numbers? And which batch stays the same: that of all GPUs, or that of each?",
        "seconds = batch / N / (tokens/s of one GPU). Both models are a constant plus a constant times a known column: 1/N, or the growth of N. Divide each "
        "equation by its own seconds before least squares.",
        "`t = batch / n / rate`; `x = 1 / n` or the law's; `A = np.stack([1 / t, x / t], 1)`; `c, *_ = np.linalg.lstsq(A, np.ones(len(t)))`; "
        "`abs(A @ c - 1).max()`. Efficiency: strong `T(fewest) * fewest / (T(N) * N)`, weak `T(fewest) / T(N)`.",
    ),
    answers=("fit_scaling", "efficiency"),
    allowed='the standard library and numpy; `params("scaling-fit").growth` is the name of the weak law.',
    params=_growth("doublings"),
    vary=lambda draw: _growth("servers"),
    structural="growth",
    needs=("07",),
    probe=rows,
)
