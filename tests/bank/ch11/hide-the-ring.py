import math

from course_lib import params

PAIRS = {"all": 4, "causal": 2}[params("hide-the-ring").seen]


# %% right: the larger root
def fewest_tokens(flops, bandwidth, latency, heads, kv_heads, width):
    a, b = PAIRS * heads * width / flops, 4 * kv_heads * width / bandwidth
    return max(1, math.ceil((b + math.sqrt(b * b + 4 * a * latency)) / (2 * a)))


# %% right: by bisection
def fewest_tokens(flops, bandwidth, latency, heads, kv_heads, width):
    def hidden(c):
        return PAIRS * c * c * heads * width / flops >= latency + 4 * c * kv_heads * width / bandwidth

    low, high = 0, 1
    while not hidden(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if hidden(middle) else (middle, high)
    return high


# %% wrong: the other mask => values other-mask  from: the larger root
# ~ PAIRS ==> (6 - PAIRS)

# %% wrong: no latency => values no-latency  from: the larger root
# ~ (b + math.sqrt(b * b + 4 * a * latency)) / (2 * a) ==> b / a

# %% wrong: rounded down => values rounded-down  from: the larger root
# ~ ceil ==> floor

# %% wrong: one more than the bound => generality one-more  from: the larger root
# ~ ceil((b + math.sqrt(b * b + 4 * a * latency)) / (2 * a)) ==> floor((b + math.sqrt(b * b + 4 * a * latency)) / (2 * a)) + 1

# %% wrong: query heads travel => values query-heads  from: the larger root
# ~ 4 * kv_heads * width ==> 4 * heads * width

# %% wrong: keys without values => values keys-alone  from: the larger root
# ~ flops, 4 * kv_heads ==> flops, 2 * kv_heads

# %% wrong: one more where computation and latency meet exactly => generality one-more  from: the larger root
# -     return max(1, math.ceil((b + math.sqrt(b * b + 4 * a * latency)) / (2 * a)))
# +     c = (b + math.sqrt(b * b + 4 * a * latency)) / (2 * a)
# +     return max(1, math.floor(c) + 1 if latency else math.ceil(c))

# %% wrong: a thousandth over is as good => generality rounded-down  from: the larger root
# ~ / (2 * a) ==> / (2 * a) - 1e-3

# %% wrong: a latency of a millisecond at most => generality ~  from: the larger root
# ~ 4 * a * latency ==> 4 * a * min(latency, 1e-3)
