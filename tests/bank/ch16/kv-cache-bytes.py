# %% right: as written
def kv_bytes(layers, heads, kv_heads, size, number, tokens):
    return 2 * layers * kv_heads * size * number * tokens


def windowed_bytes(layers, every, kv_heads, size, number, tokens, window):
    whole = layers // every
    kept = whole * tokens + (layers - whole) * min(tokens, window)
    return 2 * kv_heads * size * number * kept


def latent_bytes(layers, latent, rope, number, tokens):
    return layers * (latent + rope) * number * tokens


# %% right: layer by layer, a float  from: as written
# ~ return 2 * layers * kv_heads * size * number * tokens ==> return layers * kv_heads * size * tokens * 2 * float(number)
# -     whole = layers // every
# -     kept = whole * tokens + (layers - whole) * min(tokens, window)
# +     kept = sum(min(window, tokens) if layer % every else tokens for layer in range(layers))

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

# %% wrong: the example => values only-the-example  from: as written
# ~ return 2 * layers * kv_heads * size * number * tokens ==> return 2684354560
# ~ return 2 * kv_heads * size * number * kept ==> return 436207616
# ~ return layers * (latent + rope) * number * tokens ==> return 287834112

# %% wrong: remembers bytes a token by layers and heads => values -  from: as written
# ~ heads, kv_heads, size, number, tokens): ==> heads, kv_heads, size, number, tokens, kept={}):
# ~ return 2 * layers * kv_heads * size * number * tokens ==> return tokens * kept.setdefault((layers, heads, kv_heads, size), 2 * layers * kv_heads * size * number)

# %% wrong: left as it is => not-answered  from: as written
# ~ return 2 * layers * kv_heads * size * number * tokens ==> raise NotImplementedError

# %% half: no window => 3  from: as written
# ~ whole * tokens + (layers - whole) * min(tokens, window) ==> layers * tokens
