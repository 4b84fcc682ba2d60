"""Memory of a post-training job's models on given GPUs, and how many GPUs should generate and how many train.

Bytes come from the course's memory model (chapter 02), speeds of generation from chapter 16's, and FLOP from chapter
01. What is new is which models a job holds: an actor, and perhaps a reference, a critic and a reward model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from course_lib.estimate import compute, facts
from course_lib.estimate.memory import Layout, convention, stage_peak
from course_lib.estimate.running_plan import CONVENTION, GPUS, MFU, MODEL
from course_lib.estimate.units import require_whole
from course_lib.operate.serving import Deployment, largest_batch, steady_tokens_per_s

TRAINED = {"actor": True, "critic": True, "reference": False, "reward": False}  # whether a model of this role learns
RESERVE = 0.06  # of a GPU's memory: what the course's deployments leave free as well
MOST = 256  # sequences at once in a replica


def check_role(role: str) -> bool:
    """Whether models of this role are trained; ValueError for an unknown one."""
    if role not in TRAINED:
        raise ValueError(f"There is no role {role!r}; choose from {', '.join(TRAINED)}.")
    return TRAINED[role]


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on one GPU of the trainer. Models work one after another, so their working memory is the largest of all."""

    state: Mapping[str, float]  # by role
    working: float

    @property
    def total(self) -> float:
        """All of it."""
        return sum(self.state.values()) + self.working


def memory(roles: Mapping[str, str], gpus: int, seq: int, letter: str = CONVENTION) -> Memory:
    """What each of `gpus` ranks holds under ZeRO-3 with full recomputation, for one sequence of `seq` tokens at a time.

    `roles` names a model of the facts for each role: {"actor": "llama3-8b", "reference": "llama3-8b"}. A frozen model
    has weights alone.
    """
    layout = Layout(dp=require_whole("gpus", gpus), zero=3)
    state, working = {}, 0.0
    for role, model in roles.items():
        trained = check_role(role)
        kept = convention(letter)
        if not trained:
            kept = replace(kept, grads=0, main_grads=0, master=0, moments=0)
        peak = stage_peak(
            facts.model(model), 1, seq, layout, convention=kept, kernels="flash", checkpointing="full", dropout=False
        )
        state[role] = float(peak.state)
        backward = float(peak.activations + peak.loss) if trained else 0.0
        working = max(working, float(peak.gathered + peak.recomputed) + backward)
    return Memory(state, working)


@dataclass(frozen=True, kw_only=True)
class PostJob:
    """A step of a post-training job: `rows` rollouts, each a prompt and a reply of so many tokens."""

    gpus: int = GPUS
    model: str = "llama3-8b"
    device: str = "H100 SXM"
    rows: int = 1024
    prompt: int = 1024
    reply: int = 8192
    roles: tuple[str, ...] = ("actor", "reference")
    tp: int = 1  # GPUs of one replica of the generator
    mfu: float = MFU

    def __post_init__(self) -> None:
        for name in ("rows", "prompt", "reply", "tp"):
            require_whole(name, getattr(self, name))
        if require_whole("gpus", self.gpus) < 1 + self.tp:
            raise ValueError(f"{self.gpus} GPUs: one replica needs {self.tp}, and the trainer at least one more.")
        for role in self.roles:
            check_role(role)

    @property
    def deployment(self) -> Deployment:
        """A replica of the generator."""
        return Deployment(model=self.model, device=self.device, tp=self.tp, reserve=RESERVE)

    @property
    def at_once(self) -> int:
        """Rollouts whose caches fit in a replica together, at most `MOST`."""
        return largest_batch(self.deployment, self.prompt + self.reply, MOST)

    def generate_seconds(self, gpus: int) -> float:
        """Seconds in which `gpus` generate a batch, if replies end evenly (no long tail)."""
        rate = steady_tokens_per_s(self.deployment, self.prompt, self.reply, most=MOST)
        return self.rows * self.reply / (self._of(gpus) // self.tp * rate)

    def train_seconds(self, gpus: int) -> float:
        """Seconds in which `gpus` train on a batch: 6 FLOP per parameter and token, and 2 for each frozen model."""
        flops = sum(compute.TRAIN if check_role(role) else compute.FORWARD for role in self.roles)
        tokens = self.rows * (self.prompt + self.reply)
        one = facts.device(self.device)
        seconds = compute.train_seconds(
            facts.model(self.model).params, tokens, one.dense_flops, self.mfu, self._of(gpus)
        )
        return float(seconds * flops / compute.TRAIN)

    def sync_seconds(self) -> float:
        """Seconds until a replica's GPUs have received their weights, each through an adapter of its own."""
        share = self.deployment.weight_bytes / self.tp
        return share / float(facts.device(self.device).network_one_way)

    def fits(self, trainers: int) -> bool:
        """Whether the models of all roles fit on so many trainer GPUs."""
        roles = dict.fromkeys(self.roles, self.model)
        room = float(facts.device(self.device).memory) * (1 - RESERVE)
        return memory(roles, trainers, self.prompt + self.reply).total <= room

    def _of(self, gpus: int) -> int:
        if require_whole("gpus", gpus) > self.gpus:
            raise ValueError(f"{gpus} GPUs for one side; the job has {self.gpus}.")
        return gpus


def plan_job(tp: int) -> PostJob:
    """The course's plan, post-trained: its model on its GPUs, with replicas of `tp` GPUs."""
    return PostJob(model=MODEL, tp=tp)


@dataclass(frozen=True, slots=True)
class Split:
    """One way to divide the GPUs. Sides work at the same time, one step off, so the slower one sets the pace."""

    generators: int
    trainers: int
    generate: float  # seconds of a batch, the sync included
    train: float

    @property
    def step(self) -> float:
        """Seconds of a step."""
        return max(self.generate, self.train)

    @property
    def idle(self) -> float:
        """The share of all GPUs' time in which they wait for the other side."""
        busy = self.generators * self.generate + self.trainers * self.train
        return 1 - busy / ((self.generators + self.trainers) * self.step)


def splits(job: PostJob) -> list[Split]:
    """Every split whose sides both fit, by the number of generator GPUs."""
    found = []
    for generators in range(job.tp, job.gpus, job.tp):
        trainers = job.gpus - generators
        if job.fits(trainers):
            generate = job.generate_seconds(generators) + job.sync_seconds()
            found.append(Split(generators, trainers, generate, job.train_seconds(trainers)))
    return found


def best_split(job: PostJob) -> Split:
    """The split with the shortest step; of equals, the one with the fewest generators. ValueError if none fits."""
    found = splits(job)
    if not found:
        raise ValueError(
            f"No split of {job.gpus} × {job.device} holds {', '.join(job.roles)} of {job.model} beside a generator."
        )
    return min(found, key=lambda split: (split.step, split.generators))


def together_seconds(job: PostJob) -> float:
    """Seconds of a step if all GPUs generate and then all train. Weights move within a node and are left out."""
    return job.generate_seconds(job.gpus // job.tp * job.tp) + job.train_seconds(job.gpus)
