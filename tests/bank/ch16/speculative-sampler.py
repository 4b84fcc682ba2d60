import torch


# %% right: as written
def verify(target, draft, guesses, rng):
    tokens, output = range(len(target[0])), []
    for p, q, guess in zip(target, draft, guesses):
        if rng.random() * q[guess] >= p[guess]:
            return output + rng.choices(tokens, [max(0.0, a - b) for a, b in zip(p, q)])
        output.append(guess)
    return output + rng.choices(tokens, target[-1])


def tokens_per_step(rate, guesses):
    return sum(rate**count for count in range(guesses + 1))


# %% right: with torch
from course_lib import params

DRAFTS = params("speculative-sampler").drafts


def verify(target, draft, guesses, rng):
    coin = torch.Generator().manual_seed(rng.randrange(2**62))
    kept = 0
    for guess in guesses:
        p = torch.tensor(target[kept])
        q = torch.tensor(draft[kept]) if DRAFTS == "sampled" else torch.eye(len(p))[guess]
        if torch.rand((), generator=coin) >= p[guess] / q[guess]:
            rest = (p - q).clamp(min=0)
            return [*guesses[:kept], int(torch.multinomial(rest / rest.sum(), 1, generator=coin))]
        kept += 1
    return [*guesses, int(torch.multinomial(torch.tensor(target[kept]), 1, generator=coin))]


def tokens_per_step(rate, guesses):
    return guesses + 1 if rate == 1 else (1 - rate ** (guesses + 1)) / (1 - rate)


# %% wrong: another token from the target => values drawn-from-target  from: as written
# ~ [max(0.0, a - b) for a, b in zip(p, q)] ==> p

# %% wrong: another token from the draft => values drawn-from-draft  from: as written
# ~ [max(0.0, a - b) for a, b in zip(p, q)] ==> q

# %% wrong: kept without chance => values greedy-accept  from: as written
# ~ if rng.random() * q[guess] >= p[guess]: ==> if q[guess] > p[guess]:

# %% wrong: the draft's probability is left out => values no-draft  from: as written
# ~ () * q[guess] >= p ==> () >= p

# %% wrong: every guess is kept => values all-kept  from: as written
# ~ rng.random() * q[guess] >= p[guess] ==> q[guess] == 0

# %% wrong: no token at the end => values no-bonus  from: as written
# ~ output + rng.choices(tokens, target[-1]) ==> output

# %% wrong: goes on after another token => values -  from: as written
# ~ return output + rng.choices(tokens, [max ==> (guess,) = rng.choices(tokens, [max

# %% wrong: nothing instead => values nothing-instead  from: as written
# ~ output + rng.choices(tokens, [max(0.0, a - b) for a, b in zip(p, q)]) ==> output

# %% wrong: the first list for all guesses => values -  from: as written
# ~ guess in zip(target, draft, guesses) ==> guess in zip([target[0]] * len(guesses), draft, guesses)

# %% wrong: the mean without the last token => values no-bonus  from: as written
# ~ count in range(guesses + 1) ==> count in range(1, guesses + 1)

# %% wrong: a quotient that is zero over zero => generality raised  from: as written
# ~ sum(rate**count for count in range(guesses + 1)) ==> (1 - rate ** (guesses + 1)) / (1 - rate)

# %% wrong: another source of chance => values raised  from: as written
# ~ rng.random() ==> torch.rand(())

# %% wrong: four guesses at most => generality -  from: as written
# ~ zip(target, draft, guesses) ==> zip(target, draft, guesses[:4])

# %% wrong: left as it is => not-answered  from: as written
# ~ tokens, output = range(len(target[0])), [] ==> raise NotImplementedError
