"""Chapter 19's tables and plots of the algorithm: scored answers, estimators, the clip, the learning curve, LoRA."""

import copy
from functools import cache

import torch
from IPython.display import Markdown

from course_chapters.ch19 import adding, lora, policy, post_plan
from course_chapters.table import columns
from course_lib.cluster import simulate
from course_lib.draw import curves, palette, style
from course_lib.draw.style import Picture
from course_lib.estimate import facts, memory
from course_lib.estimate.running_plan import CONVENTION, GPUS, MODEL
from course_lib.estimate.units import bytes_text, duration_text, number_text, percent_text
from course_lib.model.transformer import Transformer
from course_runs import evidence

DRAWS = 20_000  # tokens in the table of estimators
RATIOS = [0.02 * place for place in range(10, 101)]  # 0.2 to 2
Rows = list[tuple[object, ...]]


@cache
def tuned() -> Transformer:
    """The fine-tuned model that the tables ask."""
    return adding.prepared(adding.Plan())


def answers_table(question: tuple[int, int] = (4, 5), group: int = 6) -> Markdown:
    """What the fine-tuned model answers to one question, with each answer's reward and advantage."""
    answers = adding.write_answers(tuned(), [question], group, seed=4)
    rewards = adding.rewards_of([question], answers)
    worth = policy.advantages(rewards, group)
    rows: Rows = []
    for tokens, log_probs, reward, advantage in zip(*answers[:2], rewards, worth, strict=True):
        text = adding.answer_text(tokens[adding.ASKED :]) or "nothing"
        rows.append((text, percent_text(log_probs.sum().exp().item(), 2), f"{reward:.0f}", f"{advantage:+.2f}"))
    asked = adding.question_text(*question)
    return columns(f"answer to {asked} | its probability | reward | advantage", rows)


def estimators_table() -> Markdown:
    """The three estimators on tokens of a small policy, near its reference and far from it."""
    coin = torch.Generator().manual_seed(0)
    reference = torch.randn(12, generator=coin, dtype=torch.float64).log_softmax(0)
    step = torch.randn(12, generator=coin, dtype=torch.float64)
    rows: Rows = []
    for name, size in (("near", 0.1), ("far", 1.0)):
        new = (reference + size * step).log_softmax(0)
        exact = (new.exp() * (new - reference)).sum()
        drawn = torch.multinomial(new.exp(), DRAWS, replacement=True, generator=coin)
        for kind, estimator in policy.ESTIMATORS.items():
            found = estimator(new[drawn], reference[drawn])
            least = number_text(found.min().item(), 2)
            rows.append((name, f"{exact:.4f}", kind, f"{found.mean():.4f}", number_text(found.std().item(), 2), least))
    said = f"{DRAWS:,} tokens drawn from the new policy over 12 letters"
    return columns("reference | exact KL | estimator | its mean | standard deviation | least value", rows, said)


def draw_clip(clip: float = 0.2, sign: str = "right") -> Picture:
    """Loss and gradient of one token by its ratio, for a positive or a negative advantage."""
    worth = torch.tensor([1.0 if sign == "right" else -1.0], dtype=torch.float64)
    new = torch.tensor(RATIOS, dtype=torch.float64).log()[:, None].requires_grad_()
    old, seen = torch.zeros_like(new), torch.ones_like(new, dtype=torch.bool)
    loss = policy.clipped_losses(new, old, worth.expand(len(new)), seen, clip)[:, 0]
    slope = torch.autograd.grad(loss.sum(), new)[0][:, 0]
    figure, axes = style.new(2.9)
    axes.plot(RATIOS, loss.detach(), color=palette.BLUE, linewidth=2, label="loss")
    axes.plot(RATIOS, slope, color=palette.VERMILION, linewidth=1.6, linestyle="--", label="gradient by log p")
    for edge in (1 - clip, 1 + clip):
        axes.axvline(edge, color=style.SOFT, linewidth=0.8)
    axes.set_ylim(-2.2, 2.2)
    style.dress(axes, f"one token of a {sign} answer", "ratio of probabilities, new over old", "value", grid="y")
    axes.legend(frameon=False, fontsize=style.SMALL, loc="upper left", ncol=2, labelcolor=style.INK)
    flat = [ratio for ratio, each in zip(RATIOS, slope, strict=True) if each == 0]
    figure.alt = (
        f"Loss of a token with advantage {worth[0]:+.0f} over its ratio from {RATIOS[0]:.1f} to {RATIOS[-1]:.0f}, clip "
        f"{clip:g}. The gradient is zero from {min(flat):.2f} to {max(flat):.2f} and not outside it."
    )
    return figure


def learning_curve() -> Picture:
    """The mean reward of each step in the newest evidence of `course run posttrain`, one's own before the recorded."""
    _, _, content = next(evidence.found("posttraining"))
    setup, rows = content["setup"], content["raw"]["rows"]
    rewards = [row["reward"] for row in rows]
    where = f"{setup['trainers']} + {setup['generators']} processes" if setup["generators"] else "one process"
    found = content["measured"]
    alt = (
        f"Mean reward of each of {len(rows)} steps on {where}: {found['first_reward']:.2f} in the first tenth of the "
        f"steps, {found['last_reward']:.2f} in the last."
    )
    return curves.drawn({f"mean reward, {where}": ("reward", {"GRPO": rewards})}, alt)


def lora_table(rank: int = 16, model: str = MODEL) -> Markdown:
    """Bytes of a model's state by what is trained, in all and on each GPU of the plan under full sharding."""
    shape = facts.model(model)
    trained = lora.adapter_params(lora.matrices(shape), rank)
    base, whole = memory.weights_bytes(shape.params), memory.state_bytes(shape.params, CONVENTION)
    rows = [
        ("all weights", f"{shape.params / 1e9:.1f} billion", whole),
        (f"LoRA of rank {rank}", f"{trained / 1e6:,.0f} million", base + memory.state_bytes(trained, CONVENTION)),
    ]
    told = [(name, count, bytes_text(size), bytes_text(size / GPUS)) for name, count, size in rows]
    return columns(
        f"trained | numbers | weights, gradients, optimizer | of each of {GPUS} GPUs",
        told,
        f"{bytes_text(base)} of it: base weights",
    )


def lora_parity() -> Markdown:
    """Losses of three steps of adapters on one rank, under FSDP and under tensor parallelism, and bytes sent."""
    rows: Rows = []
    for name, ranks in (("one rank", 1), ("FSDP", 2), ("tensor parallelism", 2)):
        run = simulate(lora.small_steps, ranks, args=(name,))
        losses = " → ".join(f"{each:.9f}" for each in run.results[0])
        rows.append((name, ranks, losses, bytes_text(max(run.meter.bytes_sent) / len(run.results[0]))))
    said = (
        "float64, loss in fp32; matrices of 32 × 32 to 96 × 32, rank 4; under FSDP each rank has half of the sequences"
    )
    return columns("adapters | ranks | loss of three steps | a rank sends per step", rows, said)


def plan_table() -> Markdown:
    """The plan's GPUs post-training its 70B model: the best split for each size of a generator."""
    rows: Rows = []
    for job in map(post_plan.plan_job, (2, 4, 8)):
        best = post_plan.best_split(job)
        times = (duration_text(each, 3) for each in (best.generate, best.train, post_plan.together_seconds(job)))
        idle = percent_text(best.idle, 2)
        rows.append((f"tp {job.tp}", job.at_once, f"{best.generators} + {best.trainers}", *times, idle))
    said = f"{job.rows:,} rollouts of {job.prompt:,} + {job.reply:,} tokens, at most {post_plan.MOST} at once; bf16"
    headings = "generator | rollouts at once | GPUs that generate + train | generate | train | all in turn | idle"
    return columns(headings, rows, said)


def mismatch_table() -> Markdown:
    """Ratios between engines with the same weights: log probabilities of the same answers in float64 and in fewer
    bits."""
    trainer = tuned()
    answers = adding.write_answers(trainer, adding.QUESTIONS, 4, seed=0)
    mask = answers.mask
    exact = adding.answer_log_probs(trainer, answers.tokens).detach()
    rows: Rows = []
    for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        engine = copy.deepcopy(trainer).to(dtype)
        with torch.no_grad():
            other = adding.answer_log_probs(engine, answers.tokens).double()
        ratio = policy.ratios(exact, other, mask)[mask]
        spread = ratio.log().std().item()
        cells = (f"{ratio.min():.6f}", f"{ratio.max():.6f}", number_text(spread, 2), number_text(1000**0.5 * spread, 2))
        rows.append((name, *cells))
    said = f"{int(mask.sum()):,} tokens of answers to all questions; the last column assumes independent errors"
    return columns(
        "generator in | least ratio | largest ratio | spread of log ratio | of a sum over 1,000 tokens", rows, said
    )
