import math

import torch


# %% right: the experts' squares are reduced
def global_norm(comm, dense, experts, copies):
    def squares(gradients):
        return sum((g.double().square().sum().item() for g in gradients), 0.0)

    total = torch.tensor(squares(experts), dtype=torch.float64)
    comm.all_reduce(total)
    return math.sqrt(squares(dense) + total.item() / copies)


# %% right: all squares, weighted by their copies
def global_norm(comm, dense, experts, copies):
    total = torch.zeros((), dtype=torch.float64)
    for gradients, held in ((dense, comm.size), (experts, copies)):
        for g in gradients:
            total += g.to(torch.float64).pow(2).sum() / held
    comm.all_reduce(total)
    return float(total.sqrt())


# %% wrong: every rank for itself => values own-experts  from: the experts' squares are reduced
# -     comm.all_reduce(total)
# -     return math.sqrt(squares(dense) + total.item() / copies)
# +     return math.sqrt(squares(dense) + total.item())

# %% wrong: norms are averaged => values mean-of-norms  from: the experts' squares are reduced
#       total = torch.tensor(squares(experts), dtype=torch.float64)
# +     total = (total + squares(dense)).sqrt()
# ~ math.sqrt(squares(dense) + total.item() / copies) ==> total.item() / comm.size

# %% wrong: every copy counts => values every-copy  from: the experts' squares are reduced
# ~ (squares(dense) + total.item() / copies) ==> (squares(dense) + total.item())

# %% wrong: dense gradients once a rank => values dense-often  from: all squares, weighted by their copies
# ~ comm.size), (experts, copies ==> 1), (experts, 1

# %% wrong: dense gradients once a set => values dense-per-set  from: all squares, weighted by their copies
# ~ comm.size ==> copies

# %% wrong: without the experts => values no-experts  from: the experts' squares are reduced
# ~ (squares(dense) + total.item() / copies) ==> (squares(dense))

# %% wrong: the sum of squares => values squared  from: the experts' squares are reduced
# ~ math.sqrt(squares(dense) + total.item() / copies) ==> squares(dense) + total.item() / copies

# %% wrong: squares in the gradients' dtype => values -  from: the experts' squares are reduced
# ~ double().square ==> square

# %% wrong: squares in fp32 and the total in bf16 => values -  from: the experts' squares are reduced
# ~ double().square().sum ==> float().square().sum().bfloat16

# %% wrong: gradients are gathered => cost too-many-bytes  from: the experts' squares are reduced
# -     total = torch.tensor(squares(experts), dtype=torch.float64)
# -     comm.all_reduce(total)
# -     return math.sqrt(squares(dense) + total.item() / copies)
# +     flat = torch.cat([torch.zeros(1), *[g.float().flatten() for g in experts]])
# +     every = torch.zeros(comm.size * len(flat))
# +     comm.all_gather_into_tensor(every, flat)
# +     return math.sqrt(squares(dense) + squares([every]) / copies)

# %% wrong: a list must not be empty => generality raised  from: the experts' squares are reduced
# ~ sum((g.double().square().sum().item() for g in gradients), 0.0) ==> torch.stack([g.double().square().sum() for g in gradients]).sum().item()

# %% wrong: a tensor comes back => values not-a-float  from: the experts' squares are reduced
# ~ math.sqrt(squares(dense) + total.item() / copies) ==> (squares(dense) + total / copies).sqrt()

# %% wrong: squared in place => values changed  from: the experts' squares are reduced
# ~ double().square ==> square_().double

# %% wrong: a rank without experts does not reduce => generality -  from: the experts' squares are reduced
# -     comm.all_reduce(total)
# +     if experts:
# +         comm.all_reduce(total)

# %% wrong: vectors alone => values ~  from: the experts' squares are reduced
# ~ g.double().square().sum().item() ==> (g.double() @ g.double()).item()

# %% wrong: the first norm of these shapes is kept => values -  from: the experts' squares are reduced
# - def global_norm(comm, dense, experts, copies):
# + def global_norm(comm, dense, experts, copies, kept={}):
# -     return math.sqrt(squares(dense) + total.item() / copies)
# +     shapes = str([each.shape for each in (*dense, *experts)])
# +     return kept.setdefault((shapes, copies), math.sqrt(squares(dense) + total.item() / copies))

# %% wrong: squares of fp64 in the gradient itself => generality changed  from: the experts' squares are reduced
# ~ square() ==> square_()
