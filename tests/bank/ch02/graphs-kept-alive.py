import torch
from torch.nn import functional as F


# %% right: backward at once, divided at the end
def train_step(model, batches):
    total, tokens = 0.0, 0
    for inputs, targets in batches:
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=-100, reduction="sum")
        loss.backward()
        total += loss.item()
        tokens += (targets != -100).sum().item()
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad /= tokens
    return total / tokens


# %% right: the tokens are counted first  from: backward at once, divided at the end
# -     total, tokens = 0.0, 0
# +     batches, total = list(batches), 0.0
# +     tokens = sum(int((targets != -100).sum()) for _, targets in batches)
# ~ reduction="sum") ==> reduction="sum") / tokens
# -         tokens += (targets != -100).sum().item()
# -     for parameter in model.parameters():
# -         if parameter.grad is not None:
# -             parameter.grad /= tokens
# ~ return total / tokens ==> return total


# %% right: means, weighted by their tokens
def train_step(model, batches):
    parameters = [p for p in model.parameters() if p.requires_grad]
    sums, loss, tokens = [torch.zeros_like(p) for p in parameters], 0.0, 0
    for inputs, targets in batches:
        count = int((targets != -100).sum())
        if not count:
            continue
        mean = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        for into, grad in zip(sums, torch.autograd.grad(mean, parameters)):
            into += grad * count
        loss, tokens = loss + mean.detach().item() * count, tokens + count
    for parameter, grad in zip(parameters, sums):
        parameter.grad = grad / tokens
    return loss / tokens


# %% wrong: the program in the statement => raised  from: the card


# %% wrong: the mean of means => values mean-of-means
def train_step(model, batches):
    total = 0.0
    for inputs, targets in batches:
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()) / len(batches)
        loss.backward()
        total += loss.item()
    return total


# %% wrong: never divided => values never-divided  from: backward at once, divided at the end
# ~ grad /= tokens ==> grad /= 1

# %% wrong: padding counts => values padding-counted  from: backward at once, divided at the end
# ~ (targets != -100).sum().item ==> targets.numel

# %% wrong: divided by the tokens so far => values running-count  from: the loss is detached
# -         total += F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum").item()
#           tokens += (targets != -100).sum().item()
# +         loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum")
# +         (loss / tokens).backward()
# +         total += loss.item()

# %% wrong: gradients are divided in the loop => values -  from: backward at once, divided at the end
# ~ ignore_index=-100, reduction ==> reduction
# -     for parameter in model.parameters():
# -         if parameter.grad is not None:
# +         for parameter in model.parameters():

# %% wrong: gradients set to zero in the loop => values last-only-over-all  from: backward at once, divided at the end
#           loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=-100, reduction="sum")
# +         model.zero_grad()


# %% wrong: the loss is detached => values no-gradients
def train_step(model, batches):
    total, tokens = 0.0, 0
    for inputs, targets in batches:
        total += F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum").item()
        tokens += (targets != -100).sum().item()
    return total / tokens


# %% wrong: a tensor with its graph => values a-tensor  from: backward at once, divided at the end
# ~ total += loss.item() ==> total = total + loss

# %% wrong: graphs retained => cost graphs-kept-alive  from: backward at once, divided at the end
# - def train_step(model, batches):
# + kept = []
# + def train_step(model, batches):
# +     kept.clear()
# ~ loss.backward() ==> loss.backward(retain_graph=True)
# ~ total += loss.item() ==> kept.append(loss)
# ~ total / tokens ==> sum(kept).item() / tokens


# %% wrong: all micro-batches in one, padded => cost graphs-kept-alive
def train_step(model, batches):
    batches = list(batches)
    longest = max(inputs.shape[1] for inputs, _ in batches)
    inputs = torch.cat([F.pad(x, (0, longest - x.shape[1])) for x, _ in batches])
    targets = torch.cat([F.pad(t, (0, longest - t.shape[1]), value=-100) for _, t in batches])
    loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
    loss.backward()
    return loss.item()


# %% wrong: a mean of a micro-batch without tokens => generality -  from: the mean of means
#   def train_step(model, batches):
# +     batches = list(batches)
# +     tokens = sum((targets != -100).sum().item() for _, targets in batches)
# ~ / len(batches) ==> * (targets != -100).sum().item() / tokens

# %% wrong: goes through the batches twice => generality -  from: the mean of means
#   def train_step(model, batches):
# +     tokens = sum((targets != -100).sum().item() for _, targets in batches)
# -         loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()) / len(batches)
# +         loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum") / tokens

# %% half: graphs retained => 5  from: graphs retained

# %% half: the right loss alone => 1  from: never divided

# %% wrong: eight micro-batches at most => generality -  from: backward at once, divided at the end
# ~ in batches: ==> in list(batches)[:8]:
