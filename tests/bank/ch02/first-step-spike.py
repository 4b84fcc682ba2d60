# %% right: phase by phase
def timeline(job):
    weights, grads, moments = job["weights"], job["grads"], job["moments"]
    levels = [weights]
    for step in (1, 2, 3):
        kept = weights + (moments if step > 1 else 0)
        levels += [
            kept + job["activations"],
            kept + max(job["activations"], grads),
            weights + moments + grads + job["work"],
        ]
    return levels


def dies_at(job, memory):
    names = ["load"] + [f"{phase} {step}" for step in (1, 2, 3) for phase in ("forward", "backward", "step")]
    for name, level in zip(names, timeline(job)):
        if level > memory:
            return name
    return None


# %% right: any variant  from: phase by phase
#   def timeline(job):
# +     from course_lib import params
# +     zeroed = params("first-step-spike").grads_between == "zeroed"
#       for step in (1, 2, 3):
# +         stay = grads if zeroed and step > 1 else 0
# -             kept + job["activations"],
# -             kept + max(job["activations"], grads),
# +             kept + stay + job["activations"],
# +             kept + (stay + job["activations"] if stay else max(job["activations"], grads)),

# %% wrong: the optimizer's bytes from the start => values state-from-the-start  from: phase by phase
# ~ [weights] ==> [weights + moments]
# ~ (moments if step > 1 else 0) ==> moments

# %% wrong: gradients stay => values other-form unless grads_between=zeroed  from: phase by phase
# ~ kept = weights + (moments if step > 1 else 0) ==> kept = weights + (moments + grads if step > 1 else 0)
# -             kept + max(job["activations"], grads),
# +             (kept + job["activations"] if step > 1 else kept + max(job["activations"], grads)),

# %% wrong: activations and gradients together => values all-together  from: phase by phase
# ~ max(job["activations"], grads) ==> job["activations"] + grads

# %% wrong: no work space => values no-work  from: phase by phase
# ~ grads + job["work"] ==> grads

# %% wrong: the end of each phase => values end-of-phase  from: phase by phase
# ~ max(job["activations"], grads) ==> grads

# %% wrong: activations while the optimizer steps => values activations-in-step  from: phase by phase
# ~ ["work"], ==> ["work"] + job["activations"],

# %% wrong: every step like the first => values first-step-for-ever  from: phase by phase
# ~ (moments if step > 1 else 0) ==> 0


# %% wrong: everything always => values everything-always  from: phase by phase
def timeline(job):
    return [sum(job.values())] * 10


# %% wrong: gigabytes => values gigabytes  from: phase by phase
# ~ return levels ==> return [level / 1e9 for level in levels]

# %% wrong: loading is left out => values wrong-shape  from: phase by phase
# ~ [weights] ==> []

# %% wrong: dies in the optimizer's construction => values state-from-the-start  from: phase by phase
# ~ level > memory ==> level + (job["moments"] if name in ("load", "forward 1", "backward 1") else 0) > memory


# %% wrong: the number of the phase => values no-such-word  from: phase by phase
def dies_at(job, memory):
    return next((index for index, level in enumerate(timeline(job)) if level > memory), None)


# %% wrong: what fits exactly dies => generality dies-for-nothing  from: phase by phase
# ~ if level > memory: ==> if level >= memory:


# %% wrong: nobody ever survives => values dies-for-nothing  from: phase by phase
def dies_at(job, memory):
    names = ["load"] + [f"{phase} {step}" for step in (1, 2, 3) for phase in ("forward", "backward", "step")]
    return next((name for name, level in zip(names, timeline(job)) if level > memory), "step 3")


# %% wrong: the phase that needs most => generality worst-not-first  from: nobody ever survives
# -     return next((name for name, level in zip(names, timeline(job)) if level > memory), "step 3")
# +     levels = timeline(job)
# +     return names[levels.index(max(levels))] if max(levels) > memory else None


# %% half: the timeline alone => 3.75  from: phase by phase
def dies_at(job, memory):
    raise NotImplementedError


# %% wrong: a byte too much fits => generality fits  from: phase by phase
# ~ if level > memory: ==> if level > memory + 1:
