# %% right: as written
def usd_per_million(usd, gpus, prompt, answer, prefill_speed, decode_speed, busy):
    seconds = prompt / prefill_speed + answer / decode_speed
    return usd * gpus / 3600 * seconds / busy / answer * 1e6


def cheapest(models, served):
    return min(range(len(models)), key=lambda at: models[at][0] * (6 * models[at][1] + 2 * served))


# %% right: requests per hour, half the FLOPs  from: as written
# -     return usd * gpus / 3600 * seconds / busy / answer * 1e6
# +     requests = busy * 3600 / seconds
# +     return gpus * usd * 1_000_000 / (requests * answer)
# ~ models[at][0] * (6 * models[at][1] + 2 * served) ==> 3 * models[at][0] * models[at][1] + models[at][0] * served

# %% wrong: idle hours are free => values idle-is-free  from: as written
# ~ busy / answer ==> answer

# %% wrong: idle hours make it cheaper => values idle-twice  from: as written
# ~ seconds / busy ==> seconds * busy

# %% wrong: one GPU => values one-gpu  from: as written
# ~ usd * gpus / 3600 ==> usd / 3600

# %% wrong: prompts are free => values no-prompts  from: as written
# ~ prompt / prefill_speed + answer ==> answer

# %% wrong: all tokens => values all-tokens  from: as written
# ~ busy / answer * 1e6 ==> busy / (prompt + answer) * 1e6

# %% wrong: the longer of the phases => values longer-phase  from: as written
# ~ prompt / prefill_speed + answer / decode_speed ==> max(prompt / prefill_speed, answer / decode_speed)

# %% wrong: a prompt there must be => generality raised  from: as written
# ~ 1e6 ==> 1e6 * prompt / prompt

# %% wrong: training alone => values training-only  from: as written
# ~ (6 * models[at][1] + 2 * served) ==> 6 * models[at][1]

# %% wrong: the smallest => values serving-only  from: as written
# ~ models[at][0] * (6 * models[at][1] + 2 * served) ==> models[at][0]

# %% wrong: training is as cheap as serving => generality -  from: as written
# ~ * (6 * models[at][1] + 2 * served) ==> * (models[at][1] + served)

# %% wrong: the last of equals => generality last-of-equals  from: as written
# ~ range(len(models)) ==> reversed(range(len(models)))

# %% wrong: a millionth more is as cheap => generality -  from: as written
# ~ * (6 * models[at][1] + 2 * served) ==> * (6 * models[at][1] + 2 * served) // 10**19

# %% wrong: left as it is => not-answered  from: as written
# ~ seconds = prompt / prefill_speed + answer / decode_speed ==> raise NotImplementedError
