import math


# %% right: in formulas
def break_even_tokens(flops, bandwidth, ranks, grad_bytes):
    return 2 * (ranks - 1) / ranks * grad_bytes / bandwidth * flops / 4


def most_gpus(batch_tokens, flops, bandwidth, grad_bytes):
    return math.floor(1 + batch_tokens * 4 * bandwidth / (2 * grad_bytes * flops))


# %% right: two times of a model of one parameter, and a search by doubling
def seconds(tokens, flops, bandwidth, ranks, grad_bytes):
    return 4 * tokens / flops, 2 * (ranks - 1) * grad_bytes / ranks / bandwidth


def break_even_tokens(flops, bandwidth, ranks, grad_bytes):
    computing, talking = seconds(1.0, flops, bandwidth, ranks, grad_bytes)
    return talking / computing


def most_gpus(batch_tokens, flops, bandwidth, grad_bytes):
    def hidden(n):
        computing, talking = seconds(batch_tokens / n, flops, bandwidth, n, grad_bytes)
        return talking <= computing

    low = 1
    while hidden(2 * low):
        low *= 2
    high = 2 * low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if hidden(middle) else (low, middle)
    return low


# %% right: any variant  from: in formulas
# - def break_even_tokens(flops, bandwidth, ranks, grad_bytes):
# + from course_lib import params
# + EACH = {"step": 6, "backward": 4}[params("break-even").behind]
# + def break_even_tokens(flops, bandwidth, ranks, grad_bytes):
# ~ flops / 4 ==> flops / EACH
# ~ batch_tokens * 4 * bandwidth ==> batch_tokens * EACH * bandwidth

# %% wrong: hides behind the whole step => values wrong-window unless behind=step  from: in formulas
# ~ flops / 4 ==> flops / 6
# ~ batch_tokens * 4 * bandwidth ==> batch_tokens * 6 * bandwidth

# %% wrong: very many ranks => values endless-ring  from: in formulas
# ~ (ranks - 1) / ranks * grad_bytes ==> grad_bytes

# %% wrong: one half of the ring => values one-half  from: in formulas
# ~ 2 * (ranks - 1) ==> (ranks - 1)
# ~ 2 * grad_bytes ==> grad_bytes

# %% wrong: bits => values bits  from: in formulas
# ~ grad_bytes / bandwidth ==> grad_bytes * 8 / bandwidth

# %% wrong: tokens of all GPUs => values all-gpus  from: in formulas
# ~ * (ranks - 1) / ranks * grad_bytes / bandwidth * flops ==> * (ranks - 1) * grad_bytes / bandwidth * flops

# %% wrong: the forward pass only => values forward-only  from: in formulas
# ~ flops / 4 ==> flops / 2

# %% wrong: forgets that the ring's factor shrinks => values one-too-few  from: in formulas
# -     return math.floor(1 + batch_tokens * 4 * bandwidth / (2 * grad_bytes * flops))
# +     return max(1, int(batch_tokens / (2 * grad_bytes / bandwidth * flops / 4)))

# %% wrong: rounds up => generality rounded-up  from: in formulas
# ~ floor ==> ceil

# %% wrong: a fraction of a GPU => generality not-whole  from: in formulas
# ~ math.floor ==> float

# %% wrong: the shown numbers learnt by heart => values -  from: in formulas
# ~ (ranks - 1) / ranks * grad_bytes / bandwidth * flops ==> 63 / 64 * 2 / 50e9 * 400e12
# ~ math.floor(1 + batch_tokens * 4 * bandwidth / (2 * grad_bytes * flops)) ==> 251

# %% wrong: always 16 bits => generality -  from: in formulas
# ~ 2 * (ranks - 1) / ranks * grad_bytes ==> 4 * (ranks - 1) / ranks
# ~ 2 * grad_bytes ==> 4

# %% wrong: rounds tokens => generality rounded  from: in formulas
# -     return 2 * (ranks - 1) / ranks * grad_bytes / bandwidth * flops / 4
# +     return round(flops / 4 * 2 * grad_bytes * (ranks - 1) / (ranks * bandwidth))

# %% wrong: none for one => generality -  from: in formulas
# -     return math.floor(1 + batch_tokens * 4 * bandwidth / (2 * grad_bytes * flops))
# +     n = int(1 + batch_tokens * 4 * bandwidth / (2 * grad_bytes * flops))
# +     return n if n > 1 else 0

# %% wrong: powers of two => values -  from: in formulas
# -     return math.floor(1 + batch_tokens * 4 * bandwidth / (2 * grad_bytes * flops))
# +     return 2 ** int(math.log2(1 + batch_tokens * 4 * bandwidth / (2 * grad_bytes * flops)))

# %% wrong: text => values not-a-number  from: the shown numbers learnt by heart
# ~ 2 * 63 / 64 * 2 / 50e9 * 400e12 / 4 ==> "7875 tokens"

# %% half: the tokens alone => 2.8  from: in formulas
# ~ return math.floor(1 + batch_tokens * 4 * bandwidth / (2 * grad_bytes * flops)) ==> raise NotImplementedError

# %% wrong: at most 1,024 ranks => generality ~  from: in formulas
# ~ (ranks - 1) / ranks * ==> (min(ranks, 1024) - 1) / min(ranks, 1024) *
