import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint as again


# %% right: a checkpoint around each chunk
def chunked_cross_entropy(hidden, weight, targets, chunks):
    def part(h, w, t):
        return F.cross_entropy(h @ w.T, t, ignore_index=-100, reduction="sum")

    total = 0
    for h, t in zip(hidden.chunk(chunks), targets.chunk(chunks)):
        total = total + again(part, h, weight, t, use_reentrant=False)
    return total / (targets != -100).sum()


# %% right: both gradients while the logits are there
class Chunked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, targets, chunks):
        counts = targets != -100
        number = counts.sum()
        loss, grads, into = hidden.new_zeros(()), [], torch.zeros_like(weight)
        for h, t, c in zip(hidden.chunk(chunks), targets.chunk(chunks), counts.chunk(chunks)):
            logits = h @ weight.T
            logits -= logits.max(1, keepdim=True).values
            rows = torch.arange(len(t))
            t = t.clamp(min=0)
            picked = logits[rows, t].clone()
            logits.exp_()
            norm = logits.sum(1, keepdim=True)
            loss += ((norm.squeeze(1).log() - picked) * c).sum()
            logits /= norm
            logits[rows, t] -= 1
            logits *= c.unsqueeze(1)
            grads.append(logits @ weight)
            into += logits.T @ h
        ctx.save_for_backward(torch.cat(grads) / number, into / number)
        return loss / number

    @staticmethod
    def backward(ctx, grad):
        hidden, weight = ctx.saved_tensors
        return (
            hidden * grad if ctx.needs_input_grad[0] else None,
            weight * grad if ctx.needs_input_grad[1] else None,
            None,
            None,
        )


def chunked_cross_entropy(hidden, weight, targets, chunks):
    return Chunked.apply(hidden, weight, targets, chunks)


# %% right: any variant  from: a checkpoint around each chunk
#   def chunked_cross_entropy(hidden, weight, targets, chunks):
# +     from course_lib import params
# +     counted = (targets != -100).sum() if params("chunked-cross-entropy").reduction == "mean" else 1
# ~ total / (targets != -100).sum() ==> total / counted


# %% right: chunks of the vocabulary
class Words(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, targets, chunks):
        tokens, counts, at = len(hidden), targets != -100, 0
        top, norm, picked = torch.full((tokens,), -torch.inf), torch.zeros(tokens), torch.zeros(tokens)
        for part in weight.chunk(chunks):
            logits = hidden @ part.T
            higher = torch.maximum(top, logits.max(1).values)
            norm = norm * (top - higher).exp() + (logits - higher[:, None]).exp().sum(1)
            rows = ((targets >= at) & (targets < at + len(part))).nonzero().squeeze(1)
            picked[rows] = logits[rows, targets[rows] - at]
            top, at = higher, at + len(part)
        ctx.save_for_backward(hidden, weight, targets, top + norm.log())
        ctx.chunks = chunks
        return ((top + norm.log() - picked) * counts).sum() / counts.sum()

    @staticmethod
    def backward(ctx, grad):
        hidden, weight, targets, total = ctx.saved_tensors
        scale = (grad * (targets != -100) / (targets != -100).sum())[:, None]
        into, slopes, at = torch.zeros_like(hidden), [], 0
        for part in weight.chunk(ctx.chunks):
            slope = (hidden @ part.T - total[:, None]).exp()
            rows = ((targets >= at) & (targets < at + len(part))).nonzero().squeeze(1)
            slope[rows, targets[rows] - at] -= 1
            slope *= scale
            into += slope @ part
            slopes.append(slope.T @ hidden)
            at += len(part)
        return (
            into if ctx.needs_input_grad[0] else None,
            torch.cat(slopes) if ctx.needs_input_grad[1] else None,
            None,
            None,
        )


def chunked_cross_entropy(hidden, weight, targets, chunks):
    return Words.apply(hidden, weight, targets, chunks)


# %% right: logits in double inside a checkpoint  from: a checkpoint around each chunk
# ~ (h @ w.T, t, ignore_index=-100, reduction="sum") ==> ((h @ w.T).double(), t, reduction="sum").float()

# %% right: softmax by hand in float32  from: a checkpoint around each chunk
# -         return F.cross_entropy(h @ w.T, t, ignore_index=-100, reduction="sum")
# +         logits = h @ w.T
# +         shifted = logits - logits.amax(1, keepdim=True)
# +         probs = shifted.exp() / shifted.exp().sum(1, keepdim=True)
# +         picked = shifted.gather(1, t.clamp(min=0)[:, None]).squeeze(1)
# +         parts = shifted.exp().sum(1).log() - picked
# +         assert probs.shape == logits.shape
# +         return (parts * (t != -100)).sum()


