import torch
from torch.nn import functional as F


# %% right: sums over tokens, divided by all of them
def train_loop(model, optimizer, schedule, updates, limit):
    losses = []
    for micro_batches in updates:
        tokens = sum((targets != -100).sum().item() for _, targets in micro_batches)
        if not tokens:
            continue
        optimizer.zero_grad()
        total = 0.0
        for inputs, targets in micro_batches:
            logits = model(inputs)
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum") / tokens
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
        optimizer.step()
        schedule.step()
        losses.append(total)
    return losses


# %% right: the gradient is divided afterwards
def train_loop(model, optimizer, schedule, updates, limit):
    losses = []
    for micro_batches in updates:
        optimizer.zero_grad()
        total, tokens = 0.0, 0
        for inputs, targets in micro_batches:
            picked = model(inputs).log_softmax(-1).gather(-1, targets.clamp(min=0)[..., None])[..., 0]
            loss = -(picked * (targets != -100)).sum()
            loss.backward()
            total, tokens = total + loss.item(), tokens + int((targets != -100).sum())
        if tokens == 0:
            continue
        for parameter in model.parameters():
            parameter.grad /= tokens
        norm = sum(parameter.grad.square().sum() for parameter in model.parameters()).sqrt()
        for parameter in model.parameters():
            parameter.grad *= min(1.0, limit / norm.item())
        optimizer.step()
        schedule.step()
        losses.append(total / tokens)
    return losses


# %% wrong: as it was => values -  from: the card

# %% wrong: the schedule per micro-batch => values schedule-per-micro-batch  from: sums over tokens, divided by all of them
#               total += loss.item()
# +             schedule.step()
# -         schedule.step()

# %% wrong: the schedule first => values schedule-first  from: sums over tokens, divided by all of them
#           total = 0.0
# +         schedule.step()
# -         schedule.step()

# %% wrong: no schedule => values schedule-never  from: sums over tokens, divided by all of them
# -         schedule.step()

# %% wrong: clips every micro-batch => values clip-per-micro-batch  from: sums over tokens, divided by all of them
# -         torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
# +             torch.nn.utils.clip_grad_norm_(model.parameters(), limit)

# %% wrong: does not clip => values not-clipped  from: sums over tokens, divided by all of them
# -         torch.nn.utils.clip_grad_norm_(model.parameters(), limit)


# %% wrong: a mean of means => values mean-of-means  from: sums over tokens, divided by all of them
# -         if not tokens:
# -             continue
# ~ targets.flatten(), reduction="sum") / tokens ==> targets.flatten()) / len(micro_batches)

# %% wrong: the ignored targets count => values padding-counted  from: sums over tokens, divided by all of them
# ~ (targets != -100).sum().item ==> targets.numel

# %% wrong: sums alone => values not-divided  from: sums over tokens, divided by all of them
# ~ reduction="sum") / tokens ==> reduction="sum")

# %% wrong: an update for every micro-batch => values step-per-micro-batch  from: sums over tokens, divided by all of them
# -         torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
# -         optimizer.step()
# +             torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
# +             optimizer.step()
# +             optimizer.zero_grad()

# %% wrong: an entry without a token divides by zero => generality empty-not-skipped  from: sums over tokens, divided by all of them
# -         if not tokens:
# -             continue

# %% wrong: the schedule moves on where nothing happens => generality empty-moves-schedule  from: sums over tokens, divided by all of them
#           if not tokens:
# +             schedule.step()

# %% wrong: a loss for what was skipped => generality other-count  from: sums over tokens, divided by all of them
#           if not tokens:
# +             losses.append(0.0)

# %% wrong: no step => values nothing-moves  from: sums over tokens, divided by all of them
# -         optimizer.step()

# %% wrong: the last micro-batch's loss => values other-loss  from: sums over tokens, divided by all of them
# ~ total += loss ==> total = loss


# %% wrong: left as it is => not-answered  from: sums over tokens, divided by all of them
# ~ losses = [] ==> raise NotImplementedError
