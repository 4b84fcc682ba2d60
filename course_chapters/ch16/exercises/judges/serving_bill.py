from course_grader.judging import CLOSE, EXACT, Case, Column, Judging, Params, Random, Worked, shares, shown, table
from course_grader.judging.random_inputs import draw_rows, each_changed, generality, log_uniform, logarithmic, plain
from course_lib.estimate.units import count_text

Model = tuple[float, float]  # parameters, training tokens


right = Worked("serving-bill")


def _cases(params: Params, rng: Random) -> list[Case]:
    speeds = logarithmic(4e3, 4e4), logarithmic(300, 3000)
    usual = draw_rows(rng, 8, (1.5, 2.0, 3.5), range(1, 9), range(200, 9000), range(20, 900), *speeds, (0.1, 0.35, 0.8))
    usual += each_changed((2.0, 2, 1000, 250, 1e4, 1e3, 0.4), (3.0, 72, 50_000, 700, 2e4, 2e3, 0.02))
    given = params["usd"], params["gpus"], 1000, 250, 10_000.0, 1000.0, params["busy"] / 100

    def models(count: int) -> tuple[list[Model], float]:
        """Models of which a larger one needs fewer tokens, as those of the same loss do, in any order; the best is
        clear."""
        while True:
            sizes = [log_uniform(rng, 1e9, 1e11) for _ in range(count)]
            found = [(size, 1e12 + 4e22 / size * rng.uniform(0.8, 1.2)) for size in sizes]
            served = log_uniform(rng, 1e11, 1e15)
            costs = sorted(size * (6 * tokens + 2 * served) for size, tokens in found)
            if count == 1 or costs[1] > costs[0] * 1.001:
                return found, served

    two = [(2.0**32, 2.0**40), (2.0**31, 3 * 2.0**40)]  # equal where 3 * 2^40 tokens are served
    ties = [(two, 3 * 2.0**40), (two[::-1], 3 * 2.0**40), ([*two, *two], 2.0**41), (two, 2.0**42)]
    close = [(2.0**30, 2.0**40), (2.0**30, 2.0**40 - 2.0**20)]
    ties += [(close, 0.0), ([*two, *two] * 3 + [(2.0**20, 2.0**40)], 2.0**42)]
    example = [(70e9, 2e12), (30e9, 4e12), (8e9, 20e12)]
    ties += [models(1), (models(6)[0], 0.0), (example, 0.0), (example, 1e16)]
    one, three = (2.0, 1, 0, 1, 9e3), (2.0, 3, 500, 1, 9e3)
    return [
        shown("prompts of 1,000 tokens", "values:dollars", 0, [given]),
        shown("three models, 10 trillion tokens served", "values:cheapest", 1, [(example, 1e13)]),
        plain("dollars", 0, "other replicas", usual),
        plain("cheapest", 1, "other models", [(example, 1e12), *map(models, (2, 3, 5, 8, 8, 8, 8, 8))]),
        generality("dollars", 0, "always busy, no prompt, one token", [(*one, 800.0, 1.0), (*three, 800.0, 0.25)]),
        generality("cheapest", 1, "equals, one model, nothing served", ties),
    ]


JUDGING = Judging(
    shares=shares(dollars=(0.25, 0.25), cheapest=(0.25, 0.25)),
    cases=_cases,
    verdicts=table(
        Column(
            "dollars",
            "dollars",
            words=lambda u, g, p, a, f, s, b: (
                f"{count_text(g, 'GPU')}, prompts of {p:,} and replies of {count_text(a, 'token')}, busy {b:.0%}"
            ),
            rel=CLOSE,
        ),
        Column(
            "cheapest", "an index", rel=EXACT, words=lambda models, n: f"{len(models)} models, {n:,g} served tokens"
        ),
        right=right,
    ),
    why="""The price of a token is the rent over the tokens that are really served, so idle hours count as much as
speed. Over a model's life, training is paid once and serving with every token. The more tokens it serves, the more a
smaller model saves that was trained longer for the same loss.""",
    pytorch="`vllm bench serve` measures both speeds at your own mix of prompts and answers; never take the speed of "
    "another mix.",
)

ANSWERS = r'''# %% right: worked
def usd_per_million(
    usd: float, gpus: int, prompt: int, answer: int, prefill_speed: float, decode_speed: float, busy: float
) -> float:
    """Dollars for a million answer tokens."""
    seconds = prompt / prefill_speed + answer / decode_speed
    return usd * gpus / 3600 * seconds / busy / answer * 1e6


def cheapest(models: list[tuple[float, float]], served: float) -> int:
    """The index of the model (parameters, training tokens) with the fewest FLOPs in its life."""
    return min(range(len(models)), key=lambda at: models[at][0] * (6 * models[at][1] + 2 * served))
# %% right: requests per hour, half the FLOPs
# ~ usd * gpus / 3600 * seconds / busy / answer * 1e6 ==> gpus * usd * 1_000_000 / (busy * 3600 / seconds * answer)
# ~ models[at][0] * (6 * models[at][1] + 2 * served) ==> 3 * models[at][0] * models[at][1] + models[at][0] * served
# %% wrong: idle is free => values
# > rent is paid for the idle time, too.
# ~ busy / answer ==> answer
# %% wrong: idle twice => values
# > a busier replica makes a token cheaper, not dearer.
# ~ seconds / busy ==> seconds * busy
# %% wrong: one gpu => values
# > each GPU of the replica costs that much.
# ~ usd * gpus / 3600 ==> usd / 3600
# %% wrong: no prompts => values
# > the replica computes prompts, too, and that time is paid for.
# ~ prompt / prefill_speed + answer ==> answer
# %% wrong: all tokens => values
# > these are dollars for a million tokens of prompts and replies together.
# ~ busy / answer * 1e6 ==> busy / (prompt + answer) * 1e6
# %% wrong: longer phase => values
# > a request's prompt and reply are computed one after the other: their times add up.
# ~ prompt / prefill_speed + answer / decode_speed ==> max(prompt / prefill_speed, answer / decode_speed)
# %% wrong: a prompt there must be => generality raised
# ~ 1e6 ==> 1e6 * prompt / prompt
# %% wrong: training only => values
# > serving takes FLOPs, too.
# ~ (6 * models[at][1] + 2 * served) ==> 6 * models[at][1]
# %% wrong: serving only => values
# > training takes FLOPs, too.
# ~ models[at][0] * (6 * models[at][1] + 2 * served) ==> models[at][0]
# %% wrong: one price => generality
# > a training token takes three times the FLOPs of a served one.
# ~ (6 * models[at][1] + 2 * served) ==> (models[at][1] + served)
# %% wrong: last of equals => generality
# > an earlier model takes as few FLOPs.
# ~ range(len(models)) ==> reversed(range(len(models)))
# %% wrong: a millionth more is as cheap => generality -
# ~ * (6 * models[at][1] + 2 * served) ==> * (6 * models[at][1] + 2 * served) // 10**19
'''
