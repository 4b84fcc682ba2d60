from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache

from course_chapters.ch16.exercises.probes import proposal
from course_grader.exercises.values import describe
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Verdict, Worked, judged, shown
from course_grader.judging.frequencies import surprise
from course_grader.judging.per_row import FINE, Column, rows_fault, table
from course_grader.judging.random_inputs import generality, plain

Probabilities = Sequence[float]
Tables = tuple[tuple[float, ...], ...]
TIMES = 1500  # outputs that are drawn of each row
SURE = 6.0  # standard deviations of a normal number: one right answer in a billion is as far off

# --- exact distributions of outputs


def _rest(p: Probabilities, q: Probabilities) -> list[float]:
    missing = [max(0.0, a - b) for a, b in zip(p, q, strict=True)]
    total = sum(missing)
    return [each / total for each in missing] if total > 1e-12 else list(p)


def _chance(p: Probabilities, q: Probabilities, guess: int) -> float:
    return min(1.0, p[guess] / q[guess])


_Keep = Callable[[Probabilities, Probabilities, int], float]
_RULES: dict[str, tuple[_Keep, Callable[[Probabilities, Probabilities], Probabilities]]] = {
    # name: the probability that a guess is kept, the distribution of the token in its place; for others as is right
    "drawn-from-target": (_chance, lambda p, q: p),
    "drawn-from-draft": (_chance, lambda p, q: q),
    "greedy-accept": (lambda p, q, x: float(p[x] >= q[x]), _rest),
    "no-draft": (lambda p, q, x: p[x], _rest),
    "all-kept": (lambda p, q, x: 1.0, _rest),
    "nothing-instead": (_chance, lambda p, q: ()),
    "wrong-side": (_chance, lambda p, q: _rest(q, p)),
}

_MESSAGES = {
    "drawn-from-target": "the replacement is drawn from all of the target's probabilities; tokens that the draft "
    "prefers then come too often.",
    "drawn-from-draft": "the replacement is drawn from the draft's probabilities.",
    "greedy-accept": "tokens are accepted without chance: accept each with probability min(1, p/q).",
    "no-draft": "a token is accepted with probability p, not p/q: the draft's own probability is left out.",
    "all-kept": "every drafted token is accepted, so the output has the draft's distribution.",
    "no-bonus": "when all drafted tokens are accepted, the target's last list gives one more token.",
    "goes-on": "after a rejection, the later drafted tokens follow a token that is not there: stop.",
    "nothing-instead": "a rejected token needs a replacement.",
    "wrong-side": "what is missing is max(0, p − q), not max(0, q − p).",
}


@cache
def outputs(
    target: Tables, draft: Tables | None, first: int, guesses: int, rule: str = "right"
) -> dict[tuple[int, ...], float]:
    """The probability of each output of a step; a rule other than "right" is a known mistake."""
    keep, instead = _RULES.get(rule, (_chance, _rest))
    found: dict[tuple[int, ...], float] = defaultdict(float)

    def drawn(output: tuple[int, ...], weight: float, probabilities: Probabilities) -> None:
        """One more token from these probabilities, none where they are empty."""
        if not probabilities:
            found[output] += weight
        for token, p in enumerate(probabilities):
            found[(*output, token)] += weight * p

    def step(at: int, token: int, output: tuple[int, ...], weight: float) -> None:
        p = target[token]
        if at == guesses:
            return drawn(output, weight, p if rule != "no-bonus" else ())
        q = proposal(target, draft, token)
        for guess, chance in enumerate(q):
            kept = keep(p, q, guess) if chance else 1.0
            if chance and kept:
                step(at + 1, guess, (*output, guess), weight * chance * kept)
            if kept < 1 and rule == "goes-on":
                for other, share in enumerate(instead(p, q)):
                    step(at + 1, guess, (*output, other), weight * chance * (1 - kept) * share)
            elif kept < 1:
                drawn(output, weight * chance * (1 - kept), instead(p, q))

    step(0, first, (), 1.0)
    return {output: p for output, p in found.items() if p > 1e-15}


# --- cases


def _row(rng: Random, size: int, *, zeros: bool = False) -> tuple[float, ...]:
    """Probabilities of `size` tokens that differ much, some of them 0."""
    weights = [rng.choice((0.0, 1.0, 3.0, 9.0) if zeros else (1.0, 3.0, 9.0)) for _ in range(size)]
    weights = weights if sum(weights) else [1.0] * size
    return tuple(each / sum(weights) for each in weights)


