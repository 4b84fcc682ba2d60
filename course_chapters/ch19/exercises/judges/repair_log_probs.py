import random

import torch
from torch import Tensor

from course_grader.judging import Fault, Judging, Params, Worked
from course_grader.judging.cases import hidden, shown
from course_grader.judging.mistakes import Wrong
from course_grader.judging.oracles import oracle
from course_grader.judging.tensors import coin_of, normal, tensor_fault
from course_grader.records import Case, Outcome

right = Worked("repair-log-probs")
Given = tuple[Tensor, Tensor, Tensor, Tensor, float]  # logits, tokens, first, length, temperature


def _cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def given(rows: int, seq: int, vocab: int, temperature: float, kind: torch.dtype = torch.float32) -> Given:
        tokens = torch.randint(vocab, (rows, seq), generator=coin)
        first = torch.tensor([rng.randrange(1, seq - 2) for _ in range(rows)])
        length = torch.tensor([rng.randrange(int(each) + 1, seq) for each in first])
        return 3 * normal(coin, rows, seq, vocab, dtype=kind), tokens, first, length, temperature

    logits, tokens, _, _, temperature = given(2, 6, 9, 1.3)  # an answer after one token, and one of the last token
    whole = logits, tokens, torch.tensor([1, 5]), torch.tensor([6, 6]), temperature
    logits, tokens, first, _, temperature = given(2, 5, 7, 0.9)
    empty = logits, tokens, first, first.clone(), temperature
    return [
        shown("three answers", "values:answers", *given(3, 8, 11, params["temperature"])),
        hidden("other answers", "values:answers", *given(4, 7, 13, 0.8)),
        hidden("a temperature of 1", "values:answers", *given(3, 9, 5, 1.0)),
        hidden("a high temperature", "generality:temperature", *given(2, 8, 11, 1.7)),
        hidden("a temperature near 0", "generality:temperature", *given(2, 8, 11, 0.01)),
        hidden("bfloat16", "generality:precision", *given(3, 8, 40, 0.7, torch.bfloat16)),
        hidden("float16", "generality:precision", *given(3, 8, 40, 1.2, torch.float16)),
        hidden("whole rows, and one token", "generality:edges", *whole),
        hidden("answers without a token", "generality:edges", *empty),
    ]


def _fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    for place, name in enumerate(("log_probs", "mask")):
        got, want = outcome.value[place], right.value(case)[place]
        if fault := tensor_fault(f"{case.name}, {name}", got, want, rel=1e-5):
            return Wrong(*fault)._replace(lead=f"{case.name}: ", where=(place,))
    return None


JUDGING = Judging(
    shares="values:answers 0.4, generality:temperature 0.2, generality:precision 0.2, generality:edges 0.2",
    cases=_cases,
    verdicts=oracle(_fault),
    why="""A ratio compares two probabilities of the same event: this token, drawn in this way. Before the first update
it must be 1 up to rounding, for every token and at every temperature. That is a test that costs nothing and finds all
three bugs. With a temperature of 1 and fp32 logits, only the mask's bug shows.""",
    pytorch="vLLM returns raw log probabilities unless `logprobs_mode='processed_logprobs'`; TRL divides the logits by "
    "the temperature in `_get_per_token_logps`.",
)

ANSWERS = r'''import torch


# %% right: worked
def answer_log_probs(logits, tokens, first, length, temperature):
    """(log_probs, mask), both (B, S - 1): column p belongs to the token at p + 1."""
    ### BEGIN SOLUTION
    scores = (logits[:, :-1].float() / temperature).log_softmax(-1)
    found = scores.gather(-1, tokens[:, 1:, None]).squeeze(-1)
    place = torch.arange(1, tokens.shape[1])
    mask = (place >= first[:, None]) & (place < length[:, None])
    return found, mask
    ### END SOLUTION

# %% right: by cross-entropy
# ~ scores = (logits[:, :-1].float() / temperature).log_softmax(-1)
# ~~ ==> rows = (logits.float() / temperature)[:, :-1].transpose(1, 2)
# ~ found = scores.gather(-1, tokens[:, 1:, None]).squeeze(-1)
# ~~ ==> found = -torch.nn.functional.cross_entropy(rows, tokens[:, 1:], reduction="none")
# %% wrong: as given => values
# > the log probabilities are those of each token at its own position; position p scores the token after it.
# ~ (logits[:, :-1].float() / temperature) ==> logits
# ~ tokens[:, 1:, None] ==> tokens[:, :, None]
# ~ torch.arange(1, tokens.shape[1]) ==> torch.arange(tokens.shape[1])
# ~ return found, mask ==> return found[:, 1:], mask[:, :-1]
# %% wrong: at the token's own position => values
# > each token is scored by the logits at its own position; those one position earlier score it.
# ~ (logits[:, :-1].float() / temperature) ==> (logits[:, 1:].float() / temperature)
# %% wrong: at temperature 1 => values
# > the logits are not divided by the temperature.
# ~ (logits[:, :-1].float() / temperature) ==> logits[:, :-1].float()
# %% wrong: times the temperature => values
# > the logits are multiplied by the temperature.
# ~ float() / temperature ==> float() * temperature
# %% wrong: divided after the softmax => values
# > the log probabilities are divided by the temperature, not the logits; they no longer belong to a distribution.
# ~ (logits[:, :-1].float() / temperature).log_softmax(-1) ==> logits[:, :-1].float().log_softmax(-1) / temperature
# %% wrong: in the logits' own bits => generality another-kind
# ~ logits[:, :-1].float() ==> logits[:, :-1]
# %% wrong: converted after the softmax => generality rounded
# ~ (logits[:, :-1].float() / temperature).log_softmax(-1) ==> (logits[:, :-1] / temperature).log_softmax(-1).float()
# %% wrong: the mask of positions => values
# > the mask marks positions of the answer's tokens; column p belongs to the token at p + 1.
# ~ torch.arange(1, tokens.shape[1]) ==> torch.arange(tokens.shape[1] - 1)
# %% wrong: the end is left out => values
# > the answer's last token is not in the mask.
# ~ (place < length[:, None]) ==> (place < length[:, None] - 1)
# %% wrong: padding counts => values
# > the mask goes on after the end of the answer.
# ~ mask = (place >= first[:, None]) & (place < length[:, None]) ==> mask = place >= first[:, None]
# %% wrong: questions count => values
# > tokens of the question are in the mask.
# ~ mask = (place >= first[:, None]) & (place < length[:, None]) ==> mask = place < length[:, None]
# %% wrong: probabilities => values
# > these are probabilities; take their logarithms.
# ~ return found, mask ==> return found.exp(), mask
# %% half: in the logits' own bits => 4.8  from: in the logits' own bits
'''
