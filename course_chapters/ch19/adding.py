"""A task that a program can check: sums of two digits, and the model that learns them from rewards.

First it is fine-tuned on answers to half of the questions, for a few steps, which teaches the form. Then GRPO scores
answers that the model writes: 1 for the right sum, 0 for anything else. Every random number follows from the seed, the
step and the question, so that answers do not depend on how many processes share the questions.
"""

from __future__ import annotations

import copy
import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from course_chapters.ch19 import lora, policy, sft
from course_lib.cluster import Comm
from course_lib.estimate.units import require_whole
from course_lib.model.transformer import Config, Transformer, build

LETTERS = "0123456789+=."  # the last one ends an answer
END = LETTERS.index(".")
ASKED, ANSWERED = 4, 3  # tokens of a question such as "7+8=", and of the longest answer, "15."
CONFIG = Config(vocab=len(LETTERS), layers=2, hidden=32, heads=4, seq_len=28)
QUESTIONS = tuple((a, b) for a in range(10) for b in range(10))


class Answers(NamedTuple):
    """Answers that a model wrote: tokens (B, ASKED + ANSWERED), their log probabilities (B, ANSWERED) when they were
    drawn, and where an answer has a token, (B, ANSWERED) bool."""

    tokens: Tensor
    log_probs: Tensor
    mask: Tensor


def encode(words: Sequence[str]) -> Tensor:
    """Words of equal length as tokens, (words, letters), int64."""
    return torch.tensor([[LETTERS.index(letter) for letter in word] for word in words])


def question_text(a: int, b: int) -> str:
    """The question as the model reads it: "7+8="."""
    return f"{a}+{b}="


def answer_text(tokens: Tensor) -> str:
    """The letters of an answer up to its end."""
    return "".join(LETTERS[token] for token in tokens.tolist()).partition(".")[0]


def reward(question: tuple[int, int], answer: str) -> float:
    """1 for the right sum in as few digits as it has, 0 for anything else."""
    return float(answer == str(sum(question)))


@torch.no_grad()
def write_answers(
    model: nn.Module, questions: Sequence[tuple[int, int]], group: int, seed: int, numbers: Sequence[int] | None = None
) -> Answers:
    """`group` answers to each question, drawn at temperature 1, a question's answers one after another.

    `numbers` are the questions' numbers in the step; question n draws from a generator of its own that follows from
    (seed, n). Raises ValueError without questions.
    """
    if not questions:
        raise ValueError("There is no question, so no answer can be written.")
    numbers = range(len(questions)) if numbers is None else numbers
    coins = [torch.Generator().manual_seed(seed * 1_000_003 + number) for number in numbers]
    draws = torch.cat([torch.rand(group, ANSWERED, generator=coin, dtype=torch.float64) for coin in coins])
    tokens = encode([question_text(a, b) for a, b in questions]).repeat_interleave(group, 0)
    log_probs, mask = torch.zeros_like(draws), torch.zeros_like(draws, dtype=torch.bool)
    going = torch.ones(len(tokens), dtype=torch.bool)
    for place in range(ANSWERED):
        logits = model(tokens)[:, -1].log_softmax(-1)
        drawn = (logits.exp().cumsum(-1) < draws[:, place, None]).sum(-1).clamp(max=len(LETTERS) - 1)
        drawn = torch.where(going, drawn, END)
        log_probs[:, place] = torch.where(going, logits.gather(-1, drawn[:, None])[:, 0], 0.0)
        mask[:, place] = going
        going &= drawn != END
        tokens = torch.cat([tokens, drawn[:, None]], 1)
    return Answers(tokens, log_probs, mask)


