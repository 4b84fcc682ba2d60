import math

import torch


def told(loss, accuracy):
    return {"loss": loss, "accuracy": accuracy, "perplexity": math.exp(loss)}


# %% right: three sums
def evaluate(comm, batches):
    row = torch.zeros(3, dtype=torch.float64)
    for mean, correct, tokens in batches:
        if tokens:
            row += torch.tensor([mean * tokens, correct, tokens], dtype=torch.float64)
    comm.all_reduce(row)
    total, correct, tokens = row.tolist()
    return told(total / tokens, correct / tokens)


# %% right: float32, zero-dimensional, not a number made zero
def evaluate(comm, batches):
    total = torch.tensor(sum((0.0 if math.isnan(m) else m * t for m, c, t in batches), 0.0))
    counts = torch.tensor([sum(c for m, c, t in batches), sum(t for m, c, t in batches)])
    comm.all_reduce(total)
    comm.all_reduce(counts)
    loss = total / counts[1]
    return {"loss": loss, "accuracy": counts[0] / counts[1], "perplexity": loss.exp()}


# %% right: all_gather of three sums
def evaluate(comm, batches):
    mine = torch.tensor(
        [sum(m * t for m, c, t in batches if t), sum(c for m, c, t in batches), sum(t for m, c, t in batches)],
        dtype=torch.float64,
    )
    every = [torch.zeros_like(mine) for _ in range(comm.size)]
    comm.all_gather(every, mine)
    a, b, c = sum(every).tolist()
    return {"loss": a / c, "accuracy": b / c, "perplexity": math.exp(a / c), "tokens": c}


# %% wrong: the sum of nothing is a whole number => generality raised  from: float32, zero-dimensional, not a number made zero
# -     total = torch.tensor(sum((0.0 if math.isnan(m) else m * t for m, c, t in batches), 0.0))
# +     total = torch.tensor(sum(0.0 if math.isnan(m) else m * t for m, c, t in batches))

# %% wrong: a mean over batches => values mean-of-means  from: three sums
# ~ [mean * tokens, correct, tokens], ==> [mean, correct / tokens, 1.0],


# %% wrong: a mean over ranks => values mean-over-ranks
def evaluate(comm, batches):
    tokens = sum(t for _, _, t in batches) or 1
    row = torch.tensor([sum(m * t for m, _, t in batches if t) / tokens, sum(c for _, c, _ in batches) / tokens])
    comm.all_reduce(row, op="AVG")
    return told(*row.tolist())


# %% wrong: its own numbers => values own-numbers  from: three sums
# -     comm.all_reduce(row)

# %% wrong: a mean of perplexities => values perplexity-averaged  from: three sums
# ~ 3 ==> 4
# ~ tokens, correct, tokens ==> tokens, correct, math.exp(mean) * tokens, tokens
# ~ total, correct, tokens = row ==> loss, accuracy, perplexity = (row[:3] / row[3])
# ~ told(total / tokens, correct / tokens) ==> {"loss": loss, "accuracy": accuracy, "perplexity": perplexity}

# %% wrong: in per cent => values in-percent  from: three sums
# ~ (total / tokens, correct / tokens) ==> (total / tokens, 100 * correct / tokens)

# %% wrong: only rank 0 knows => values returned-none  from: three sums
# ~ comm.all_reduce(row) ==> comm.reduce(row, dst=0)
# -     return told(total / tokens, correct / tokens)
# +     if comm.rank == 0:
# +         return told(total / tokens, correct / tokens)

# %% wrong: not a number spreads => generality nan  from: three sums
# ~ if tokens: ==> if True:

# %% wrong: a rank without batches stays away => values deadlock  from: three sums
# -         if tokens:
# -             row += torch.tensor([mean * tokens, correct, tokens], dtype=torch.float64)
# -     comm.all_reduce(row)
# +         one = torch.tensor([mean * tokens, correct, tokens], dtype=torch.float64)
# +         comm.all_reduce(one)
# +         row += one

# %% wrong: numbers without names => values wrong-shape  from: three sums
# ~ return told(total / tokens, correct / tokens) ==> return total / tokens, correct / tokens, math.exp(total / tokens)

# %% wrong: truncated => values rounded  from: three sums
# ~ [mean * tokens, correct ==> [int(mean * tokens), correct

# %% wrong: the largest => values -  from: three sums
# ~ all_reduce(row) ==> all_reduce(row, op="MAX")

# %% wrong: two to the loss => values other-number  from: three sums
# -     return told(total / tokens, correct / tokens)
# +     return {**told(total / tokens, correct / tokens), "perplexity": 2 ** (total / tokens)}

# %% wrong: one all-reduce per batch, padded => cost lists-travel  from: a rank without batches stays away
# -     for mean, correct, tokens in batches:
# -         one = torch.tensor([mean * tokens, correct, tokens], dtype=torch.float64)
# +     most = torch.tensor(len(batches))
# +     comm.all_reduce(most, op="MAX")
# +     for step in range(int(most)):
# +         mean, correct, tokens = batches[step] if step < len(batches) else (0.0, 0, 0)
# +         one = torch.tensor([mean * tokens if tokens else 0.0, correct, tokens], dtype=torch.float64)


# %% wrong: strings => values not-a-number
def evaluate(comm, batches):
    return {"loss": "2.0", "accuracy": "0.5", "perplexity": "7"}


# %% half: not a number spreads => 4  from: not a number spreads

# %% wrong: a loss of 0 is no batch => generality other-number  from: three sums
# ~ if tokens: ==> if tokens and mean:
