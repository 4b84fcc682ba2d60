import torch


def one(value):
    return torch.tensor([value], dtype=torch.float64)


# %% right: the difference after one step
def which(build):
    lr, decay, parameter = 0.001, 0.1, 100.0
    gradient = one(-decay * parameter / 2)
    without = build(lr, 0.0)(one(parameter), gradient)
    moved = (without - build(lr, decay)(one(parameter), gradient)).item()
    if moved == 0:
        return "none"
    if abs(moved / (decay * parameter) - 1) < 0.1:
        return "unscaled"
    return "decoupled" if abs(moved / (lr * decay * parameter) - 1) < 0.1 else "l2"


# %% right: does it grow with the parameter, and with the learning rate?
def shrinks(build, lr, size):
    gradient = one(1.0)
    return (build(lr, 0.0)(one(size), gradient) - build(lr, 0.5)(one(size), gradient)).item()


def which(build):
    plain = shrinks(build, 0.001, 200.0)
    if abs(plain) < 1e-9:
        steps = [build(0.001, decay) for decay in (0.0, 0.5)]
        p = [one(200.0), one(200.0)]
        for sign in (1, -1, 1, -1, 1, -1):
            p = [step(x, one(sign)) for step, x in zip(steps, p)]
        return "none" if torch.equal(*p) else "l2"
    if shrinks(build, 0.001, 400.0) / plain < 1.5:
        return "l2"
    return "decoupled" if shrinks(build, 0.002, 200.0) / plain > 1.5 else "unscaled"


# %% wrong: a gradient of zero => generality -
def which(build):
    after = build(0.01, 0.1)(one(2), one(0)).item()
    if after == 2:
        return "none"
    if abs(after - 1.998) < 1e-9:
        return "decoupled"
    return "unscaled" if abs(after - 1.8) < 1e-9 else "l2"


# %% wrong: an exact amount => generality decoupled-as-l2  from: the difference after one step
# ~ (lr * decay * parameter) - 1) < 0.1 ==> (lr * decay * parameter) - 1) < 1e-9

# %% wrong: L2 moves by exactly two learning rates => generality l2-as-decoupled  from: the difference after one step
# ~ "decoupled" if abs(moved / (lr * decay * parameter) - 1) < 0.1 else "l2" ==> "l2" if abs(moved / (2 * lr) - 1) < 1e-4 else "decoupled"

# %% wrong: the learning rate is not varied => values unscaled-as-decoupled  from: does it grow with the parameter, and with the learning rate?
# ~ "decoupled" if shrinks(build, 0.002, 200.0) / plain > 1.5 else "unscaled" ==> "decoupled"

# %% wrong: one step of equal sign => values l2-as-none  from: does it grow with the parameter, and with the learning rate?
# -         steps = [build(0.001, decay) for decay in (0.0, 0.5)]
# -         p = [one(200.0), one(200.0)]
# -         for sign in (1, -1, 1, -1, 1, -1):
# -             p = [step(x, one(sign)) for step, x in zip(steps, p)]
# -         return "none" if torch.equal(*p) else "l2"
# +         return "none"


# %% wrong: always AdamW => values always-the-same  from: the difference after one step
# ~ lr, decay, parameter = 0.001, 0.1, 100.0 ==> return "decoupled"

# %% wrong: another word => values no-such-word  from: the difference after one step
# ~ lr, decay, parameter = 0.001, 0.1, 100.0 ==> return "adamw"


# %% wrong: a long search => raised
def which(build):
    for _ in range(100):
        build(0.1, 0.1)(one(1), one(1))
    return "none"


# %% wrong: left as it is => not-answered  from: the difference after one step
# ~ lr, decay, parameter = 0.001, 0.1, 100.0 ==> raise NotImplementedError
