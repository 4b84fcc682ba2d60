# %% right: as written
def train(job, steps):
    checkpoint = job.load() or {"step": 0, "weights": []}
    step, job.weights = checkpoint["step"], checkpoint["weights"]
    drawn, order = 0, None
    while step < steps:
        epoch, place = divmod(step, job.batches)
        while drawn <= epoch:
            order = job.shuffled()
            drawn += 1
        job.update(order[place], step + 1)
        step += 1
        if step % job.every == 0:
            job.save({"step": step, "weights": job.weights})


# %% right: all orders first
def train(job, steps):
    saved = job.load()
    if saved is not None:
        job.weights = saved["weights"]
    done = saved["step"] if saved is not None else 0
    stream = []
    for _ in range(-(-steps // job.batches)):
        stream += job.shuffled()
    for number in range(done + 1, steps + 1):
        job.update(stream[number - 1], number)
        if not number % job.every:
            job.save(dict(step=number, weights=list(job.weights)))


# %% wrong: as given => values -  from: the card

# %% wrong: saved before the update => values early  from: as written
# -         job.update(order[place], step + 1)
#               job.save({"step": step, "weights": job.weights})
# +         job.update(order[place], step)

# %% wrong: the epoch of the next step => values late-epoch  from: as written
# ~ place = divmod(step, job.batches) ==> place = divmod(step + 1, job.batches)

# %% wrong: the data begins again => values afresh  from: as written
# -     drawn, order = 0, None
# +     order = job.shuffled()
# +     first = step
# ~ epoch, place = divmod(step, job.batches) ==> place = step % job.batches
# ~ while drawn <= epoch: ==> if place == 0 and step > first:
# -             drawn += 1

# %% wrong: an epoch begins with the old order => values other-updates  from: as written
# ~ while drawn <= epoch: ==> while drawn < max(1, epoch + (place > 0)):

# %% wrong: it saves after every update => values other-saves  from: as written
# ~ job.every ==> 1

# %% wrong: it saves at the end as well => values other-saves  from: as written
# -     while step < steps:
# +     while True:
# +         if step >= steps:
# +             job.save({"step": step, "weights": job.weights})
# +             return

# %% wrong: it never resumes => values repeated-work  from: as written
# ~ checkpoint = job.load() or {"step": 0, "weights": []} ==> checkpoint = {"step": 0, "weights": []}

# %% wrong: steps count from 0 => values other-updates  from: as written
# ~ (order[place], step + 1) ==> (order[place], step)

# %% wrong: the weights are not restored => values other-updates  from: as written
# ~ step, job.weights = checkpoint["step"], checkpoint["weights"] ==> step = checkpoint["step"]

# %% wrong: one update more when all is done => generality repeated-work  from: as written
# -     drawn, order = 0, None
# +     drawn, order = 0, None
# +     if step == steps and steps:
# +         job.update(job.shuffled()[0], step + 1)
