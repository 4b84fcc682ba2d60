# %% right: a narrow guess
def weeks_interval():
    return 20, 40


# %% right: a list, exactly a factor of four, far off  from: a narrow guess
# ~ 20, 40 ==> [1.5, 6.0]

# %% wrong: too wide => values too-wide  from: a narrow guess
# ~ 20, 40 ==> 1, 1000

# %% wrong: turned round => values reversed  from: a narrow guess
# ~ 20, 40 ==> 40, 20

# %% wrong: a point => values not-a-pair  from: a narrow guess
# ~ 20, 40 ==> 26


# %% wrong: words => values not-numbers  from: a narrow guess
# ~ 20, 40 ==> "twenty", "forty"
