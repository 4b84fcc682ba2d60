"""Judge of active-parameters: total and active parameters."""

import random
from functools import partial

from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.columns import EXACT, Column, table
from course_lib.judging.draws import draw_rows, each_changed, generality, plain
from course_lib.records import Case, Outcome, Verdict

MATRICES = 3  # of a gated MLP


def parameters(shared: int, what: str, layers: int, width: int, ffn: int, experts: int, k: int, other: int) -> int:
    """All parameters ("total") or those of one token ("active")."""
    used = (experts if what == "total" else k) + shared
    return layers * (used * MATRICES * width * ffn + width * experts) + other


def _parameter_cases(params: Params, rng: random.Random) -> list[Case]:
    mixtral = (32, 4096, 14336, 8, 2, 1_605_636_096)
    size = ((2, 3, 12), (48, 96, 128), (32, 80, 512), (4, 9, 64), (1, 2, 3), (0, 777, 50_000))
    one = [(5, 64, 96, 16, 1, 10_000), (1, 32, 48, 6, 2, 0)]
    every = [(4, 64, 40, 4, 4, 900), (3, 32, 64, 1, 1, 500)]
    alike = each_changed((5, 64, 96, 16, 2, 10_000), (61, 7168, 2048, 256, 8, 777))
    return [
        Case(name="Mixtral 8x7B", args=(0, [mixtral]), part="total"),
        Case(name="one token of Mixtral 8x7B", args=(1, [mixtral]), part="active"),
        plain("total", 0, "other models", draw_rows(rng, 4, *size) + alike),
        plain("active", 1, "other models, one token", draw_rows(rng, 4, *size)),
        generality("edges", 1, "one expert a token, one layer, one number that differs", one + alike),
        generality("edges", 1, "every expert for every token", every),
    ]


def _model_text(layers: int, width: int, ffn: int, experts: int, k: int, other: int) -> str:
    return f"{layers} layers, width {width:,}, experts of {ffn:,}, {k} of {experts}, {other:,} others"


def _parameter_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    shared = params["shared"]

    def column(what: str, part: str) -> Column:
        right = partial(parameters, shared, what)

        def plain_form(*row: int) -> int:
            return parameters(0, what, *row)

        def router(*row: int) -> int:
            return row[0] * row[1] * row[3]

        public = [
            Mistake("public-form", plain_form, "this solves the public form of the exercise, without a shared expert.")
        ]
        return Column(
            part=part,
            unit="parameters",
            want=right,
            words=_model_text,
            rel=EXACT,
            mistakes=(
                *(public if shared else ()),
                Mistake("no-router", lambda *row: right(*row) - router(*row), "the routers are missing."),
                Mistake(
                    "all-experts",
                    lambda *row: parameters(shared, "total", *row) if what == "active" else None,
                    "these are all experts; one token uses only k of them.",
                ),
                Mistake(
                    "only-active",
                    lambda *row: parameters(shared, "active", *row) if what == "total" else None,
                    "these are the experts of one token; all of them must be stored.",
                ),
                Mistake(
                    "two-matrices",
                    lambda *row: (
                        right(*row) - row[0] * row[1] * row[2] * ((row[3] if what == "total" else row[4]) + shared)
                    ),
                    "a gated MLP has three matrices, not two.",
                ),
                Mistake(
                    "router-of-k",
                    lambda *row: right(*row) - router(*row) + row[0] * row[1] * row[4],
                    "the router computes a score for every expert, also for those that are not chosen.",
                ),
                Mistake(
                    "experts-times-all",
                    lambda *row: right(*row) + (row[3] - 1) * row[5],
                    "attention and embeddings exist once, not once per expert: “8x7B” is not 8 models.",
                ),
                Mistake("one-layer", lambda *row: right(1, *row[1:]), "this is one layer."),
                Mistake("no-others", lambda *row: right(*row[:5], 0), "the other parameters are missing."),
            ),
        )

    active_part = "active" if case.kind == "values" else "edges"
    return table(column("total", "total"), column("active", active_part))(params, case, outcome)


JUDGING = Judging(
    shares={"values:total": 0.4, "values:active": 0.4, "generality:edges": 0.2},
    cases=_parameter_cases,
    verdicts=_parameter_verdicts,
    why="""Memory follows the total, and FLOPs follow the active parameters: 6 per active parameter and token in training. Only the experts
are multiplied, so “8x7B” has fewer than 8 times 7 billion parameters.""",
    pytorch="`sum(p.numel() for p in model.parameters())` is the total; nothing in PyTorch knows which of them a token uses.",
)

ANSWERS = r"""# %% right: one formula
from course_lib.notebook import params


def _count(used, layers, width, ffn, experts, other):
    used += params("active-parameters").shared
    return layers * (used * 3 * width * ffn + width * experts) + other


def total_parameters(layers, width, ffn, experts, k, other):
    return _count(experts, layers, width, ffn, experts, other)


def active_parameters(layers, width, ffn, experts, k, other):
    return _count(k, layers, width, ffn, experts, other)


# %% right: what is not used is subtracted
def total_parameters(layers, width, ffn, experts, k, other):
    return other + sum(width * experts + experts * (2 * width * ffn + ffn * width) for _ in range(layers))


def active_parameters(layers, width, ffn, experts, k, other):
    return total_parameters(layers, width, ffn, experts, k, other) - layers * (experts - k) * 3 * width * ffn


# %% wrong: the router is missing => values no-router  from: what is not used is subtracted
# ~ width * experts + experts ==> experts

# %% wrong: all experts are active => values all-experts  from: what is not used is subtracted
# ~ (layers, width, ffn, experts, k, other) - layers * (experts - k) * 3 * width * ffn ==> (layers, width, ffn, experts, k, other)

# %% wrong: the total of one token => values only-active  from: one formula
# ~ return _count(experts, layers, width, ffn, experts, other) ==> return _count(k, layers, width, ffn, experts, other)

# %% wrong: two matrices => values two-matrices  from: one formula
# ~ 3 ==> 2

# %% wrong: the router of the chosen experts => values router-of-k  from: one formula
# ~ (k, layers, width, ffn, experts, other) ==> (k, layers, width, ffn, experts, other) - layers * width * (experts - k)

# %% wrong: eight whole models => values experts-times-all  from: one formula
# ~ (experts, layers, width, ffn, experts, other) ==> (experts, layers, width, ffn, experts, experts * other)

# %% wrong: one layer => values one-layer  from: one formula
# ~ layers * (used * 3 * width * ffn + width * experts) ==> used * 3 * width * ffn + width * experts

# %% wrong: the rest is missing => values no-others  from: one formula
# ~ (k, layers, width, ffn, experts, other) ==> (k, layers, width, ffn, experts, 0)

# %% wrong: at least one expert is idle => generality -  from: one formula
# ~ k, layers ==> min(k, max(1, experts - 1)), layers

# %% wrong: four experts a token at most => generality ~  from: one formula
# ~ (k, layers ==> (min(k, 4), layers
"""
