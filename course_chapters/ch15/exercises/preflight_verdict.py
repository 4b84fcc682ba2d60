from course_grader.exercises import Anything, Card, DictOf, Maybe, Rows, TupleOf, Worth

LINES = {
    "versions": "every rank has the same torch, NCCL and CUDA, to the last digit: `healthy`; otherwise `refuse`",
    "clocks": "`degraded` if hardware (bit 0x8), heat (0x20, 0x40) or the power brake (0x80) slows a GPU; other bits "
    "are harmless",
    "links": "`refuse` if no NVLink (`NV…`) joins two GPUs of a group, `tp` in a row from GPU 0 on; `degraded` "
    "if two others",
    "copy": "the slowest GPU's copy as a share of the printed bandwidth",
    "all-reduce": "**bus** bandwidth of the all-reduce as a share of the printed link, one way",
    "shared memory": "bytes of `/dev/shm`",
    "open files": "files that may be open at once; −1 means that there is no limit",
}
WORDS = ("healthy", "degraded", "refuse")
RUNS = {"healthy": "go", "degraded": "with care", "refuse": "no-go"}


def limits_of(copy: float, bus: float, shared: float, files: float) -> dict[str, tuple[float, float]]:
    """For each line with limits: healthy from here on, refused below there."""
    pairs = (copy, copy / 2), (bus, bus / 2), (shared, shared / 8), (files, files // 4)
    return dict(zip(list(LINES)[3:], pairs, strict=True))


def _limits(*sound: float) -> dict[str, object]:
    limits = limits_of(*sound)
    return {"limits": limits, "shown": ", ".join(f'"{name}": ({a:g}, {b:g})' for name, (a, b) in limits.items())}


LINE_ROWS = "\n".join(f"| `{name}` | {meaning} |" for name, meaning in LINES.items())
CARD = Card(
    title="Would you start a run on this machine?",
    text=f"""You pay for a machine from the first minute, and one bad GPU slows all the others. Write
`preflight(machine, tp, limits)`, which gives a verdict on each line and one on the run. `machine` holds what a few
commands report within a minute:

| key | |
|---|---|
| `"versions"` | for each rank a dictionary of `"torch"`, `"nccl"`, `"cuda"` |
| `"clocks"` | for each GPU: MHz now, and MHz at most |
| `"reasons"` | each GPU's `clocks_event_reasons.active` of `nvidia-smi`, bits as text: `"0x0000000000000041"` |
| `"topology"` | of `nvidia-smi topo -m`: `[a][b]` is `"NV18"`, `"PIX"`, `"NODE"`, `"SYS"`, …; `[a][a]` is `"X"` |
| `"copy"`, `"printed_copy"` | bytes/s of a copy inside each GPU, measured, and those of the data sheet |
| `"all_reduce"`, `"printed_link"` | of all GPUs, large: `{{"nbytes": …, "seconds": …}}`; a link's bytes/s, one way |
| `"shared_memory"`, `"open_files"` | of the system |

The verdicts are `"healthy"`, `"degraded"` and `"refuse"`:

| line | |
|---|---|
{LINE_ROWS}

For the last four, `limits[line]` is a pair: a line is healthy from the first number on, refused below the second, and
degraded between them. **What was not measured is degraded**: a GPU's copy, or the all-reduce, may be `None`.

Return the pair `(lines, run)`: a dictionary with a verdict for each of the seven lines, and `"go"` if all are healthy,
`"no-go"` if one is refused, `"with care"` otherwise. Shown: eight GPUs with one fault at a time, groups of {{{{tp}}}},
and the limits `{{{{{{shown}}}}}}`.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    kind="more",
    hints=(
        "Eight GPUs work in step. Does the mean of their copies say how fast all eight together are? And is a GPU "
        "that idles at 345 MHz faulty?",
        "One small function judges a value against a pair of limits, None included. Test bits with `&`. Two GPUs a "
        "and b are in one group if `a // tp == b // tp`.",
        "`int(text, 16) & (0x8 | 0x20 | 0x40 | 0x80)`; `min(copies) / printed`, unless one is None; `2 * (n - 1) / n "
        "* nbytes / seconds / link`; `math.inf` for −1; then the worst of the seven words.",
    ),
    answers=("preflight",),
    allowed="the standard library and numpy.",
    params={"tp": 4, **_limits(0.52, 0.5, 1e9, 4096)},
    vary=lambda draw: {
        "tp": draw.choice((2, 4)),
        **_limits(*map(draw.choice, ((0.5, 0.56, 0.6), (0.44, 0.48, 0.55), (0.8e9, 1.6e9, 2e9), (2048, 8192)))),
    },
    returns=Rows(TupleOf({"lines": DictOf({}, more=True), "run": Maybe(Anything())})),
)
