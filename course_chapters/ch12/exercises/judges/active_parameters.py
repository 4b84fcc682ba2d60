from course_grader.judging import Case, Judging, Params, Random, Worked, draw_rows, each_changed, generality, plain
from course_grader.judging.per_row import EXACT, Column, table

right = Worked("active-parameters")


def _parameter_cases(params: Params, rng: Random) -> list[Case]:
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


COUNT = Column("", "parameters", words=_model_text, rel=EXACT)
JUDGING = Judging(
    shares={"values:total": 0.4, "values:active": 0.4, "generality:edges": 0.2},
    cases=_parameter_cases,
    verdicts=table(COUNT, COUNT, right=right),
    why="""Memory follows the total, and FLOPs follow the active parameters: 6 per active parameter and token in
training. Only the experts are multiplied, so “8x7B” has fewer than 8 times 7 billion parameters.""",
    pytorch="`sum(p.numel() for p in model.parameters())` is the total; nothing in PyTorch knows which of them "
    "a token uses.",
)

ANSWERS = r'''# %% right: worked
shared = params("active-parameters").shared  # leave as is: experts of a layer that every token uses besides the chosen


def total_parameters(layers: int, width: int, ffn: int, experts: int, k: int, other: int) -> int:
    """All parameters of the model."""
    return layers * ((experts + shared) * 3 * width * ffn + width * experts) + other


def active_parameters(layers: int, width: int, ffn: int, experts: int, k: int, other: int) -> int:
    """The parameters that one token uses; the router scores every expert."""
    return layers * ((k + shared) * 3 * width * ffn + width * experts) + other
# %% right: what is not used is subtracted
def total_parameters(layers, width, ffn, experts, k, other):
    return other + sum(width * experts + experts * (2 * width * ffn + ffn * width) for _ in range(layers))


def active_parameters(layers, width, ffn, experts, k, other):
    return total_parameters(layers, width, ffn, experts, k, other) - layers * (experts - k) * 3 * width * ffn
# %% wrong: no router => values
# > the routers are missing.
# ~ (experts + shared) * 3 * width * ffn + width * experts ==> (experts + shared) * 3 * width * ffn
# ~ (k + shared) * 3 * width * ffn + width * experts ==> (k + shared) * 3 * width * ffn
# %% wrong: all experts => values
# > these are all experts; one token uses only k of them.
# ~ (k + shared) ==> (experts + shared)
# %% wrong: only active => values
# > these are the experts of one token; all of them must be stored.
# ~ (experts + shared) ==> (k + shared)
# %% wrong: two matrices => values
# > a gated MLP has three matrices, not two.
# ~ (experts + shared) * 3 ==> (experts + shared) * 2
# ~ (k + shared) * 3 ==> (k + shared) * 2
# %% wrong: router of k => values
# > the router computes a score for every expert, also for those that are not chosen.
# ~ (experts + shared) * 3 * width * ffn + width * experts ==> (experts + shared) * 3 * width * ffn + width * k
# ~ (k + shared) * 3 * width * ffn + width * experts ==> (k + shared) * 3 * width * ffn + width * k
# %% wrong: experts times all => values
# > attention and embeddings exist once, not once per expert: “8x7B” is not 8 models.
# ~ (experts + shared) * 3 * width * ffn + width * experts)
# ~~ ==> (experts + shared) * 3 * width * ffn + width * experts) + (experts - 1) * other
# ~ (k + shared) * 3 * width * ffn + width * experts)
# ~~ ==> (k + shared) * 3 * width * ffn + width * experts) + (experts - 1) * other
# %% wrong: others in every layer => values
# > `other` counts the whole model; it was added once for each layer.
# ~ layers * ((experts + shared) * 3 * width * ffn + width * experts) + other
# ~~ ==> layers * ((experts + shared) * 3 * width * ffn + width * experts + other)
# ~ layers * ((k + shared) * 3 * width * ffn + width * experts) + other
# ~~ ==> layers * ((k + shared) * 3 * width * ffn + width * experts + other)
# %% wrong: everything in proportion to k => values
# > this is k / experts of all parameters, but every token uses all of `other` and of the routers.
# ~ return layers * ((k + shared) * 3 * width * ffn + width * experts) + other
# ~~ ==> return total_parameters(layers, width, ffn, experts, k, other) * k // experts
# %% wrong: a bias in the router => values
# > the router has no bias.
# ~ (experts + shared) * 3 * width * ffn + width * experts
# ~~ ==> (experts + shared) * 3 * width * ffn + (width + 1) * experts
# ~ (k + shared) * 3 * width * ffn + width * experts ==> (k + shared) * 3 * width * ffn + (width + 1) * experts
# %% wrong: one router for all layers => values
# > every layer has its own router; one was counted.
# ~ (experts + shared) * 3 * width * ffn + width * experts)
# ~~ ==> (experts + shared) * 3 * width * ffn) + width * experts
# ~ (k + shared) * 3 * width * ffn + width * experts) ==> (k + shared) * 3 * width * ffn) + width * experts
# %% wrong: one layer => values
# > this is one layer.
# ~ layers * ((experts ==> 1 * ((experts
# ~ layers * ((k ==> 1 * ((k
# %% wrong: no others => values
# > the other parameters are missing.
# ~ (experts + shared) * 3 * width * ffn + width * experts) + other
# ~~ ==> (experts + shared) * 3 * width * ffn + width * experts)
# ~ (k + shared) * 3 * width * ffn + width * experts) + other ==> (k + shared) * 3 * width * ffn + width * experts)
# %% wrong: at least one expert is idle => generality -
# ~ (k + shared) ==> (min(k, max(1, experts - 1)) + shared)
# %% wrong: four experts a token at most => generality ~
# ~ (k + shared) ==> (min(k, 4) + shared)
'''
