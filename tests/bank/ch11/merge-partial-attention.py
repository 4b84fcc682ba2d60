import math

import torch


# %% right: all parts at once
def merge_parts(parts):
    outputs = torch.stack([output for output, _ in parts])
    log_sums = torch.stack([log_sum for _, log_sum in parts])
    total = torch.logsumexp(log_sums, 0)
    shares = torch.where(log_sums == -math.inf, 0.0, (log_sums - total).exp())
    outputs = torch.where((log_sums == -math.inf).unsqueeze(-1), 0.0, outputs)
    return (shares.unsqueeze(-1) * outputs).sum(0), total


# %% right: a softmax of the log-sums  from: all parts at once
# ~ torch.where(log_sums == -math.inf, 0.0, (log_sums - total).exp()) ==> log_sums.softmax(0).nan_to_num(0.0)


# %% wrong: exponentials without a maximum => generality not-finite
def merge_parts(parts):
    total = sum(log_sum.exp() for _, log_sum in parts)
    output = sum(
        torch.where((log_sum == -math.inf).unsqueeze(-1), 0.0, one * log_sum.exp().unsqueeze(-1))
        for one, log_sum in parts
    )
    return torch.where((total == 0).unsqueeze(-1), 0.0, output / total.unsqueeze(-1)), total.log()


# %% wrong: the mean of the parts => values plain-mean  from: all parts at once
# ~ (shares.unsqueeze(-1) * outputs).sum(0) ==> outputs.mean(0)

# %% wrong: a NaN of an unseen part stays => generality not-finite  from: all parts at once
# ~ torch.where((log_sums == -math.inf).unsqueeze(-1), 0.0, outputs) ==> outputs * 1

# %% wrong: a query that sees nothing => generality not-finite  from: all parts at once
# ~ torch.where(log_sums == -math.inf, 0.0, (log_sums - total).exp()) ==> (log_sums - total).exp()

# %% wrong: the largest log-sum => values largest  from: all parts at once
# ~ (0), total ==> (0), log_sums.amax(0)

# %% wrong: the logs are added => values sum-of-logs  from: all parts at once
# ~ (0), total ==> (0), log_sums.sum(0)

# %% wrong: the outputs are added => values plain-sum  from: all parts at once
# ~ (shares.unsqueeze(-1) * outputs) ==> outputs

# %% wrong: the log-sum of nothing is a large number => generality not-minus-infinity  from: all parts at once
# ~ (0), total ==> (0), total.clamp(min=-1e30)

# %% wrong: in place => values changed  from: all parts at once
# ~ output for ==> output.nan_to_num_(0.0).mul_(2) / 2 for

# %% wrong: an output counts where no part was seen => generality -  from: all parts at once
# ~ where(log_sums == -math.inf, 0.0, (log_sums - total).exp()) ==> softmax(log_sums.clamp(min=-1e30), 0)
# ~ torch.where((log_sums == -math.inf).unsqueeze(-1), 0.0, outputs) ==> outputs.nan_to_num(0.0, posinf=0.0)

# %% wrong: only NaN is set to zero => generality not-finite  from: all parts at once
# ~ (log_sums == -math.inf).unsqueeze(-1) ==> outputs.isnan()

# %% wrong: one part comes back as it is => generality not-finite  from: all parts at once
#   def merge_parts(parts):
# +     if len(parts) == 1:
# +         return parts[0][0].clone(), parts[0][1].clone()

# %% wrong: an unseen part weighs as one of -9000 => generality ~  from: all parts at once
# ~ where(log_sums == -math.inf, 0.0, (log_sums - total).exp()) ==> softmax(log_sums.nan_to_num(neginf=-9e3), 0)

# %% wrong: sixty-four parts at most => generality -  from: all parts at once
# ~ for output, _ in parts]) ==> for output, _ in parts[:64]])
# ~ for _, log_sum in parts]) ==> for _, log_sum in parts[:64]])
