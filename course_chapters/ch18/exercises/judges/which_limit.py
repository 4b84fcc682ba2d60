from course_chapters.ch18.published import LIMITS
from course_grader.judging import EXACT, Case, Column, Judging, Params, Random, Word, Worked, shares, shown, table
from course_grader.judging.random_inputs import draw_rows, log_uniform, one_apart, plain, unseen
from course_lib.estimate.units import bytes_text, duration_text, flops_text

right = Worked("which-limit")


def _cases(params: Params, rng: Random) -> list[Case]:
    rates = params["flops"], params["bandwidth"], 1e-6 * params["microseconds"]
    shapes = [(64, 1024, 768), (1, 8192, 6144), (8192, 4096, 12288), (512, 2048, 6144)]  # none with n = k or n = 2 k
    narrow = [(k, n, 2, *rates) for k, n in ((1024, 768), (4096, 512), (256, 768))]
    other = 312e12, 2.039e12, 5e-6
    drawn = draw_rows(
        *(rng, 24, (1, 16, 128, 1024, 4096), (128, 1024, 4096), (384, 3072, 12288), (1, 2, 4)),
        *((125e12, 989e12, 2250e12), (0.9e12, 3.35e12, 8e12), lambda draw: log_uniform(draw, 1e-6, 1e-4)),
    )
    least = [row[1:] for row in drawn]
    square = 2**10  # a product of these sides takes 2^31 FLOP and 3 · 2^21 bytes in 16 bits
    flop, moved = 2.0**31, 3 * 2.0**21
    ties = [(square, square, square, 2, flop / a, moved / b, c) for a in (1, 2) for b in (1, 2) for c in (1, 2)]
    edges = [(square, square, 2, flop / a, moved / b, c) for a, b, c in ((1, 2, 1), (2, 1, 1), (1, 4, 2), (4, 1, 2))]
    return [
        shown(params["device"], "values:limit", 0, [(*each, 2, *rates) for each in shapes]),
        shown(f"tokens on {params['device']}", "values:tokens", 1, narrow),
        plain("", 0, "another device", [(*each, 4, *other) for each in shapes]),
        plain("tokens", 1, "another device", [(1024, 768, 1, *other), (256, 768, 2, *other), (8192, 6144, 2, *other)]),
        unseen(rng, "", 0, "other products", [*drawn, *one_apart(drawn, right)]),
        unseen(rng, "", 0, "two limits at once", ties),
        unseen(rng, "tokens", 1, "tokens of other products", [*least, *one_apart(least, right[1])]),
        unseen(rng, "tokens", 1, "exactly as long as a launch", edges),
    ]


def _words(*row: float) -> str:
    *shape, size, flops, bandwidth, launch = row
    product = " × ".join(f"{each:,}" for each in shape)
    return f"{product} at {size} B, {flops_text(flops)}/s, {bytes_text(bandwidth)}/s, launch {duration_text(launch)}"


JUDGING = Judging(
    shares=shares(seconds=(0.15, 0.15), limit=(0.15, 0.2), tokens=(0.15, 0.2)),
    cases=_cases,
    verdicts=table(
        [Column("seconds", "seconds", words=_words), Word("limit", LIMITS, words=_words)],
        Column("tokens", "tokens", words=_words, rel=EXACT),
        right=right,
    ),
    why="Where the device and the host work at the same time, the longest of the three times counts, not their sum. "
    "Weights must be read however few tokens there are, so a wide product leaves the launch behind with a single token "
    "and is then limited by memory; a narrow one needs hundreds.",
    pytorch="`torch.profiler` shows the host's `cudaLaunchKernel` and the kernel that it started. A kernel that starts "
    "right after its launch was waited for.",
)

ANSWERS = r'''import math
# %% right: worked
host = params("which-limit").host  # leave as is: "ahead" of the device, or "blocking" until it has ended


def limit(m: int, k: int, n: int, size: float, flops: float, bandwidth: float, launch: float) -> tuple[float, str]:
    """Seconds that the product costs in a long stream, and what takes so long."""
    moved = size * (m * k + k * n + m * n)
    times = {"launch": launch, "memory": moved / bandwidth, "compute": 2 * m * k * n / flops}
    word = max(times, key=times.get)
    if host == "blocking":
        return launch + max(times["memory"], times["compute"]), word
    return times[word], word


def fewest_tokens(k: int, n: int, size: float, flops: float, bandwidth: float, launch: float) -> int:
    """The least m for which the launch is not the limit."""
    by_memory = (launch * bandwidth / size - k * n) / (k + n)
    by_compute = launch * flops / (2 * k * n)
    return max(1, math.floor(min(by_memory, by_compute)) + 1)
# %% right: without a dictionary
# ~ word = max(times, key=times.get) ==> word = next(each for each in times if times[each] == max(times.values()))
# ~ max(1, math.floor(min(by_memory, by_compute)) + 1) ==> max(0, math.floor(min(by_memory, by_compute))) + 1
# %% wrong: the times added => values
# > bytes and FLOP pass at the same time: their times are not added.
# ~ launch + max(times["memory"], times["compute"]), word ==> sum(times.values()), word
# ~ times[word], word ==> sum(times.values()), word
# %% wrong: the other host => values
# > this is right for a host that launches the other way.
# ~ host == "blocking" ==> host != "blocking"
# %% wrong: one FLOP for multiply and add => values
# > a multiplication and an addition are two FLOP.
# ~ 2 * m * k * n / flops ==> m * k * n / flops
# ~ / (2 * k * n) ==> / (k * n)
# %% wrong: the result is not written => values
# > the bytes of the result are missing.
# ~ m * k + k * n + m * n ==> m * k + k * n
# ~ / (k + n) ==> / k
# %% wrong: the result has the width of A => values -
# ~ m * k + k * n + m * n ==> m * k + k * n + m * k
# ~ / (k + n) ==> / (k + k)
# %% wrong: A is not read => values
# > the bytes of A are missing.
# ~ m * k + k * n + m * n ==> k * n + m * n
# ~ / (k + n) ==> / n
# %% wrong: a byte for each number => values
# > this counts one byte for each number.
# ~ size * (m * k ==> (m * k
# ~ bandwidth / size - k ==> bandwidth - k
# %% wrong: without the weights => values
# > the bytes of B are missing: they are read however few tokens there are.
# ~ m * k + k * n + m * n ==> m * k + m * n
# ~ / size - k * n) ==> / size)
# %% wrong: the last of equals => generality
# > on a tie the first of launch, memory and compute is the limit.
# ~ max(times, key=times.get) ==> max(reversed(times), key=times.get)
# %% wrong: one token too few => values
# > this is the largest number of tokens at which the launch is still the limit; the next one is asked for.
# ~ max(1, math.floor(min(by_memory, by_compute)) + 1) ==> max(1, math.floor(min(by_memory, by_compute)))
# %% wrong: at the launch => generality
# > with so many tokens the times are equal, and on a tie the launch is the limit.
# ~ math.floor(min(by_memory, by_compute)) + 1 ==> math.ceil(min(by_memory, by_compute))
# %% wrong: both limits at once => values
# > one of the two other times longer than the launch is enough.
# ~ min(by_memory, by_compute) ==> max(by_memory, by_compute)
# %% wrong: less than one token => values
# > there is no product of fewer than one token.
# ~ max(1, math.floor(min(by_memory, by_compute)) + 1) ==> math.floor(min(by_memory, by_compute)) + 1
# %% half: the limit alone => 1.8
# ~ by_memory = ==> raise NotImplementedError; by_memory =
'''
