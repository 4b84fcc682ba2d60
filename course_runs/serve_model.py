"""Models for `./course run serve`: a small one that learns the course's stories in seconds, and larger ones that have
learned nothing."""

import hashlib
import time
from dataclasses import asdict
from pathlib import Path

import torch

from course_lib.folders import folders
from course_lib.messages import Trouble
from course_lib.model import text, training, transformer
from course_lib.model.optimizer import AdamW
from course_lib.model.transformer import Config, Transformer
from course_runs import sizes

CONTEXT = 256
STORY = Config(vocab=64, layers=4, hidden=128, heads=4, kv_heads=2, seq_len=CONTEXT)
STEPS, SEQUENCES, RATE = 150, 2, 3e-3  # of the story model's training
NAMES = ("story", *(name for name, size in sizes.SIZES.items() if size.vocab == STORY.vocab))


def load(name: str, device: torch.device | str = "cpu", folder: Path | None = None) -> Transformer:
    """The model with this name. The story model is trained once and then kept in `folder`; Trouble lists the names."""
    if name not in NAMES:
        raise Trouble(f"There is no model {name!r} to serve.", f"choose from {', '.join(NAMES)}")
    if name != "story":
        return transformer.build(sizes.size(name).config(CONTEXT)).to(device).eval()
    model = transformer.build(STORY)
    words = repr((sorted(asdict(STORY).items()), STEPS, SEQUENCES, RATE, text.text())).encode()
    path = (folder or folders().work / ".course") / f"story-{hashlib.sha256(words).hexdigest()[:12]}.pt"
    if path.exists():
        model.load_state_dict(torch.load(path, weights_only=True))
    else:
        print(f"serve: the story model learns the course's text, {STEPS} steps, once", flush=True)
        begun = time.perf_counter()
        found = training.train(model, AdamW(model.parameters(), lr=RATE), STEPS, SEQUENCES, rate=_rate)
        print(
            f"serve: loss {found.losses[0]:.2f} to {found.final:.2f} nats per token in "
            f"{time.perf_counter() - begun:.1f} s"
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        torch.save(model.state_dict(), part)
        part.replace(path)
    return model.to(device).eval()


def _rate(step: int) -> float:
    """The learning rate of a step: warm-up, then down to a twentieth."""
    return RATE * min(1.0, step / 20) * max(0.05, 1 - step / STEPS)
