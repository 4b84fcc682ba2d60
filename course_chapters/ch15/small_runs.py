"""Small trainings whose gradient norms and learning rates chapter 15 reads."""

import torch

from course_lib.model import text
from course_lib.model.transformer import Config, build, loss
from course_runs.learning_rate import rate_at

STEPS, RESUMED, NOISE = 60, 30, 42  # the step after the resume, and that of the batch of noise


def traced(fault: str) -> tuple[list[float], list[float]]:
    """Gradient norms before clipping, and learning rates, of a run that is "sound", has "noise" in one batch, or
    resumes with its "schedule lost"."""
    model, norms, rates = build(Config(layers=1)), [], []
    adam = torch.optim.AdamW(model.parameters())
    for step in range(STEPS):
        lost = fault == "schedule lost" and step >= RESUMED
        rates.append(rate_at(step - RESUMED if lost else step, 2e-2, 12, STEPS))
        adam.param_groups[0]["lr"] = rates[-1]
        inputs, targets = text.batch(step, 8, 32)
        if fault == "noise" and step == NOISE:
            targets = torch.randint(0, 64, targets.shape, generator=torch.Generator().manual_seed(15))
        loss(model(inputs), targets).backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())
        adam.step()
        adam.zero_grad()
    return norms, rates