def rewards_of(questions: Sequence[tuple[int, int]], answers: Answers) -> Tensor:
    """The reward of each answer, (answers,), of as many to each question."""
    asked = [question for question in questions for _ in range(len(answers.tokens) // len(questions))]
    rows = answers.tokens[:, ASKED:]
    return torch.tensor([reward(question, answer_text(row)) for question, row in zip(asked, rows, strict=True)])


def answer_log_probs(model: nn.Module, tokens: Tensor) -> Tensor:
    """The log probabilities (B, ANSWERED) that a model gives the tokens of answers."""
    return policy.token_log_probs(model(tokens[:, :-1])[:, ASKED - 1 :], tokens[:, ASKED:])


@torch.no_grad()
def accuracy(model: nn.Module) -> float:
    """The share of all questions whose most probable answer is right."""
    tokens = encode([question_text(a, b) for a, b in QUESTIONS])
    for _ in range(ANSWERED):
        tokens = torch.cat([tokens, model(tokens)[:, -1:].argmax(-1)], 1)
    rows = zip(QUESTIONS, tokens[:, ASKED:], strict=True)
    return sum(reward(question, answer_text(row)) for question, row in rows) / len(QUESTIONS)


# ------------------------------------------------------------------------------------------------ training


@dataclass(frozen=True, slots=True)
class Plan:
    """A run: fine-tuning, then steps of GRPO on some ranks that train and others that write answers.

    Without `generators`, one process does both. `lora` is the adapters' rank, 0 trains all weights. `updates` is how
    often a step learns from the same answers, and `beta` weighs the KL from the fine-tuned model.
    """

    steps: int = 150
    questions: int = 32
    group: int = 16
    tuned_steps: int = 12
    updates: int = 1
    lora: int = 0
    rate: float = 2e-3
    beta: float = 0.0
    trainers: int = 1
    generators: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "questions", "group", "tuned_steps", "updates", "trainers"):
            require_whole(name, getattr(self, name))
        for name in ("lora", "generators"):
            require_whole(name, getattr(self, name), least=0)
        if not (0 < self.rate < math.inf and 0 <= self.beta < math.inf):
            raise ValueError(f"rate={self.rate}, beta={self.beta}: the rate must be positive and beta not negative.")
        if self.group < 2:
            raise ValueError("group=1: a group of one answer is its own mean, so nothing is learned; give at least 2.")
        if self.questions > len(QUESTIONS):
            raise ValueError(f"questions={self.questions}: there are {len(QUESTIONS)} different ones.")
        if self.generators > self.questions or (self.trainers > 1 and not self.generators):
            raise ValueError(
                f"trainers={self.trainers}, generators={self.generators}: several trainers need generators, and every "
                "generator at least one question."
            )


class Step(NamedTuple):
    """One step: its number, the mean reward of its answers, and the seconds of writing and of training."""

    number: int
    reward: float
    writing: float
    training: float


def fine_tune(model: Transformer, plan: Plan) -> list[float]:
    """Train on written answers to half of the questions, packed into sequences; the loss of each step."""
    coin = random.Random(plan.seed)
    known = coin.sample(QUESTIONS, len(QUESTIONS) // 2)
    talks = [
        [("user", encode([question_text(a, b)])[0].tolist()), ("assistant", encode([f"{a + b}."])[0].tolist())]
        for a, b in known
    ]
    packed = sft.pack(talks, model.config.seq_len)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    losses = []
    for _ in range(plan.tuned_steps):
        loss = sft.loss_sum(model, packed) / sft.targets_in(packed)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def prepared(plan: Plan) -> Transformer:
    """The fine-tuned model, with adapters if the plan has them: the same on every rank.

    It computes in float64. In fp32, ranks that add in another order would soon draw another token somewhere.
    """
    model = build(CONFIG, plan.seed).double()
    fine_tune(model, plan)
    return lora.add_lora(model, plan.lora, 2 * plan.lora) if plan.lora else model


def reinforce(model: Transformer, plan: Plan, comm: Comm | None = None) -> Iterator[Step]:
    """Steps of GRPO. With `comm`, its first ranks train and the others write; every rank iterates over the same steps.

    A trainer's gradient is its answers' part of a mean over the tokens of all answers, and the parts are summed.
    """
    rank = 0 if comm is None else comm.rank
    train_group = None if comm is None else comm.new_group(range(plan.trainers))
    trained = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=plan.rate, weight_decay=0.0)
    reference = copy.deepcopy(model).requires_grad_(False) if plan.beta else None
    coin = random.Random(plan.seed + 1)
    for number in range(plan.steps):
        begun = time.perf_counter()
        asked = coin.sample(QUESTIONS, plan.questions)
        answers = _answers_of_all(model, plan, asked, number, comm)
        written = time.perf_counter()
        rewards = rewards_of(asked, answers)
        if rank < plan.trainers:
            worth = policy.advantages(rewards, plan.group)
            for _ in range(plan.updates):
                optimizer.zero_grad()
                _learn(model, reference, answers, worth, plan, rank)
                if train_group is not None:
                    _sum(train_group, trained)
                nn.utils.clip_grad_norm_(trained, 1.0)
                optimizer.step()
        if comm is not None:
            _send_weights(comm, trained)
        yield Step(number, rewards.mean().item(), written - begun, time.perf_counter() - written)


def _answers_of_all(
    model: Transformer, plan: Plan, asked: Sequence[tuple[int, int]], number: int, comm: Comm | None
) -> Answers:
    """The answers to all questions, on every rank; each generator writes those to its questions."""
    if comm is None:
        return write_answers(model, asked, plan.group, plan.seed + number)
    parts = []
    for index in range(plan.generators):
        first, end = (plan.questions * each // plan.generators for each in (index, index + 1))
        rows = torch.zeros((end - first) * plan.group, ASKED + 3 * ANSWERED, dtype=torch.float64)
        if comm.rank == plan.trainers + index:
            own = write_answers(model, asked[first:end], plan.group, plan.seed + number, range(first, end))
            rows = torch.cat([own.tokens, own.log_probs, own.mask], 1)
        comm.broadcast(rows, src=plan.trainers + index)
        parts.append(rows)
    tokens, log_probs, mask = torch.cat(parts).split([ASKED + ANSWERED, ANSWERED, ANSWERED], 1)
    return Answers(tokens.long(), log_probs, mask.bool())


def _learn(
    model: Transformer, reference: nn.Module | None, answers: Answers, worth: Tensor, plan: Plan, rank: int
) -> None:
    """Adds the gradient of this trainer's answers."""
    own = slice(rank, None, plan.trainers)
    tokens, old, mask = (each[own] for each in answers)
    new = answer_log_probs(model, tokens)
    losses = policy.clipped_losses(new, old, worth[own], mask)
    if reference is not None:
        with torch.no_grad():
            before = answer_log_probs(reference, tokens)
        losses = losses + plan.beta * torch.where(mask, policy.k3(new, before), 0.0)
    (losses.sum() / answers.mask.sum()).backward()


def _sum(comm: Comm, trained: Sequence[nn.Parameter]) -> None:
    """Sum the gradients over trainers, in one message."""
    grads = [each.grad for each in trained if each.grad is not None]
    flat = torch.cat([grad.reshape(-1) for grad in grads])
    comm.all_reduce(flat)
    for grad, row in zip(grads, flat.split([grad.numel() for grad in grads]), strict=True):
        grad.copy_(row.view(grad.shape))


def _send_weights(comm: Comm, trained: Sequence[nn.Parameter]) -> None:
    """The first trainer's weights, or its adapters, on every rank."""
    flat = torch.cat([each.detach().reshape(-1) for each in trained])
    comm.broadcast(flat, src=0)
    for each, row in zip(trained, flat.split([each.numel() for each in trained]), strict=True):
        each.data.copy_(row.view(each.shape))
