"""A model that trains on replies that it wrote: chapter 16's engine on some ranks, chapter 13's trainer on the others.

The generator writes several replies to each prompt and rewards them by a rule. The trainer learns the replies that are
better than the mean of their prompt's (rejection sampling); of the others it gets tokens, but no targets. Which replica
writes a reply changes nothing: the tokens follow from the weights and the reply's own seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypedDict, Unpack

import torch
from torch import Tensor

from course_chapters.ch19.loops import Make, Plan, disaggregated
from course_lib.cluster import Comm, Run, simulate
from course_lib.estimate.memory import Layout
from course_lib.model import transformer
from course_lib.model.transformer import Config
from course_lib.parallel import four_axes
from course_lib.parallel.mesh import Mesh
from course_lib.parallel.tensor.partition import span
from course_runs.serving import Engine, Limits, PagedModel, Sampling

NO_TARGET = -100
MILLION = 1_000_000  # a reward travels among tokens, in millionths
PAGE = 4  # tokens of a page of the cache
ITERATION, TOKEN = 1e-2, 1e-3  # s of virtual time: an iteration of the engine, a token of the trainer
Reward = Callable[[Sequence[int], Sequence[int]], float]  # of a prompt and a reply


def small_share(prompt: Sequence[int], reply: Sequence[int]) -> float:
    """The share of a reply's tokens with numbers below 16: a rule that a small model learns in a few steps."""
    return sum(each < 16 for each in reply) / len(reply)


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is asked, how replies are drawn and rewarded, and how the trainer learns."""

    prompts: tuple[tuple[int, ...], ...]
    samples: int = 4  # replies to each prompt
    reply: int = 8  # tokens
    reward: Reward = small_share
    lr: float = 2e-2
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.prompts or not all(self.prompts) or self.samples < 1 or self.reply < 1:
            raise ValueError(
                f"{len(self.prompts)} prompts, {self.samples} replies each, {self.reply} tokens a reply: there must be "
                "a prompt, each prompt needs a token, and the others must be at least 1."
            )

    @property
    def rows(self) -> int:
        """Rollouts of a batch."""
        return len(self.prompts) * self.samples


class Choices(TypedDict, total=False):
    """Fields of a `Plan` that the task leaves open."""

    trainer: Layout
    generator: Layout
    bound: int
    steps: int
    config: Config


def plan(task: Task, **choices: Unpack[Choices]) -> Plan:
    """The plan of a task, with `choices` as for `Plan`: a row has `seq_len` tokens, as many targets, and the reward."""
    length = choices.get("config", Plan.config).seq_len
    if (longest := max(map(len, task.prompts)) + task.reply) > length + 1:
        raise ValueError(f"A prompt and its reply have up to {longest} tokens; the context is {length}.")
    return Plan(rows=task.rows, width=2 * length + 1, dtype=torch.float64, **choices)


class RolloutEngine:
    """A replica of the generator: a whole model behind chapter 16's engine."""

    def __init__(self, comm: Comm, plan: Plan, task: Task) -> None:
        self.comm, self.plan, self.task = comm, plan, task
        self.model = transformer.build(plan.config, task.seed).to(plan.dtype)
        self.own = span(plan.rows, int(plan.generator.dp), comm.rank - int(plan.trainer.ranks))
        self.version, self.replies = 0, list[list[int]]()
        self._start()

    def _start(self) -> None:
        """An engine with an empty cache: keys and values of other weights must not be found in it."""
        size = self.plan.config.seq_len + 1
        rows = self.own[1] - self.own[0]
        pages = rows * -(-size // PAGE)
        limits = Limits(context=size, pages=pages, page_size=PAGE, max_batch=rows, queue=rows, budget=4 * rows)
        self.engine = Engine(limits, PagedModel(self.model, limits))

    def load(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Take the weights of a version, and forget what was computed with earlier ones."""
        tied = {"head.weight": weights["embedding.weight"]} if self.plan.config.tied else {}
        self.model.load_state_dict({**weights, **tied})
        self.version = version
        self._start()

    def batch(self, number: int) -> Tensor:
        """This replica's rows of a batch."""
        task, asked = self.task, []
        for row in range(*self.own):
            how = Sampling(1.0, number * self.plan.rows + row)
            prompt = task.prompts[row // task.samples]
            asked.append(self.engine.submit(prompt, task.reply, extra=how))
        while self.engine.busy:
            self.engine.step()
            self.comm.compute(ITERATION, kind="generate", label=str(number))
        self.replies = [each.reply for each in asked]
        return torch.tensor([self._row(each.prompt, each.reply) for each in asked]).view(-1, self.plan.width)

    def _row(self, prompt: Sequence[int], reply: Sequence[int]) -> list[int]:
        length, tokens = self.plan.config.seq_len, [*prompt, *reply]
        targets = [NO_TARGET] * (len(prompt) - 1) + list(reply)
        inputs = tokens[:-1] + [0] * (length - len(tokens) + 1)
        targets += [NO_TARGET] * (length - len(targets))
        return [*inputs, *targets, round(MILLION * self.task.reward(prompt, reply))]


def _axes(plan: Plan) -> dict[str, int]:
    if plan.trainer.zero:
        raise ValueError(f"This trainer holds its weights whole in each replica: zero=0, not {plan.trainer.zero}.")
    return {"dp": int(plan.trainer.dp), "tp": int(plan.trainer.tp)}


class Trainer:
    """A rank of the trainer: chapter 13's program, which learns the better replies to each prompt."""

    def __init__(self, comm: Comm, plan: Plan, task: Task) -> None:
        self.comm, self.plan, self.task = comm, plan, task
        job = four_axes.Job(
            config=plan.config, sequences=plan.rows, microbatches=1, lr=task.lr, seed=task.seed, dtype=plan.dtype
        )
        ranks = Comm(range(int(plan.trainer.ranks)))  # as a cluster of their own; all ranks make all groups
        self.rank = four_axes.set_up(ranks, _axes(plan), job)
        self.moments = {name: (torch.zeros_like(w), torch.zeros_like(w)) for name, w in self.rank.weights.items()}
        self.rewards, self.losses, self.steps = list[float](), list[float](), 0

    @property
    def weights(self) -> dict[str, Tensor]:
        """This rank's part of the model."""
        return {name: each.detach() for name, each in self.rank.weights.items()}

    def step(self, rows: Tensor) -> None:
        """Learn the targets of the replies above their prompt's mean. Without such replies, weights stay as they are.

        `rows` are those of whole prompts: (rows, width).
        """
        length, rank = self.plan.config.seq_len, self.rank
        tokens, targets, rewards = rows[:, :length], rows[:, length:-1].clone(), rows[:, -1].double() / MILLION
        groups = rewards.view(-1, self.task.samples)
        better = (groups > groups.mean(1, keepdim=True) + 1e-9).flatten()
        targets[~better] = NO_TARGET
        sums = torch.stack([(targets >= 0).sum().double(), rewards.sum()])
        rank.replicas.all_reduce(sums)
        self.comm.compute(TOKEN * tokens.numel(), kind="train")
        self.rewards.append(float(sums[1]) / self.plan.rows)
        if not sums[0]:
            return
        for weight in rank.weights.values():
            weight.grad = None
        loss = four_axes.forward_backward(rank, [tokens], [targets], int(sums[0]))
        four_axes.add_gradients(rank)
        four_axes.clip(rank, 1.0)
        self.steps += 1
        four_axes.update(rank, self.moments, self.steps, self.task.lr)
        rank.replicas.all_reduce(loss)
        self.losses.append(float(loss))


def sides(task: Task) -> Make:
    """How the ranks of each side begin. Every rank takes part in making the trainer's groups."""

    def generator(comm: Comm, plan: Plan) -> RolloutEngine:
        mesh = Mesh({axis: _axes(plan).get(axis, 1) for axis in four_axes.AXES})
        for axes in (("tp",), ("cp",), ("pp",), ("dp", "cp")):
            for ranks in mesh.groups(*axes):
                comm.new_group(ranks)
        return RolloutEngine(comm, plan, task)

    return partial(_trainer, task=task), generator


def _trainer(comm: Comm, plan: Plan, task: Task) -> Trainer:
    if plan.trainer.dp > 1 and (plan.rows // task.samples) % plan.trainer.dp:
        raise ValueError(
            f"{plan.rows // task.samples} prompts cannot be divided among dp={plan.trainer.dp}: the replies to a "
            "prompt are compared on one replica."
        )
    return Trainer(comm, plan, task)


def run(task: Task, plan: Plan) -> Run:
    """The whole loop on the metered cluster; `results` hold each rank's side after it."""
    ranks = int(plan.trainer.ranks + plan.generator.ranks)
    return simulate(disaggregated, ranks, (plan, sides(task)), buffering=math.inf)
