import math


# %% right: as written
def prefill_seconds(params, layers, width, tokens, number, flops, bandwidth):
    pairs = tokens * (tokens + 1) / 2
    return max((2 * params * tokens + 4 * layers * width * pairs) / flops, params * number / bandwidth)


def decode_seconds(params, number, kv, batch, context, flops, bandwidth):
    return max(2 * params * batch / flops, (params * number + batch * context * kv) / bandwidth)


def ridge_batch(params, number, kv, context, flops, bandwidth):
    gain = 2 * params / flops - kv * context / bandwidth
    return math.ceil(params * number / bandwidth / gain) if gain > 0 else None


# %% right: by doubling and halving  from: as written
def ridge_batch(params, number, kv, context, flops, bandwidth):
    def enough(batch):
        return 2 * params * batch / flops >= params * number / bandwidth + batch * context * kv / bandwidth

    high = 1
    while not enough(high):
        high *= 2
        if high > 1e12:
            return None
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


# %% wrong: no attention => values no-attention  from: as written
# ~ (2 * params * tokens + 4 * layers * width * pairs) ==> 2 * params * tokens

# %% wrong: all pairs => values all-pairs  from: as written
# ~ (tokens + 1) / 2 ==> tokens

# %% wrong: weights are never read => generality never-read  from: as written
# ~ * pairs) / flops, params * number / bandwidth ==> * pairs) / flops, 0

# %% wrong: weights for each request => values weights-each  from: as written
# ~ batch / flops, (params * number + batch * context * kv) ==> batch / flops, batch * (params * number + context * kv)

# %% wrong: the cache is not read => values no-cache  from: as written
# ~ (params * number + batch * context * kv) ==> params * number

# %% wrong: only read => generality never-compute  from: as written
# ~ max(2 * params * batch / flops ==> max(0

# %% wrong: times add up => values sum  from: as written
# ~ max(2 * params * batch / flops, (params ==> (2 * params * batch / flops + (params

# %% wrong: the ridge of the weights => values no-cache  from: as written
# ~ 2 * params / flops - kv * context / bandwidth ==> 2 * params / flops

# %% wrong: there is always a ridge => generality none-is-right  from: as written
# ~ gain) if gain > 0 else None ==> abs(gain)) if gain else 1

# %% wrong: rounded down => values rounded-down  from: as written
# ~ ceil ==> floor

# %% wrong: one too many at an exact ridge => generality one-too-many  from: as written
# ~ ceil(params * number / bandwidth / gain) ==> floor(params * number / bandwidth / gain) + 1

# %% wrong: batches up to 4,096 => generality returned-none  from: as written
# ~ 0 ==> params * number / bandwidth / 4096

# %% wrong: a number takes a byte at least => generality -  from: as written
# ~ pairs) / flops, params * number ==> pairs) / flops, params * max(1, number)

# %% wrong: left as it is => not-answered  from: as written
# ~ pairs = tokens * (tokens + 1) / 2 ==> raise NotImplementedError

# %% half: weights for each request => 2  from: weights for each request
