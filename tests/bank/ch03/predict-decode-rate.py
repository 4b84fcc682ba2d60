# %% right: around the memory's rate
def tokens_interval():
    return 100, 400


# %% right: far off, exactly a factor of four, a list
def tokens_interval():
    guess = 20_000.0
    return [guess / 2, guess * 2]


# %% wrong: too wide => values too-wide  from: around the memory's rate
# ~ 100, 400 ==> 10, 1000

# %% wrong: turned round => values reversed  from: around the memory's rate
# ~ 100, 400 ==> 400, 100

# %% wrong: one number => values not-a-pair  from: around the memory's rate
# ~ 100, 400 ==> 208

# %% wrong: words => values not-numbers  from: around the memory's rate
# ~ 100, 400 ==> "about 200", "400"
