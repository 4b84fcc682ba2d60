from course_grader.judging import CLOSE, Case, Column, Judging, Params, Random, Worked, shares, shown, table
from course_grader.judging.random_inputs import draw_rows, each_changed, generality, unseen

right = Worked("activation-shares")


def _share_cases(params: Params, rng: Random) -> list[Case]:
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
    "bytes",
    "bytes",
    words=lambda tokens, hidden, tp, cp, sp: (
        f"{tokens:,} tokens, hidden {hidden:,}, tp {tp}, cp {cp}, {'with' if sp else 'without'} sequence parallelism"
    ),
    rel=CLOSE,
    hint="Of the 24 and the 10, which does tp divide, and which does cp?",
)


JUDGING = Judging(
    shares=shares(bytes=(0.5, 0.5)),
    cases=_share_cases,
    verdicts=table(SHARES, right=right),
    why="""Tensor parallelism splits the matmuls and what lies between them. Norms and dropouts work token by token, so
the same ranks can share their tokens: no new ranks, and no new bytes on the wire. Context parallelism has ranks of its
own and splits the tokens of everything, attention included.""",
    pytorch="`SequenceParallel` in `torch.distributed.tensor.parallel` shards the norms; `context_parallel` shards "
    "the sequence.",
)

ANSWERS = r'''# %% right: worked
def bytes_per_rank(tokens: int, hidden: int, tp: int, cp: int, sequence_parallel: bool) -> float:
    """Bytes of one layer's activations on one rank."""
    outside = 10 / tp if sequence_parallel else 10  # norms, dropouts and the inputs of the two blocks
    return tokens / cp * hidden * (outside + 24 / tp)
# %% right: part by part
# ~ tokens / cp * hidden * (outside + 24 / tp) ==> tokens * hidden * outside / cp + tokens * hidden * 24 / tp / cp
# %% wrong: all divided => values
# > without sequence parallelism, the 10 outside the matmuls are not divided.
# ~ 10 / tp if sequence_parallel else 10 ==> 10 / tp
# %% wrong: never divided => values
# > sequence parallelism divides the 10 as well.
# ~ 10 / tp if sequence_parallel else 10 ==> 10
# %% wrong: another factor => values
# > sequence parallelism uses the ranks of tp, and adds none.
# ~ (outside + 24 / tp) ==> (outside + 24 / tp) / (tp if sequence_parallel else 1)
# %% wrong: no context => values
# > context parallelism divides the tokens.
# ~ tokens / cp * hidden ==> tokens * hidden
# %% wrong: context inside => values
# > context parallelism divides the norms' tokens, too.
# ~ tokens / cp * hidden * (outside + 24 / tp) ==> tokens * hidden * (outside + 24 / tp / cp)
# %% wrong: two bytes again => values
# > 34 is in bytes already, not in numbers.
# ~ return tokens / ==> return 2 * tokens /
# %% wrong: whole tokens => generality -
# ~ / cp ==> // cp
# %% wrong: a tensor-parallel group of eight at most => generality ~
# ~ 24 / tp ==> 24 / min(tp, 8)
'''