def _pair(rng: Random, size: int, *, zeros: bool = False) -> tuple[Tables, Tables]:
    """Two tables that are far from each other in each row."""

    def far(p: Sequence[float]) -> tuple[float, ...]:
        while True:
            q = _row(rng, size, zeros=zeros)
            if sum(abs(a - b) for a, b in zip(p, q, strict=True)) >= 0.5:
                return q

    target = tuple(_row(rng, size, zeros=zeros) for _ in range(size))
    return target, tuple(map(far, target))


def _cases(params: Params, rng: Random) -> list[Case]:
    copied = params["drafts"] == "copied"

    def asked(target: Tables, draft: Tables, guesses: int) -> tuple[object, ...]:
        given = None if copied else draft
        return target, given, rng.randrange(len(target)), guesses, TIMES, rng.randrange(10**6)

    same = _pair(rng, 2)[0]
    apart = ((*[0.0] * 8, 0.5, 0.5),) * 10, ((0.25, 0.75, *[0.0] * 8),) * 10
    three = ((0.6, 0.3, 0.1), (0.2, 0.2, 0.6), (0.1, 0.8, 0.1)), ((0.2, 0.2, 0.6), (0.5, 0.4, 0.1), (0.5, 0.3, 0.2))
    several = [asked(*_pair(rng, size), count) for size, count in ((3, 2), (2, 3), (4, 3))]
    odd = [asked(*_pair(rng, 4), 0), asked(same, same, 7), asked(*apart, 2), asked(*_pair(rng, 4, zeros=True), 2)]
    return [
        shown("one guess of three tokens", "values:one", 0, [asked(*three, 1)]),
        shown("half of the guesses are kept", "values:mean", 1, [(0.5, 4)]),
        plain("one", 0, "one guess of other tokens", [asked(*_pair(rng, size), 1) for size in (2, 4, 5)]),
        plain("several", 0, "several guesses", several),
        generality("edges", 0, "no guess, a draft like the target, nothing in common, zeros", odd),
        plain("mean", 1, "other rates", [(round(rng.uniform(0.1, 0.95), 2), rng.randrange(1, 9)) for _ in range(6)]),
        generality("mean", 1, "none or all kept", [(0.0, 3), (1.0, 5), (0.7, 0), (1.0, 0), (0.999999, 4), (0.9, 40)]),
    ]


def _counts(got: object) -> dict[tuple[int, ...], int] | None:
    """How often each output came, or None if these are no lists of tokens."""
    if type(got) is not list or not got or not all(type(each) is list and len(each) == 2 for each in got):
        return None
    if not all(type(output) is list and type(count) is int and 0 < count <= TIMES for output, count in got):
        return None
    if not all(type(token) is int for output, _ in got for token in output):
        return None
    return {tuple(output): count for output, count in got}


def _sampling_fault(case: Case, got: Sequence[object]) -> Fault | None:
    wrong = []
    for row, value in zip(case.args[1], got, strict=True):
        counts = _counts(value)
        if counts is None:
            return "wrong-shape", f"`verify` returns a list of tokens; got {describe(value)}."
        if surprise(counts, outputs(*row[:4])) >= SURE:
            wrong.append((row, counts))
    if not wrong:
        return None
    for rule, told in _MESSAGES.items():
        if all(surprise(counts, outputs(*row[:4], rule)) < SURE for row, counts in wrong):
            return rule, told
    return "other-distribution", f"over {TIMES:,} steps the outputs do not have the target's distribution."


MEAN = Column(
    "mean",
    "tokens",
    want=Worked("speculative-sampler")[1],
    words=lambda rate, guesses: f"{guesses} drafted tokens, each accepted with probability {rate:g}",
    rel=FINE,
)


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    if case.args[0] == 1:
        return list(table(MEAN, MEAN)(params, case, outcome))
    fault = rows_fault(case, outcome.value) or _sampling_fault(case, outcome.value)
    return judged(case, fault, named=True)


JUDGING = Judging(
    shares="values:one 0.3, values:several 0.2, generality:edges 0.2, values:mean 0.1, generality:mean 0.2",
    cases=_cases,
    verdicts=_verdicts,
    why="""Token x is drafted and accepted with probability min(p(x), q(x)). A rejection has the
remaining probability, and the replacement is drawn in proportion to max(0, p − q). The two add up to p(x) for every x,
whatever the draft is. A bad draft costs speed, never quality.""",
    pytorch="`assistant_model=` of `generate` in transformers, and `speculative_config` in vLLM; both verify "
    "in this way.",
)