# %% wrong: targets are changed in place => values inputs-changed  from: both gradients while the logits are there
# ~ t.clamp( ==> t.clamp_(

# %% wrong: chunks of one size, the rest is left out => generality -  from: a checkpoint around each chunk
# -     for h, t in zip(hidden.chunk(chunks), targets.chunk(chunks)):
# +     size = len(targets) // chunks
# +     for h, t in zip(hidden[: chunks * size].split(size), targets[: chunks * size].split(size)):


# %% wrong: the plain loss => cost whole-logits
def chunked_cross_entropy(hidden, weight, targets, chunks):
    return F.cross_entropy(hidden @ weight.T, targets)


# %% wrong: the mean of means => values mean-of-means  from: a checkpoint around each chunk
# ~ t, ignore_index=-100, reduction="sum") ==> t)
# ~ (targets != -100).sum() ==> chunks

# %% wrong: padding counts => values all-tokens  from: a checkpoint around each chunk
# ~ (targets != -100).sum() ==> len(targets)

# %% wrong: the sum => values sum-for-mean unless reduction=sum  from: a checkpoint around each chunk
# ~ total / (targets != -100).sum() ==> total

# %% wrong: over the chunks => values chunks-for-tokens  from: a checkpoint around each chunk
# ~ (targets != -100).sum() ==> chunks

# %% wrong: one chunk => values first-chunk  from: a checkpoint around each chunk
# -     total = 0
# +     hidden, targets = hidden.chunk(chunks)[0], targets.chunk(chunks)[0]
# +     chunks, total = 1, 0

# %% wrong: a number => values not-a-tensor  from: a checkpoint around each chunk
# ~ total / (targets != -100).sum ==> (total / (targets != -100).sum()).item

# %% wrong: no gradient => values no-graph  from: a checkpoint around each chunk
# ~ total = 0 ==> total, hidden, weight = 0, hidden.detach(), weight.detach()

# %% wrong: the hidden states are cut off => values no-gradient  from: a checkpoint around each chunk
# ~ part, h, weight, ==> part, h.detach(), weight,

# %% wrong: the weight's gradient of the last chunk only => values -  from: both gradients while the logits are there
# ~ into += logits ==> into = logits

# %% wrong: padded tokens send gradients => values -  from: both gradients while the logits are there
# -             logits *= c.unsqueeze(1)

# %% wrong: what comes in is ignored => generality incoming-ignored  from: both gradients while the logits are there
# ~ hidden * grad if ==> hidden if
# ~ weight * grad if ==> weight if

# %% wrong: exp without the largest => generality overflow  from: both gradients while the logits are there
# -             logits -= logits.max(1, keepdim=True).values

# %% wrong: only where the chunks divide the tokens => generality raised  from: a checkpoint around each chunk
#       total = 0
# +     assert len(targets) % chunks == 0

# %% wrong: a mean of a chunk without tokens => cost nan  from: a checkpoint around each chunk
# ~ t, ignore_index=-100, reduction="sum" ==> t
# ~ (part, h, weight, t, use_reentrant=False) ==> (part, h, weight, t, use_reentrant=False) * (t != -100).sum()

# %% wrong: both must need gradients => generality raised  from: both gradients while the logits are there
#           hidden, weight = ctx.saved_tensors
# +         assert all(ctx.needs_input_grad[:2])


# %% wrong: one checkpoint around everything => cost whole-logits
def chunked_cross_entropy(hidden, weight, targets, chunks):
    return again(lambda h, w: F.cross_entropy(h @ w.T, targets), hidden, weight, use_reentrant=False)


# %% wrong: chunks, but autograd keeps them => cost whole-logits  from: a checkpoint around each chunk
# -     def part(h, w, t):
# -         return F.cross_entropy(h @ w.T, t, ignore_index=-100, reduction="sum")
# ~ again(part, h, weight, t, use_reentrant=False) ==> F.cross_entropy(h @ weight.T, t, reduction="sum")

# %% half: a plain loss => 7.5  from: the plain loss

# %% half: the loss alone => 2.5  from: a checkpoint around each chunk
# ~ h, weight, t, ==> h, weight.detach(), t,

# %% half: no room left for large logits => 18.75  from: exp without the largest

# %% wrong: always sixteen chunks => generality -  from: a checkpoint around each chunk
# ~ total = 0 ==> total, chunks = 0, 16
