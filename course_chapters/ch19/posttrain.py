"""`course run posttrain`: a small model learns to add from rewards, on one process or on trainers and generators."""

from __future__ import annotations

import argparse
import math
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from statistics import fmean

from course_chapters.ch19 import adding
from course_chapters.ch19.adding import Plan, Step
from course_lib.cluster import Comm
from course_lib.cluster.errors import Unfinished
from course_lib.estimate.units import MINUTE, bytes_text, percent_text, require
from course_lib.messages import Trouble, count_text
from course_runs import evidence
from course_runs.real_ranks import launch

EVERY = 25  # steps between two lines of progress
TOLERANCE = 0.02  # of a step's mean reward: several ranks add in another order, and a rounding can change an answer
MINUTES = 20.0  # that a run may take
NOTHING = "nothing is kept, because evidence is written after the last step"
EXAMPLES = """\
examples:
  course run posttrain                                          one process, about half a minute of CPU time
  course run posttrain --trainers 2 --generators 2 --compare    the same rewards on four processes
  course run posttrain --lora 8 --rate 0.01                     train adapters alone, and send only them
  course run posttrain --dry                                    what it would do
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run what the command line says: 0 where it went well, 1 where processes disagree, 2 where it was refused, 124
    where it took too long."""
    given = _arguments(argv)
    try:
        fields = {name: value for name, value in vars(given).items() if name in Plan.__dataclass_fields__}
        plan, minutes = Plan(**fields), require("minutes", given.minutes, "min")
        if given.compare and not plan.generators:
            raise ValueError("--compare needs several processes; give --generators as well.")
        print(_said(plan), flush=True)
        if given.dry:
            return 0
        content, apart = measured(plan, given.compare, minutes * MINUTE)
    except Unfinished:
        print(f"posttrain: stopped after {minutes:g} minutes; {NOTHING}.", file=sys.stderr)
        return 124
    except (Trouble, ValueError) as trouble:
        print(f"posttrain: {trouble}", file=sys.stderr)
        return 2
    found = content["measured"]
    print(
        f"Right answers: {percent_text(found['accuracy_before'])} before, {percent_text(found['accuracy_after'])} "
        f"after; {percent_text(found['writing_share'])} of the time went into writing."
    )
    if content["setup"]["compared"]:
        print(f"Rewards of one process and of all differ by at most {apart:.3g}; {TOLERANCE} may be rounding.")
    if given.out:
        print(evidence.write(content, given.out, f"posttrain-{evidence.stamp()}"))
    return int(apart > TOLERANCE)


