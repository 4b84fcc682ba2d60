import copy
import torch


# %% right: as written
def snapshot(trainer):
    return copy.deepcopy(
        {
            "model": trainer.model.state_dict(),
            "optimizer": trainer.optimizer.state_dict(),
            "schedule": trainer.schedule.state_dict(),
            "generator": trainer.generator.get_state(),
            "random": torch.get_rng_state(),
            "order": trainer.order,
            "position": trainer.position,
            "average": trainer.average,
            "scale": trainer.scale,
        }
    )


def restore(trainer, saved):
    trainer.model.load_state_dict(saved["model"])
    trainer.optimizer.load_state_dict(saved["optimizer"])
    trainer.schedule.load_state_dict(saved["schedule"])
    trainer.generator.set_state(saved["generator"])
    torch.set_rng_state(saved["random"])
    trainer.order, trainer.position = saved["order"], saved["position"]
    trainer.average, trainer.scale = saved["average"], saved["scale"]


# %% right: tensor by tensor
def snapshot(trainer):
    optimizer = trainer.optimizer.state_dict()
    state = {key: {name: each.clone() for name, each in one.items()} for key, one in optimizer["state"].items()}
    return [
        [each.clone() for each in trainer.model.state_dict().values()],
        state,
        [dict(group) for group in optimizer["param_groups"]],
        dict(trainer.schedule.state_dict()),
        [trainer.generator.get_state(), torch.get_rng_state()],
        [list(trainer.order), trainer.position],
        [each.clone() for each in trainer.average],
        [trainer.scale["value"], trainer.scale["clean"]],
    ]


def restore(trainer, saved):
    model, state, groups, schedule, random, data, average, scale = saved
    trainer.schedule.load_state_dict(schedule)
    trainer.optimizer.load_state_dict({"state": state, "param_groups": groups})
    with torch.no_grad():
        for mine, given in zip(trainer.model.state_dict().values(), model):
            mine.copy_(given)
        for mine, given in zip(trainer.average, average):
            mine.copy_(given)
    trainer.generator.set_state(random[0])
    torch.random.set_rng_state(random[1])
    trainer.order, trainer.position = data
    trainer.scale = {"value": scale[0], "clean": scale[1]}


# %% wrong: live tensors => values alias  from: as written
# ~ copy.deepcopy ==> dict
# ~ trainer.scale, ==> dict(trainer.scale),

# %% wrong: without the optimizer => values no-optimizer  from: as written
# -     trainer.optimizer.load_state_dict(saved["optimizer"])

# %% wrong: without the schedule => values -  from: as written
# -     trainer.schedule.load_state_dict(saved["schedule"])

# %% wrong: without the generator => values no-generator  from: as written
# -     trainer.generator.set_state(saved["generator"])

# %% wrong: without torch's generator => values no-dropout  from: as written
# -     torch.set_rng_state(saved["random"])

# %% wrong: without the position => values -  from: as written
# -     trainer.order, trainer.position = saved["order"], saved["position"]

# %% wrong: the epoch begins again => values -  from: as written
# -     trainer.order, trainer.position = saved["order"], saved["position"]
# +     trainer.order = saved["order"]
# +     trainer.position = 0

# %% wrong: without the average => values no-average  from: as written
# ~ trainer.average, trainer.scale = saved["average"], saved ==> trainer.scale = saved

# %% wrong: without the loss scale => values no-scale  from: as written
# ~ average, trainer.scale = saved["average"], saved["scale"] ==> average = saved["average"]

# %% wrong: parameters without buffers => values -  from: as written
# -     trainer.model.load_state_dict(saved["model"])
# +     names = dict(trainer.model.named_parameters())
# +     trainer.model.load_state_dict({name: saved["model"][name] for name in names}, strict=False)

# %% wrong: weights alone => values -  from: as written
# -     trainer.optimizer.load_state_dict(saved["optimizer"])
# -     trainer.schedule.load_state_dict(saved["schedule"])
# -     trainer.generator.set_state(saved["generator"])

# %% wrong: the snapshot draws a random number => values -  from: as written
# -     return copy.deepcopy(
# +     torch.rand(1)
# +     return copy.deepcopy(

# %% wrong: the position stays in a global => values -  from: as written
# - def snapshot(trainer):
# + KEPT = []
# + def snapshot(trainer):
# +     KEPT[:] = [list(trainer.order), trainer.position]
# ~ trainer.position = saved["order"], saved["position"] ==> trainer.position = KEPT
