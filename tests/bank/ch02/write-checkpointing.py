import torch


# %% right: a function of autograd with an anchor
class Again(torch.autograd.Function):
    @staticmethod
    def forward(ctx, function, anchor, *inputs):
        ctx.function, ctx.state = function, torch.get_rng_state()
        ctx.save_for_backward(*inputs)
        with torch.no_grad():
            return function(*inputs)

    @staticmethod
    def backward(ctx, *grads):
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        with torch.enable_grad(), torch.random.fork_rng(devices=[]):
            torch.set_rng_state(ctx.state)
            out = ctx.function(*inputs)
        torch.autograd.backward(out, grads)
        return None, None, *(x.grad for x in inputs)


def checkpoint(function, *inputs):
    return Again.apply(function, torch.empty(0, requires_grad=True), *inputs)


# %% right: hooks on what autograd saves
def checkpoint(function, *inputs):
    if not torch.is_grad_enabled():
        return function(*inputs)
    state, made, count = torch.get_rng_state(), {}, [0]

    def pack(tensor):
        count[0] += 1
        return count[0] - 1

    def unpack(number):
        if number not in made:
            places = iter(range(count[0]))

            def keep(tensor):
                made[next(places)] = tensor.detach()
                return tensor

            before = torch.get_rng_state()
            torch.set_rng_state(state)
            with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
                function(*[x.detach().requires_grad_(x.requires_grad) for x in inputs])
            torch.set_rng_state(before)
        return made.pop(number)

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        return function(*inputs)


# %% right: a leaf in between, and a hook on its gradient
def checkpoint(function, *inputs):
    if not torch.is_grad_enabled():
        return function(*inputs)
    state = torch.get_rng_state()
    with torch.no_grad():
        out = function(*inputs).requires_grad_()

    def again(grad):
        with torch.enable_grad(), torch.random.fork_rng(devices=[]):
            torch.set_rng_state(state)
            made = function(*inputs)
        torch.autograd.backward(made, grad)

    out.register_hook(again)
    return out


# %% wrong: everything under no_grad => values no-graph
def checkpoint(function, x):
    with torch.no_grad():
        return function(x)


# %% wrong: a plain call => values nothing-recomputed
def checkpoint(function, x):
    return function(x)


# %% wrong: the input gets no gradient => values gradient-stops  from: a function of autograd with an anchor
# ~ *(x.grad for x in inputs) ==> *(None for x in inputs)

# %% wrong: the generator is not set back for the second run => values random-not-restored  from: a function of autograd with an anchor
# -         with torch.enable_grad(), torch.random.fork_rng(devices=[]):
# -             torch.set_rng_state(ctx.state)
# +         with torch.enable_grad():

# %% wrong: the generator stays where the second run left it => values stream-moved  from: a function of autograd with an anchor
# ~ torch.enable_grad(), torch.random.fork_rng(devices=[]): ==> torch.enable_grad():

# %% wrong: a seed of its own for both runs => values own-seed  from: a function of autograd with an anchor
# -         with torch.no_grad():
# +         with torch.no_grad(), torch.random.fork_rng(devices=[]):
# +             torch.manual_seed(0)
# ~ torch.set_rng_state(ctx.state) ==> torch.manual_seed(0)

# %% wrong: computed twice in the backward pass => values recomputed-twice  from: a function of autograd with an anchor
# ~ torch.set_rng_state(ctx.state) ==> ctx.function(*inputs), torch.set_rng_state(ctx.state)

# %% wrong: called once more before the pass => values called-twice-forward  from: a function of autograd with an anchor
#           with torch.no_grad():
# +             function(*inputs)
# +             torch.set_rng_state(ctx.state)

# %% wrong: computed again for every tensor that autograd asks for => values not-the-second-call  from: hooks on what autograd saves
# ~ if number not in made: ==> if True:

