from course_grader.judging import Case, Judging, Params, Random, Worked, random_inputs, shown
from course_grader.judging.per_row import CLOSE, EXACT, Column, shares, table
from course_grader.judging.random_inputs import draw_rows, generality, logarithmic, plain, unseen
from course_grader.judging.worked import judged_variant
from course_lib.estimate.units import count_text

right = Worked("split-pools")
_POOLS = "{prefill} + {decode} GPUs, prompts of {prompt:,} and replies of {answer:,} tokens"


def _split_cases(params: Params, rng: Random) -> list[Case]:
    kvs, fast, slow = (20_000, 90_000, 160_000, 320_000), logarithmic(4e3, 4e4), logarithmic(400, 4000)
    usual, narrow = (kvs, fast, slow, (12.5e9, 25e9, 50e9)), ((320_000,), fast, logarithmic(2e3, 4e3), (1e9, 2e9, 5e9))

    def clear(row: tuple[float, ...]) -> bool:
        """Whether the best split is the only one within rounding, in both forms."""
        forms = []
        for sends in ("overlaps", "waits"):
            with judged_variant("split-pools", {"sends": sends}):
                forms.append(sorted(right[0](p, row[0] - p, *row[1:]) for p in range(1, int(row[0]))))
        return all(each[-1] > each[-2] * (1 + 1e-6) for each in forms)

    rates = draw_rows(rng, 5, range(1, 9), range(1, 9), range(500, 8000), range(50, 900), *usual)
    slowly = draw_rows(rng, 5, range(1, 9), range(20, 60), range(500, 8000), range(50, 300), *narrow)
    splits = draw_rows(rng, 6, range(4, 33), range(500, 8000), range(50, 900), *usual, keep=clear)
    far = draw_rows(rng, 4, range(16, 65), range(4000, 30000), range(20, 60), *narrow, keep=clear)
    pools, other = (3000, 250, 131_072, 12e3, 1200.0, 1e9), (9000, 500, 400_000, 3e3, 300.0, 5e8)
    slowly += [row for some in ((3, 5), (30, 1)) for row in random_inputs.each_changed((*some, *pools), (4, 2, *other))]
    far += random_inputs.each_changed((16, *pools), (90, *other))
    far += [(90, 100, 5000, 20_000, 2e4, 500.0, 25e9), (90, 9000, 20, 320_000, 3e3, 3000.0, 5e8)]
    # powers of two, so that equals are exact: all but the first have two best splits. A prompt takes a second in both
    # forms: it is computed and sent in one second at once, or in half a second each.
    pace = 2.0 ** (10 if params["sends"] == "overlaps" else 11)
    some = ((2, 64.0), (3, 256.0), (5, 256.0), (7, 128.0))
    ties = [(n, 1024, 256, 1024.0, pace, slow, 1024 * pace) for n, slow in some]
    return [
        shown("3 GPUs for prompts, 5 for answers", "values:pace", 0, [(3, 5, 3000, 250, 131_072, 12e3, 1200.0, 50e9)]),
        shown("16 GPUs", "values:split", 1, [(16, 3000, 250, 131_072, 12e3, 1200.0, 50e9)]),
        plain("pace", 0, "other pools", rates),
        plain("split", 1, "other numbers of GPUs", splits),
        generality("pace", 0, "slow links", slowly),
        unseen(rng, "split", 1, "slow links, two and three GPUs, equals", [*far, *ties]),
    ]


JUDGING = Judging(
    shares=shares(pace=(0.25, 0.25), split=(0.25, 0.25)),
    cases=_split_cases,
    verdicts=table(
        Column("pace", "requests per second", words=right.words(0, _POOLS), rel=CLOSE),
        Column(
            "split",
            "GPUs",
            words=lambda n, prompt, answer, *_: (
                f"{count_text(n, 'GPU')}, prompts of {prompt:,} and replies of {count_text(answer, 'token')}"
            ),
            rel=EXACT,
        ),
        right=right,
    ),
    why="""Each request takes a certain time of a prefill GPU and of a decode GPU, and the best split has the two pools
in proportion to these times. Long prompts move GPUs to the prefill pool, and so does a slow link.""",
    pytorch="vLLM's `kv_transfer_config` and NVIDIA Dynamo run such pools; DistServe and Splitwise describe how "
    "to size them.",
)

ANSWERS = r'''# %% right: worked
sends = params("split-pools").sends  # leave as is: sending a cache "overlaps" with the next prompt, or the GPU "waits"


def requests_per_second(prefill, decode, prompt, answer, kv, prefill_speed, decode_speed, link):
    """What two pools of GPUs can serve."""
    computing, sending = prompt / prefill_speed, prompt * kv / link
    busy = max(computing, sending) if sends == "overlaps" else computing + sending
    return min(prefill / busy, decode * decode_speed / answer)


def best_split(gpus, prompt, answer, kv, prefill_speed, decode_speed, link):
    """The number of prefill GPUs that serves the most requests."""
    given = prompt, answer, kv, prefill_speed, decode_speed, link
    return max(range(1, gpus), key=lambda prefill: requests_per_second(prefill, gpus - prefill, *given))
# %% right: from the inverse rates
# -     busy = max(computing, sending) if sends == "overlaps" else computing + sending
# +     busy = prompt * (max if sends == "overlaps" else sum)([1 / prefill_speed, kv / link])
# %% right: the smaller of two rates
# ~ max(computing, sending) if ==> 1 / min(prefill_speed / prompt, link / (kv * prompt)) if
# %% wrong: one pool after the other => values
# > the pools work at the same time: their times for a request do not add up.
# ~ min(prefill / busy, decode * decode_speed / answer) ==> 1 / (busy / prefill + answer / (decode * decode_speed))
# %% wrong: no sending => generality
# > the cache of each prompt has to be sent.
# ~ sends = params("split-pools").sends ==> sends = "overlaps"
# ~ prompt * kv / link ==> 0 * kv / link
# %% wrong: one link for the whole pool => values
# > each prefill GPU has a link of its own; here all of them share one.
# ~ min(prefill / busy, decode ==> min(prefill / computing, 1 / sending, decode
# %% wrong: sending waits => values other-sending unless sends=waits
# > sending and computing overlap here.
# ~ sends == "overlaps" ==> not sends
# %% wrong: the public form => values public-form unless sends=overlaps
# > this solves the public form of the exercise: here sending and computing take turns.
# ~ sends == "overlaps" ==> sends
# %% wrong: sum => values
# > every request needs both pools: the slower one sets the pace.
# ~ min(prefill / busy, decode * decode_speed / answer) ==> prefill / busy + decode * decode_speed / answer
# %% wrong: prefill alone => values
# > every request needs a decode GPU, too.
# ~ min(prefill / busy, decode * decode_speed / answer) ==> prefill / busy
# %% wrong: tokens => values
# > these are tokens per second; return requests per second.
# ~ return min( ==> return answer * min(
# %% wrong: decode gpus => values
# > this is the number of decode GPUs.
# ~ return max(range ==> return gpus - max(range
# %% wrong: halves => values
# > half of the GPUs each is not the best split here.
# ~ return max(range(1, gpus), key=lambda prefill: requests_per_second(prefill, gpus - prefill, *given))
# ~~ ==> return gpus // 2
# %% wrong: more of equals => generality
# > fewer prefill GPUs serve as many requests.
# ~ range(1, gpus) ==> range(gpus - 1, 0, -1)
# %% wrong: 64 prefill GPUs at most => generality -
# ~ range(1, gpus) ==> range(1, min(gpus, 65))
'''