ANSWERS = r'''import random
# %% right: worked
drafts = params("speculative-sampler").drafts  # leave as is: guesses are "sampled", or "copied" from the text


def verify(
    target: list[list[float]], draft: list[list[float]] | None, guesses: list[int], rng: random.Random
) -> list[int]:
    """The tokens that a step adds, in the target's distribution."""
    output = []
    for at, guess in enumerate(guesses):
        p = target[at]
        q = draft[at] if drafts == "sampled" else [float(token == guess) for token in range(len(p))]
        if rng.random() * q[guess] >= p[guess]:
            missing = [max(0.0, a - b) for a, b in zip(p, q, strict=True)]
            return output + rng.choices(range(len(p)), missing)
        output.append(guess)
    return output + rng.choices(range(len(target[-1])), target[-1])


def tokens_per_step(rate: float, guesses: int) -> float:
    """The mean number of tokens of a step, if each guess is kept with probability `rate`."""
    return sum(rate**count for count in range(guesses + 1))
# %% right: with torch
def verify(target, draft, guesses, rng):
    coin = torch.Generator().manual_seed(rng.randrange(2**62))
    kept = 0
    for guess in guesses:
        p = torch.tensor(target[kept])
        q = torch.tensor(draft[kept]) if params("speculative-sampler").drafts == "sampled" else torch.eye(len(p))[guess]
        if torch.rand((), generator=coin) >= p[guess] / q[guess]:
            rest = (p - q).clamp(min=0)
            return [*guesses[:kept], int(torch.multinomial(rest / rest.sum(), 1, generator=coin))]
        kept += 1
    return [*guesses, int(torch.multinomial(torch.tensor(target[kept]), 1, generator=coin))]


def tokens_per_step(rate, guesses):
    return guesses + 1 if rate == 1 else (1 - rate ** (guesses + 1)) / (1 - rate)
# %% wrong: another token from the target => values drawn-from-target
# ~ rng.choices(range(len(p)), missing) ==> rng.choices(range(len(p)), p)
# %% wrong: another token from the draft => values drawn-from-draft
# ~ rng.choices(range(len(p)), missing) ==> rng.choices(range(len(p)), q)
# %% wrong: what the draft has too much of => values wrong-side
# ~ max(0.0, a - b) ==> max(0.0, b - a)
# %% wrong: kept without chance => values greedy-accept
# ~ rng.random() * q[guess] >= p[guess] ==> q[guess] > p[guess]
# %% wrong: the draft's probability is left out => values no-draft unless drafts=copied
# ~ rng.random() * q[guess] ==> rng.random()
# %% wrong: every guess is kept => values all-kept
# ~ rng.random() * q[guess] >= p[guess] ==> q[guess] == 0
# %% wrong: no token at the end => values no-bonus
# ~ output + rng.choices(range(len(target[-1])), target[-1]) ==> output
# %% wrong: goes on after another token => values goes-on
# ~ return output + rng.choices(range(len(p)), missing) ==> (guess,) = rng.choices(range(len(p)), missing)
# %% wrong: nothing instead => values nothing-instead
# ~ return output + rng.choices(range(len(p)), missing) ==> return output
# %% wrong: the first list for all guesses => values other-distribution
# ~ p = target[at] ==> p = target[0]
# %% wrong: another source of chance => values raised
# ~ rng.random() ==> torch.rand(())
# %% wrong: four guesses at most => generality other-distribution
# ~ enumerate(guesses) ==> enumerate(guesses[:4])
# %% wrong: the mean without the last token => values
# > each step ends with a token of the target's own.
# ~ for count in range(guesses + 1) ==> for count in range(1, guesses + 1)
# %% wrong: independent => values
# > a drafted token counts only if all before it were accepted.
# ~ sum(rate**count for count in range(guesses + 1)) ==> 1 + rate * guesses
# %% wrong: one too few => values
# > if all drafted tokens are accepted, there is one token more.
# ~ for count in range(guesses + 1) ==> for count in range(guesses)
# %% wrong: limit => values
# > this is the limit of infinitely many drafted tokens.
# ~ sum(rate**count for count in range(guesses + 1)) ==> 1 / (1 - rate) if rate < 1 else guesses + 1
# %% wrong: a quotient that is zero over zero => generality raised
# ~ sum(rate**count for count in range(guesses + 1)) ==> (1 - rate ** (guesses + 1)) / (1 - rate)
'''
