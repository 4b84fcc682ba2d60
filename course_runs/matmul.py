"""How many FLOP/s this device really does: square and model-shaped products, each repeated, with quartiles."""

import argparse
from collections.abc import Sequence
from statistics import median, quantiles

import torch

from course_lib.estimate.compute import matmul_flops
from course_lib.messages import Trouble, count_text
from course_runs import evidence, peaks
from course_runs.op_timer import seconds_of
from course_runs.process_group import Place, end, join, leave, refused

SQUARES = {"cpu": (128, 256, 512, 1024, 2048), "cuda": (512, 1024, 2048, 4096, 8192, 16384)}
# What the MLP of a 7B model multiplies, and the same by columns of two and of eight tensor-parallel ranks.
MODEL = {
    "cpu": ((512, 1024, 2816), (512, 1024, 1408)),
    "cuda": ((8192, 4096, 11008), (8192, 4096, 5504), (8192, 4096, 1376)),
}
MOST = 200  # times that a shape is repeated: each is kept in the evidence
_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and write; the exit code."""
    parser = argparse.ArgumentParser(
        prog="matmul", description=__doc__, epilog="example: python -m course_runs.matmul --out runs/matmul"
    )
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument(
        "--dtypes", default="", help="comma-separated: fp32, bf16, fp16 (default: fp32; on a GPU bf16 or fp16 too)"
    )
    parser.add_argument("--seconds", type=float, default=0.5, help="how long each shape is repeated")
    parser.add_argument("--largest", type=int, default=0, help="leave out larger matrices")
    parser.add_argument("--out", default="", help="folder of the evidence file (default: none is written)")
    parser.add_argument("--name", default="", help="name of the evidence file")
    given = parser.parse_args(argv)
    try:
        place = join(given.device, "auto")
        run(given, place)
        return 0
    except Trouble as trouble:
        return refused("matmul", trouble)
    finally:
        leave()


def run(given: argparse.Namespace, place: Place) -> list[dict]:
    """Every shape in every dtype, a line for each as it is done."""
    kind = place.device.type
    words = [word for word in given.dtypes.split(",") if word]
    if not words:
        native = peaks.half(place.device) if kind == "cuda" else None
        words = [*(word for word, dtype in _DTYPES.items() if dtype == native), "fp32"]
    if odd := [word for word in words if word not in _DTYPES]:
        raise Trouble(f"There is no dtype {odd[0]!r} here.", f"choose from {', '.join(_DTYPES)}")
    shapes = [(n, n, n) for n in SQUARES[kind]] + list(MODEL[kind])
    rows = []
    for word in words:
        for shape in shapes:
            if given.largest and max(shape) > given.largest:
                continue
            rows.append(row := measure(shape, word, place, given.seconds))
            print(
                f"{word}  {' × '.join(f'{n:>5}' for n in shape)}  {row['flops'] / 1e12:9.3f} TFLOP/s  (quartiles "
                f"{row['flops_q1'] / 1e12:.3f} to {row['flops_q3'] / 1e12:.3f}, "
                f"{count_text(len(row['seconds']), 'time')})",
                flush=True,
            )
    if given.out:
        measured = {f"best_flops_{word}": max(row["flops"] for row in rows if row["dtype"] == word) for word in words}
        for word in words:
            peak, source = peaks.peak_flops(place.device, _DTYPES[word], 0.0)
            measured |= {
                f"peak_flops_{word}": peak or None,
                f"peak_source_{word}": source if peak else "no data sheet for this device",
            }
        content = evidence.evidence(
            "matmul",
            setup={"device": kind, "dtypes": words, "seconds": given.seconds},
            raw={"rows": rows},
            measured=measured,
        )
        print(f"evidence: {evidence.write(content, given.out, given.name or f'matmul-{evidence.stamp()}')}")
    return rows


def measure(shape: tuple[int, int, int], word: str, place: Place, budget: float) -> dict:
    """One product, repeated for `budget` seconds after three runs that are not counted."""
    m, k, n = shape
    a = torch.randn(m, k, device=place.device).to(_DTYPES[word])
    b = torch.randn(k, n, device=place.device).to(_DTYPES[word])
    for _ in range(3):
        a @ b
    place.wait()
    times = seconds_of(lambda: a @ b, place, 5, cold=True)
    more = min(int(budget / max(median(times), 1e-7)), MOST)
    times += seconds_of(lambda: a @ b, place, max(more - len(times), 0), cold=True)
    fast, _, slow = quantiles(times, n=4)
    flops = matmul_flops(m, k, n)
    return {
        "shape": list(shape),
        "dtype": word,
        "seconds": times,
        "flops": flops / median(times),
        "flops_q1": flops / slow,
        "flops_q3": flops / fast,
    }


if __name__ == "__main__":
    end(main())
