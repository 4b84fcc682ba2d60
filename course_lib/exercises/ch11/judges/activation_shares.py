"""Judge of activation-shares: what is left of a layer's activations?"""

import random

from course_lib.judging import Judging, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import CLOSE, Column, shares, table
from course_lib.judging.draws import draw_rows, each_changed, generality, unseen
from course_lib.judging.mistakes import mistakes
from course_lib.records import Case


def activation_bytes(tokens: int, hidden: int, tp: int, cp: int, sequence_parallel: bool) -> float:
    """Bytes of a layer's activations on one rank; Korthikanti et al. 2022, table 2, without the s² term of unfused attention."""
    return tokens / cp * hidden * (10 / (tp if sequence_parallel else 1) + 24 / tp)


def _share_cases(params: Params, rng: random.Random) -> list[Case]:
    size, plain = (params["tokens"], params["hidden"]), "bytes"
    drawn = draw_rows(rng, 6, (2048, 4096, 8192), (1024, 4096, 6144), (2, 4, 8), (2, 4, 16), (True, False))
    edges = [(512, 768, 1, 1, True), (512, 768, 1, 1, False), (4096, 1024, 1, 8, False), (13, 640, 3, 5, True)]
    alike = each_changed((4096, 1024, 4, 8, True), (8192, 2048, 16, 32, False))
    return [
        shown("with and without", "values:bytes", 0, [(*size, 8, 1, False), (*size, 8, 1, True), (*size, 8, 4, True)]),
        unseen(rng, plain, 0, "other sizes", drawn),
        generality(plain, 0, "one rank in a direction, and sizes that do not divide", edges),
        generality(plain, 0, "one number differs", alike),
    ]


SHARES = Column(
    part="bytes",
    unit="bytes",
    want=activation_bytes,
    words=lambda tokens, hidden, tp, cp, sp: (
        f"{tokens:,} tokens, hidden {hidden:,}, tp {tp}, cp {cp}, {'with' if sp else 'without'} sequence parallelism"
    ),
    mistakes=mistakes(
        {
            "all-divided": lambda t, h, tp, cp, sp: 34 * t * h / cp / tp,
            "never-divided": lambda t, h, tp, cp, sp: activation_bytes(t, h, tp, cp, False),
            "another-factor": lambda t, h, tp, cp, sp: activation_bytes(t, h, tp, cp, sp) / (tp if sp else 1),
            "no-context": lambda t, h, tp, cp, sp: activation_bytes(t, h, tp, 1, sp),
            "context-inside": lambda t, h, tp, cp, sp: t * h * (10 / (tp if sp else 1) + 24 / tp / cp),
            "two-bytes-again": lambda t, h, tp, cp, sp: 2 * activation_bytes(t, h, tp, cp, sp),
        },
        {
            "all-divided": "without sequence parallelism, the 10 outside the matmuls are not divided.",
            "never-divided": "sequence parallelism divides the 10 as well.",
            "another-factor": "sequence parallelism uses the ranks of tp, and adds none.",
            "no-context": "context parallelism divides the tokens.",
            "context-inside": "context parallelism divides the norms' tokens, too.",
            "two-bytes-again": "34 is in bytes already, not in numbers.",
        },
    ),
    rel=CLOSE,
)


JUDGING = Judging(
    shares=shares(bytes=(0.5, 0.5)),
    cases=_share_cases,
    verdicts=table(SHARES),
    why="""Tensor parallelism splits the matmuls and what lies between them. Norms and dropouts work token by token, so the same ranks can share their tokens: no new ranks, and no
new bytes on the wire. Context parallelism has ranks of its own and splits the tokens of everything, attention included.""",
    pytorch="`SequenceParallel` in `torch.distributed.tensor.parallel` shards the norms; `context_parallel` shards the sequence.",
)

ANSWERS = r"""# %% right: closed form
def bytes_per_rank(tokens, hidden, tp, cp, sequence_parallel):
    return tokens / cp * hidden * (10 / (tp if sequence_parallel else 1) + 24 / tp)


# %% right: part by part  from: closed form
# ~ tokens / cp * hidden * (10 / (tp if sequence_parallel else 1) + 24 / tp) ==> tokens * hidden * 10 / (tp if sequence_parallel else 1) / cp + tokens * hidden * 24 / tp / cp

# %% wrong: everything is divided => values all-divided  from: closed form
# ~ tokens / cp * hidden * (10 / (tp if sequence_parallel else 1) + 24 / tp) ==> 34 * tokens * hidden / tp / cp

# %% wrong: sequence parallelism does nothing => values never-divided  from: closed form
# ~ 10 / (tp if sequence_parallel else 1) + 24 ==> 10 + 24

# %% wrong: a factor of its own => values another-factor  from: closed form
# ~ + 24 / tp) ==> + 24 / tp) / (tp if sequence_parallel else 1)

# %% wrong: context parallelism does nothing => values no-context  from: closed form
# ~ tokens / cp * hidden ==> tokens * hidden

# %% wrong: context parallelism in attention alone => values context-inside  from: closed form
# ~ / cp * hidden * (10 / (tp if sequence_parallel else 1) + 24 / tp) ==> * hidden * (10 / (tp if sequence_parallel else 1) + 24 / tp / cp)

# %% wrong: numbers of two bytes => values two-bytes-again  from: closed form
# ~ tokens / ==> 2 * tokens /

# %% wrong: whole tokens => generality -  from: closed form
# ~ / cp ==> // cp

# %% wrong: a tensor-parallel group of eight at most => generality ~  from: closed form
# ~ 24 / tp ==> 24 / min(tp, 8)
"""
