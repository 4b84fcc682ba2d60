import math

import torch


# %% right: three running quantities
def stream_attention(chunks, width):
    top, total, output = torch.tensor(-math.inf), torch.tensor(0.0), torch.zeros(width)
    for scores, values in chunks:
        if not len(scores) or scores.max() == -math.inf:
            continue
        new = torch.maximum(top, scores.max())
        old, weights = torch.exp(top - new), torch.exp(scores - new)
        total, output, top = total * old + weights.sum(), output * old + weights @ values, new
    if total == 0:
        return output, torch.tensor(-math.inf)
    return output / total, top + total.log()


# %% right: by merging pairs of results
def stream_attention(chunks, width):
    output, log_sum = torch.zeros(width), -math.inf
    for scores, values in chunks:
        here = torch.logsumexp(scores, 0).item() if len(scores) else -math.inf
        if here == -math.inf:
            continue
        both = max(here, log_sum) + math.log1p(math.exp(-abs(here - log_sum)))
        own = torch.softmax(scores, 0) @ values
        output = output * math.exp(log_sum - both) + own * math.exp(here - both)
        log_sum = both
    return output, log_sum


# %% wrong: nothing is subtracted => generality nan  from: three running quantities
# ~ torch.maximum(top, scores.max()) ==> torch.tensor(0.0)

# %% wrong: sums are not rescaled => values not-rescaled  from: three running quantities
# ~ * old + weights.sum(), output * old ==> + weights.sum(), output


# %% wrong: the mean of the chunks => values mean-of-chunks
def stream_attention(chunks, width):
    outputs, log_sum = [], torch.tensor(-math.inf)
    for scores, values in chunks:
        if len(scores) and scores.max() > -math.inf:
            outputs.append(torch.softmax(scores, 0) @ values)
            log_sum = torch.logaddexp(log_sum, torch.logsumexp(scores, 0))
    return (torch.stack(outputs).mean(0) if outputs else torch.zeros(width)), log_sum


# %% wrong: chunks are kept => values nan
def stream_attention(chunks, width):
    kept = list(chunks)
    scores = torch.cat([one for one, _ in kept])
    return torch.softmax(scores, 0) @ torch.cat([two for _, two in kept]), torch.logsumexp(scores, 0)


# %% wrong: a masked chunk gives NaN => generality nan  from: three running quantities
# ~ if not len(scores) or scores.max() == -math.inf: ==> if not len(scores):

# %% wrong: an empty chunk has no maximum => generality -  from: three running quantities
# ~ not len(scores) or scores ==> scores

# %% wrong: nothing is left => generality nan  from: three running quantities
# ~ total == 0 ==> total < 0

# %% wrong: the log is relative => values relative-log  from: three running quantities
# ~ top + total ==> total

# %% wrong: it is not divided => values not-divided  from: three running quantities
# ~ output / total, ==> output,


# %% wrong: the last chunk => values last-chunk  from: by merging pairs of results
# ~ output * math.exp(log_sum - both) + own * math.exp(here - both) ==> own

# %% wrong: half precision => values another-kind  from: three running quantities
# ~ output / total ==> (output / total).half()


# %% wrong: copies of all chunks => values kept
def stream_attention(chunks, width):
    pairs = [(scores.clone(), values.clone()) for scores, values in chunks if len(scores)]
    scores = torch.cat([torch.zeros(0), *[one for one, _ in pairs]])
    if not (scores > -math.inf).any():
        return torch.zeros(width), torch.tensor(-math.inf)
    top, weights = scores.max(), (scores - scores.max()).exp()
    return weights @ torch.cat([two for _, two in pairs]) / weights.sum(), top + weights.sum().log()


# %% wrong: the output alone => values wrong-shape  from: three running quantities
# ~ output / total, top + total.log() ==> output / total

# %% wrong: the largest score so far starts at a billion below zero => generality -  from: three running quantities
# ~ top, total, output = torch.tensor(-math.inf), ==> top, total, output = torch.tensor(-1e9),
