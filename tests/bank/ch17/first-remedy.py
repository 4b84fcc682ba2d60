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
    )
    return next((name for name, each in zip(NAMES, held) if each <= memory), NAMES[-1])


# %% right: in capitals  from: six totals
# ~ NAMES[-1]) ==> NAMES[-1]).upper()


# %% wrong: always shards => values always-the-same  from: six totals
# ~ next((name for name, each in zip(NAMES, held) if each <= memory), NAMES[-1]) ==> "shard everything"


# %% wrong: full is too full => generality full-is-too-full  from: six totals
# ~ each <= memory ==> each < memory


# %% wrong: each remedy alone => values one-at-a-time  from: six totals
# ~ cut + activations, ==> cut + sequences * activations,
# ~ cut + inputs, ==> whole + sequences * inputs,
# ~ gpus + inputs, ==> gpus + sequences * activations,

# %% wrong: ZeRO-1 cuts everything => values all-cut-by-zero-1  from: six totals
# ~ (4 + 12 / gpus) ==> 16 / gpus


# %% wrong: activations are forgotten => values state-alone  from: six totals
#   def first_remedy(parameters, gpus, sequences, activations, inputs, memory):
# +     activations = inputs = 0


# %% wrong: the inputs of all sequences => values all-inputs  from: six totals
# ~ cut + inputs, ==> cut + sequences * inputs,
# ~ gpus + inputs, ==> gpus + sequences * inputs,

# %% wrong: the strongest that fits => values the-strongest  from: six totals
# -     return next((name for name, each in zip(NAMES, held) if each <= memory), NAMES[-1])
# +     fits = [name for name, each in zip(NAMES[:5], held) if each <= memory]
# +     return fits[-1] if fits else NAMES[5]


# %% wrong: sequences of the first run are remembered => values -  from: six totals
# ~ whole, cut = ==> sequences = first_remedy.__dict__.setdefault(str((parameters, gpus)), sequences); whole, cut =


# %% wrong: another word => values no-such-word  from: six totals
# ~ next((name for name, each in zip(NAMES, held) if each <= memory), NAMES[-1]) ==> "buy more GPUs"


# %% wrong: nothing comes back => values returned-none  from: six totals
# ~ return next ==> next
