# %% right: as written
def kv_bytes(layers, heads, kv_heads, size, number, tokens):
    return 2 * layers * kv_heads * size * number * tokens


def windowed_bytes(layers, every, kv_heads, size, number, tokens, window):
    whole = layers // every
    kept = whole * tokens + (layers - whole) * min(tokens, window)
    return 2 * kv_heads * size * number * kept


def latent_bytes(layers, latent, rope, number, tokens):
    return layers * (latent + rope) * number * tokens


# %% right: layer by layer
def kv_bytes(layers, heads, kv_heads, size, number, tokens):
    keys = layers * kv_heads * size * tokens
    return (keys + keys) * float(number)


def windowed_bytes(layers, every, kv_heads, size, number, tokens, window):
    per_token = kv_bytes(1, None, kv_heads, size, number, 1)
    return sum(per_token * (tokens if layer % every == 0 else min(window, tokens)) for layer in range(layers))


def latent_bytes(layers, latent, rope, number, tokens):
    return sum(number * tokens * part * layers for part in (latent, rope))


# %% wrong: query heads => values query-heads  from: as written
# ~ layers * kv_heads * size ==> layers * heads * size

# %% wrong: keys without values => values keys-only  from: as written
# ~ 2 * layers ==> layers

# %% wrong: one token => values one-token  from: as written
# ~ size * number * tokens ==> size * number

# %% wrong: two bytes each => values two-bytes  from: as written
# ~ size * number * tokens ==> size * 2 * tokens

# %% wrong: the window is always full => generality always-a-window  from: as written
# ~ min(tokens, window) ==> window

# %% wrong: all layers have a window => values all-windowed  from: as written
# ~ whole * tokens + (layers - whole) ==> layers

# %% wrong: the wrong layers keep everything => values swapped  from: as written
# ~ whole * tokens + (layers - whole) ==> (layers - whole) * tokens + whole

# %% wrong: latent keys and values => values keys-and-values  from: as written
# ~ return layers * (latent + rope) * number * tokens ==> return 2 * layers * (latent + rope) * number * tokens

# %% wrong: a latent in two bytes => values two-bytes  from: as written
# ~ (latent + rope) * number * tokens ==> (latent + rope) * 2 * tokens


# %% wrong: the example => values only-the-example
def kv_bytes(layers, heads, kv_heads, size, number, tokens):
    return 2684354560


def windowed_bytes(layers, every, kv_heads, size, number, tokens, window):
    return 436207616


def latent_bytes(layers, latent, rope, number, tokens):
    return 287834112


# %% wrong: remembers bytes a token by layers and heads => values -  from: as written
# ~ heads, kv_heads, size, number, tokens): ==> heads, kv_heads, size, number, tokens, kept={}):
# ~ return 2 * layers * kv_heads * size * number * tokens ==> return tokens * kept.setdefault((layers, heads, kv_heads, size), 2 * layers * kv_heads * size * number)

# %% wrong: left as it is => not-answered  from: as written
#   def kv_bytes(layers, heads, kv_heads, size, number, tokens):
# +     raise NotImplementedError

# %% half: no window => 3  from: as written
# -     kept = whole * tokens + (layers - whole) * min(tokens, window)
# +     kept = layers * tokens
