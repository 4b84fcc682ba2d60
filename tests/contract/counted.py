"""A training step with its memory counted: what tests of pictures draw."""

from functools import cache

import torch

from course_lib.model.accounting import Accounting


@cache
def an_account() -> Accounting:
    """Two steps of one layer."""
    with Accounting(history=True) as account:
        layer = torch.nn.Linear(64, 64)
        optimizer = torch.optim.AdamW(layer.parameters())
        for step in (1, 2):
            loss = layer(torch.ones(8, 64)).sum()
            account.mark(f"forward {step}")
            loss.backward()
            account.mark(f"backward {step}")
            optimizer.step()
            optimizer.zero_grad()
            account.mark(f"step {step}")
    return account
