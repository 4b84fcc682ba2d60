NAMES = ("nothing", "accumulate", "shard the optimizer", "recompute", "shard everything", "split the model")


# %% right: six totals
def first_remedy(parameters, gpus, sequences, activations, inputs, memory):
    whole, cut = 16 * parameters, (4 + 12 / gpus) * parameters
    held = (
        whole + sequences * activations,
        whole + activations,
        cut + activations,
        cut + inputs,
        16 * parameters / gpus + inputs,
        0,
    )
    return next(name for name, each in zip(NAMES, held) if each <= memory)


# %% right: step by step
def first_remedy(parameters, gpus, sequences, activations, inputs, memory):
    fixed, optimizer, kept = 4 * parameters, 12 * parameters, sequences * activations
    if fixed + optimizer + kept <= memory:
        return "Nothing"
    kept = activations
    if fixed + optimizer + kept <= memory:
        return "accumulate"
    optimizer /= gpus
    if fixed + optimizer + kept <= memory:
        return "shard the optimizer"
    kept = inputs
    if fixed + optimizer + kept <= memory:
        return "recompute"
    fixed /= gpus
    return "shard everything" if fixed + optimizer + kept <= memory else "split the model"


# %% wrong: always shards => values always-the-same
def first_remedy(parameters, gpus, sequences, activations, inputs, memory):
    return "shard everything"


# %% wrong: full is too full => generality full-is-too-full  from: six totals
# ~ return next(name for name, each in zip(NAMES, held) if each <= memory) ==> return next(name for name, each in zip(NAMES, held) if each < memory)

# %% wrong: each remedy alone => values one-at-a-time  from: six totals
# ~ cut + activations, ==> cut + sequences * activations,
# ~ cut + inputs, ==> whole + sequences * inputs,
# ~ gpus + inputs, ==> gpus + sequences * activations,

# %% wrong: ZeRO-1 cuts everything => values all-cut-by-zero-1  from: six totals
# ~ (4 + 12 / gpus) ==> 16 / gpus


# %% wrong: activations are forgotten => values state-alone
def first_remedy(parameters, gpus, sequences, activations, inputs, memory):
    whole, cut = 16 * parameters, (4 + 12 / gpus) * parameters
    held = (whole, whole, cut, cut, 16 * parameters / gpus, 0)
    return next(name for name, each in zip(NAMES, held) if each <= memory)


# %% wrong: the inputs of all sequences => values all-inputs  from: six totals
# ~ cut + inputs, ==> cut + sequences * inputs,
# ~ gpus + inputs, ==> gpus + sequences * inputs,

# %% wrong: the strongest that fits => values the-strongest  from: six totals
# -     return next(name for name, each in zip(NAMES, held) if each <= memory)
# +     fits = [name for name, each in zip(NAMES[:5], held) if each <= memory]
# +     return fits[-1] if fits else NAMES[5]


# %% wrong: sequences of the first run are remembered => values -  from: six totals
# ~ whole, cut = ==> sequences = first_remedy.__dict__.setdefault(str((parameters, gpus)), sequences); whole, cut =


# %% wrong: another word => values no-such-word
def first_remedy(parameters, gpus, sequences, activations, inputs, memory):
    return "buy more GPUs"


# %% wrong: nothing comes back => values returned-none
def first_remedy(parameters, gpus, sequences, activations, inputs, memory):
    pass