@dataclass
class _Limit:
    """When a run ends before its last step: at a deadline, or after Ctrl-C."""

    deadline: float = math.inf
    interrupted: bool = False

    def kept(self, steps: Iterable[Step]) -> Iterator[Step]:
        """The steps, until it is time to end."""
        for step in steps:
            if self.interrupted:  # Python drops an exception that is raised while it loads a module
                raise KeyboardInterrupt
            if time.monotonic() > self.deadline:
                raise Unfinished(f"Step {step.number + 1} ended after the deadline.")
            yield step

    @contextmanager
    def told_at_once(self) -> Iterator[None]:
        """A context in which Ctrl-C says that the run stops before it ends processes; a second one acts as usual."""

        def told(number: int, frame: object) -> None:
            signal.signal(signal.SIGINT, before)
            self.interrupted = True
            print(f"\nposttrain: stops; {NOTHING}.", file=sys.stderr, flush=True)
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGINT, told)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def measured(plan: Plan, compare: bool = False, seconds: float = MINUTES * MINUTE) -> tuple[evidence.Evidence, float]:
    """The evidence of a run, and the largest difference of a reward from one process's where both ran.

    Unfinished after so many seconds.
    """
    limit = _Limit(time.monotonic() + seconds)
    ranks = plan.trainers + plan.generators if plan.generators else 1
    with limit.told_at_once():
        if plan.generators:
            result = launch(_work, ranks, (plan, _Limit()), timeout=seconds).results[0]
        else:
            result = _work(None, plan, limit)
        rows, before, after = result["rows"], result["before"], result["after"]
        apart = 0.0
        if compare and plan.generators:
            alone = adding.reinforce(adding.prepared(plan), replace(plan, trainers=1, generators=0))
            pairs = zip(limit.kept(alone), rows, strict=True)
            apart = max(abs(one.reward - row["reward"]) for one, row in pairs)
    writing, training = (sum(row[name] for row in rows) for name in ("writing", "training"))
    tenth = max(len(rows) // 10, 1)
    content = evidence.evidence(
        "posttraining",
        setup={**asdict(plan), "ranks": ranks, "compared": compare and ranks > 1},
        predicted={"weight_bytes": weight_bytes(plan), "answers": plan.steps * plan.questions * plan.group},
        measured={
            "first_reward": fmean(row["reward"] for row in rows[:tenth]),
            "last_reward": fmean(row["reward"] for row in rows[-tenth:]),
            "accuracy_before": before,
            "accuracy_after": after,
            "writing_share": writing / (writing + training),
            **({"largest_difference": apart} if compare and ranks > 1 else {}),
        },
        raw={"rows": rows},
        notes=("The seconds are those of rank 0; on several ranks its writing time is what it waits for answers.",),
    )
    return content, apart


def weight_bytes(plan: Plan) -> int:
    """Bytes of the trained weights in float64, which generators receive in every step."""
    model = adding.build(adding.CONFIG).double()
    if plan.lora:
        adding.lora.add_lora(model, plan.lora, 1.0)
    return sum(each.nbytes for each in model.parameters() if each.requires_grad)


def _work(comm: Comm | None, plan: Plan, limit: _Limit) -> dict[str, object]:
    """A rank's part: fine-tune, then GRPO; rank 0 prints its progress."""
    model = adding.prepared(plan)
    before, rows = adding.accuracy(model), []
    for step in limit.kept(adding.reinforce(model, plan, comm)):
        rows.append(step._asdict())
        if (comm is None or comm.rank == 0) and (step.number % EVERY == 0 or step.number == plan.steps - 1):
            print(progress(step, plan), flush=True)
    return {"rows": rows, "before": before, "after": adding.accuracy(model)}


def progress(step: Step, plan: Plan) -> str:
    """One step in a line, with a bar for its mean reward."""
    return f"step {step.number + 1:4} of {plan.steps}  reward {step.reward:5.3f}  {'█' * round(30 * step.reward)}"


def _said(plan: Plan) -> str:
    what = f"adapters of rank {plan.lora}" if plan.lora else "all weights"
    where = (
        f"{count_text(plan.trainers, 'trainer')} and {count_text(plan.generators, 'generator')}, which get "
        f"{bytes_text(weight_bytes(plan))} in every step"
        if plan.generators
        else "one process"
    )
    return (
        f"{count_text(plan.tuned_steps, 'step')} of fine-tuning, then {count_text(plan.steps, 'step')} of GRPO with "
        f"{plan.questions} questions × {plan.group} answers; trains {what}; on {where}."
    )


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="course run posttrain",
        description="Fine-tune a small model on sums of two digits, then let it learn from rewards with GRPO.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add, plan = parser.add_argument, Plan()
    add("--steps", type=int, default=plan.steps, help=f"steps of GRPO (default: {plan.steps})")
    add("--questions", type=int, default=plan.questions, help=f"questions in a step (default: {plan.questions})")
    add("--group", type=int, default=plan.group, help=f"answers to each question (default: {plan.group})")
    add("--updates", type=int, default=plan.updates, help="how often a step learns from its answers (default: 1)")
    add("--lora", type=int, default=plan.lora, help="rank of adapters; 0: train all weights (default: 0)")
    add("--rate", type=float, default=plan.rate, help=f"learning rate of GRPO (default: {plan.rate})")
    add("--beta", type=float, default=plan.beta, help="weight of the KL from the fine-tuned model (default: 0)")
    add("--trainers", type=int, default=plan.trainers, help="processes that train (default: 1)")
    add("--generators", type=int, default=plan.generators, help="processes that write answers; 0: the trainer does")
    add("--seed", type=int, default=plan.seed, help="of weights, questions and answers (default: 0)")
    add("--compare", action="store_true", help="run one process as well, and compare the rewards")
    add("--minutes", type=float, default=MINUTES, help=f"stop after so many (default: {MINUTES:g})")
    add("--dry", action="store_true", help="say what would run, and stop")
    add("--out", default="", help="folder for the evidence")
    return parser.parse_args(argv)
