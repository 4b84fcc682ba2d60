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


# %% wrong: the input gets no gradient => values gradient-stops
class Again(torch.autograd.Function):
    @staticmethod
    def forward(ctx, function, anchor, x):
        ctx.function, ctx.x, ctx.state = function, x, torch.get_rng_state()
        with torch.no_grad():
            return function(x)

    @staticmethod
    def backward(ctx, grad):
        with torch.enable_grad(), torch.random.fork_rng(devices=[]):
            torch.set_rng_state(ctx.state)
            out = ctx.function(ctx.x.detach())
        torch.autograd.backward(out, grad)
        return None, None, None


def checkpoint(function, x):
    return Again.apply(function, torch.empty(0, requires_grad=True), x)


# %% wrong: the input is detached before it goes in => values gradient-stops  from: the input gets no gradient
#       def backward(ctx, grad):
# +         x = ctx.x.detach().requires_grad_(ctx.x.is_floating_point())
# -             out = ctx.function(ctx.x.detach())
# +             out = ctx.function(x)
# -         return None, None, None
# +         return None, None, x.grad
# -     return Again.apply(function, torch.empty(0, requires_grad=True), x)
# +     return Again.apply(function, torch.empty(0, requires_grad=True), x.detach())

# %% wrong: the generator is not set back for the second run => values random-not-restored  from: the input gets no gradient
# -         ctx.function, ctx.x, ctx.state = function, x, torch.get_rng_state()
# +         ctx.function, ctx.x = function, x
# -         with torch.enable_grad(), torch.random.fork_rng(devices=[]):
# -             torch.set_rng_state(ctx.state)
# -             out = ctx.function(ctx.x.detach())
# +         x = ctx.x.detach().requires_grad_(ctx.x.requires_grad)
# +         with torch.enable_grad():
# +             out = ctx.function(x)
# -         return None, None, None
# +         return None, None, x.grad

# %% wrong: the generator stays where the second run left it => values stream-moved  from: the generator is not set back for the second run
# ~ x = function, x ==> x, ctx.state = function, x, torch.get_rng_state()
#           x = ctx.x.detach().requires_grad_(ctx.x.requires_grad)
# +         torch.set_rng_state(ctx.state)

# %% wrong: a seed of its own for both runs => values own-seed  from: the generator is not set back for the second run
# -         with torch.no_grad():
# +         with torch.no_grad(), torch.random.fork_rng(devices=[]):
# +             torch.manual_seed(0)
# -         with torch.enable_grad():
# +         with torch.enable_grad(), torch.random.fork_rng(devices=[]):
# +             torch.manual_seed(0)

# %% wrong: computed twice in the backward pass => values recomputed-twice  from: gradients are put there and added once more
# -             torch.set_rng_state(ctx.state)
# -             out = ctx.function(x)
# -         torch.autograd.backward(out, grad, retain_graph=True)
# +             for _ in range(2):
# +                 torch.set_rng_state(ctx.state)
# +                 out = ctx.function(x)

# %% wrong: called once more before the pass => values called-twice-forward  from: the input is detached before it goes in
#           with torch.no_grad():
# +             function(x)
# +             torch.set_rng_state(ctx.state)
# ~ is_floating_point() ==> requires_grad
# ~ (function, torch.empty(0, requires_grad=True), x.detach()) ==> (function, torch.empty(0, requires_grad=True), x)

# %% wrong: computed again for every tensor that autograd asks for => values not-the-second-call  from: hooks on what autograd saves
# ~ if number not in made: ==> if True:

# %% wrong: layer by layer => values per-layer  from: the input is detached before it goes in
# ~ is_floating_point() ==> requires_grad
# -     return Again.apply(function, torch.empty(0, requires_grad=True), x.detach())
# +     for layer in getattr(function, "layers", [function]):
# +         x = Again.apply(layer, torch.empty(0, requires_grad=True), x)
# +     return x

# %% wrong: gradients are put there and added once more => values scaled  from: the input gets no gradient
#       def backward(ctx, grad):
# +         x = ctx.x.detach().requires_grad_(ctx.x.requires_grad)
# -             out = ctx.function(ctx.x.detach())
# +             out = ctx.function(x)
# +         torch.autograd.backward(out, grad, retain_graph=True)
# -         return None, None, None
# +         return None, None, x.grad

# %% wrong: computed again and kept all the same => cost kept-inside  from: gradients are put there and added once more
# -         with torch.no_grad():
# -             return function(x)
# +         ctx.inside = []
# +         with (
# +             torch.autograd.graph.saved_tensors_hooks(lambda t: ctx.inside.append(t) or t, lambda t: t),
# +             torch.enable_grad(),
# +         ):
# +             return function(x).detach()
# -         torch.autograd.backward(out, grad, retain_graph=True)

# %% wrong: nothing happens if the input needs no gradient => generality anchor-missing  from: the input is detached before it goes in
# ~ anchor, x ==> x
# ~ (ctx.x.is_floating_point()) ==> ()
# ~ None, x ==> x
# ~ torch.empty(0, requires_grad=True), x.detach() ==> x

# %% wrong: parameters are asked of a module => generality raised  from: the input is detached before it goes in
# ~ anchor, x ==> x, *parameters
# ~ state = function, x ==> parameters, ctx.state = function, x, parameters
# -         torch.autograd.backward(out, grad)
# -         return None, None, x.grad
# +         wanted = [each for each in (x, *ctx.parameters) if each.requires_grad]
# +         found = dict(zip(map(id, wanted), torch.autograd.grad(out, wanted, grad)))
# +         return None, found.get(id(x)), *(found.get(id(each)) for each in ctx.parameters)
# ~ torch.empty(0, requires_grad=True), x.detach ==> x, *function.parameters

# %% wrong: also kept and called under no_grad without need => generality called-for-nothing  from: gradients are put there and added once more
# -         torch.autograd.backward(out, grad, retain_graph=True)
#   def checkpoint(function, x):
# +     if not torch.is_grad_enabled():
# +         function(x)

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


# %% wrong: the graph is kept inside => values nothing-recomputed
class Kept(torch.autograd.Function):
    @staticmethod
    def forward(ctx, function, anchor, x):
        ctx.x = x.detach().requires_grad_(x.is_floating_point() and x.requires_grad)
        with torch.enable_grad():
            ctx.out = function(ctx.x)
        return ctx.out.detach()

    @staticmethod
    def backward(ctx, grad):
        torch.autograd.backward(ctx.out, grad)
        return None, None, ctx.x.grad


def checkpoint(function, x):
    return Kept.apply(function, torch.empty(0, requires_grad=True), x)


# %% half: right but for what it keeps => 15  from: gradients are put there and added once more
# -         with torch.no_grad():
# -             return function(x)
# +         with torch.enable_grad():
# +             ctx.graph = function(x)
# +         return ctx.graph.detach()
# -         torch.autograd.backward(out, grad, retain_graph=True)

# %% half: the generator is forgotten => 13.5  from: the generator is not set back for the second run

# %% half: a plain call has right outputs => 1.5  from: a plain call

# %% wrong: the generator is set back for modules alone => generality other-numbers  from: a function of autograd with an anchor
# ~ torch.set_rng_state(ctx.state) ==> torch.set_rng_state(ctx.state) if isinstance(ctx.function, torch.nn.Module) else None