# %% wrong: layer by layer => values per-layer  from: a function of autograd with an anchor
# -     return Again.apply(function, torch.empty(0, requires_grad=True), *inputs)
# +     for layer in getattr(function, "layers", [function]):
# +         inputs = (Again.apply(layer, torch.empty(0, requires_grad=True), *inputs),)
# +     return inputs[0]

# %% wrong: gradients are put there and added once more => values scaled  from: a function of autograd with an anchor
#               out = ctx.function(*inputs)
# +         torch.autograd.backward(out, grads, retain_graph=True)

# %% wrong: computed again and kept all the same => cost kept-inside  from: a function of autograd with an anchor
# -         with torch.no_grad():
# -             return function(*inputs)
# +         ctx.inside = []
# +         with (
# +             torch.autograd.graph.saved_tensors_hooks(lambda t: ctx.inside.append(t) or t, lambda t: t),
# +             torch.enable_grad(),
# +         ):
# +             return function(*inputs).detach()

# %% wrong: nothing happens if the input needs no gradient => generality anchor-missing  from: a function of autograd with an anchor
# ~ function, anchor, *inputs ==> function, *inputs
# ~ return None, None, *( ==> return None, *(
# ~ torch.empty(0, requires_grad=True), *inputs ==> *inputs

# %% wrong: parameters are asked of a module => generality raised  from: a function of autograd with an anchor
# ~ anchor, *inputs ==> x, *parameters
# ~ ctx.state = function, ==> ctx.parameters, ctx.state = function, parameters,
# ~ save_for_backward(*inputs) ==> save_for_backward(x)
# -             return function(*inputs)
# +             return function(x)
# -         torch.autograd.backward(out, grads)
# -         return None, None, *(x.grad for x in inputs)
# +         wanted = [each for each in (*inputs, *ctx.parameters) if each.requires_grad]
# +         found = dict(zip(map(id, wanted), torch.autograd.grad(out, wanted, grads)))
# +         return None, *(found.get(id(each)) for each in (*inputs, *ctx.parameters))
# ~ torch.empty(0, requires_grad=True), *inputs ==> *inputs, *function.parameters()

# %% wrong: also kept and called under no_grad without need => generality called-for-nothing  from: a function of autograd with an anchor
#   def checkpoint(function, *inputs):
# +     if not torch.is_grad_enabled():
# +         function(*inputs)

# %% wrong: the one that torch has => raised  from: a plain call
# - def checkpoint(function, x):
# + from torch.utils.checkpoint import checkpoint as ready
# + def checkpoint(function, x):
# ~ function(x) ==> ready(function, x, use_reentrant=False)

# %% wrong: kept in half the bytes => values -  from: everything under no_grad
# -     with torch.no_grad():
# +     def pack(t):
# +         return t.bfloat16() if t.dtype == torch.float32 else t
# +     def unpack(t):
# +         return t.float() if t.dtype == torch.bfloat16 else t
# +     with torch.autograd.graph.saved_tensors_hooks(pack, unpack):


# %% wrong: the graph is kept inside => values nothing-recomputed  from: a function of autograd with an anchor
# -         with torch.no_grad():
# -             return function(*inputs)
# +         ctx.inputs = [x.detach().requires_grad_(x.requires_grad) for x in inputs]
# +         with torch.enable_grad():
# +             ctx.out = function(*ctx.inputs)
# +         return ctx.out.detach()
# -         inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
# -         with torch.enable_grad(), torch.random.fork_rng(devices=[]):
# -             torch.set_rng_state(ctx.state)
# -             out = ctx.function(*inputs)
# +         inputs, out = ctx.inputs, ctx.out

# %% half: right but for what it keeps => 15  from: computed again and kept all the same

# %% half: the generator is forgotten => 13.5  from: the generator is not set back for the second run

# %% half: a plain call has right outputs => 1.5  from: a plain call

# %% wrong: the generator is set back for modules alone => generality other-numbers  from: a function of autograd with an anchor
# ~ torch.set_rng_state(ctx.state) ==> torch.set_rng_state(ctx.state) if isinstance(ctx.function, torch.nn.Module) else None
