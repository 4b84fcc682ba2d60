# %% right: closed form
def bytes_per_rank(tokens, hidden, tp, cp, sequence_parallel):
    return tokens / cp * hidden * (10 / (tp if sequence_parallel else 1) + 24 / tp)


# %% right: part by part  from: closed form
# ~ tokens / cp * hidden * (10 / (tp if sequence_parallel else 1) + 24 / tp) ==> tokens * hidden * 10 / (tp if sequence_parallel else 1) / cp + tokens * hidden * 24 / tp / cp

# %% wrong: everything is divided => values all-divided  from: closed form
# ~ tokens / cp * hidden * (10 / (tp if sequence_parallel else 1) + 24 / tp) ==> 34 * tokens * hidden / tp / cp

# %% wrong: sequence parallelism does nothing => values never-divided  from: closed form
# ~ 10 / (tp if sequence_parallel else 1) + 24 ==> 10 + 24

# %% wrong: a factor of its own => values another-factor  from: closed form
# ~ + 24 / tp) ==> + 24 / tp) / (tp if sequence_parallel else 1)

# %% wrong: context parallelism does nothing => values no-context  from: closed form
# ~ tokens / cp * hidden ==> tokens * hidden

# %% wrong: context parallelism in attention alone => values context-inside  from: closed form
# ~ / cp * hidden * (10 / (tp if sequence_parallel else 1) + 24 / tp) ==> * hidden * (10 / (tp if sequence_parallel else 1) + 24 / tp / cp)

# %% wrong: numbers of two bytes => values two-bytes-again  from: closed form
# ~ tokens / ==> 2 * tokens /

# %% wrong: whole tokens => generality -  from: closed form
# ~ / cp ==> // cp

# %% wrong: a tensor-parallel group of eight at most => generality ~  from: closed form
# ~ 24 / tp ==> 24 / min(tp, 8)
