# %% right: as written
def requests_per_second(prefill, decode, prompt, answer, kv, prefill_speed, decode_speed, link):
    busy = max(prompt / prefill_speed, prompt * kv / link)
    return min(prefill / busy, decode * decode_speed / answer)


def best_split(gpus, prompt, answer, kv, prefill_speed, decode_speed, link):
    rest = prompt, answer, kv, prefill_speed, decode_speed, link
    return max(range(1, gpus), key=lambda prefill: requests_per_second(prefill, gpus - prefill, *rest))


# %% right: in a loop
def requests_per_second(prefill, decode, prompt, answer, kv, prefill_speed, decode_speed, link):
    speed = min(prefill_speed, link / kv) if kv else prefill_speed
    return min(prefill * speed / prompt, decode * decode_speed / answer)


def best_split(gpus, prompt, answer, kv, prefill_speed, decode_speed, link):
    best, most = None, -1
    for decode in range(gpus - 1, 0, -1):
        pace = requests_per_second(gpus - decode, decode, prompt, answer, kv, prefill_speed, decode_speed, link)
        if pace > most * (1 + 1e-12):
            best, most = gpus - decode, pace
    return best


# %% right: any variant  from: as written
# - def requests_per_second(prefill, decode, prompt, answer, kv, prefill_speed, decode_speed, link):
# -     busy = max(prompt / prefill_speed, prompt * kv / link)
# + from course_lib import params
# + SENDS = params("split-pools").sends
# +
# +
# + def requests_per_second(prefill, decode, prompt, answer, kv, prefill_speed, decode_speed, link):
# +     both = prompt / prefill_speed, prompt * kv / link
# +     busy = max(both) if SENDS == "overlaps" else sum(both)

# %% wrong: sending takes no time => generality no-sending  from: as written
# -     busy = max(prompt / prefill_speed, prompt * kv / link)
# +     busy = prompt / prefill_speed

# %% wrong: sending waits => values other-sending unless sends=waits  from: as written
# -     busy = max(prompt / prefill_speed, prompt * kv / link)
# +     busy = prompt / prefill_speed + prompt * kv / link

# %% wrong: the pools add up => values sum  from: as written
# -     return min(prefill / busy, decode * decode_speed / answer)
# +     return prefill / busy + decode * decode_speed / answer

# %% wrong: prefill alone => values -  from: as written
# -     return min(prefill / busy, decode * decode_speed / answer)
# +     return prefill / busy

# %% wrong: tokens per second => values tokens  from: as written
# -     return min(prefill / busy, decode * decode_speed / answer)
# +     return answer * min(prefill / busy, decode * decode_speed / answer)

# %% wrong: the GPUs of the other pool => values decode-gpus  from: as written
# -     return max(range(1, gpus), key=lambda prefill: requests_per_second(prefill, gpus - prefill, *rest))
# +     return gpus - max(range(1, gpus), key=lambda prefill: requests_per_second(prefill, gpus - prefill, *rest))

# %% wrong: half and half => values halves  from: as written
# -     return max(range(1, gpus), key=lambda prefill: requests_per_second(prefill, gpus - prefill, *rest))
# +     return gpus // 2

# %% wrong: more of equals => generality more-of-equals  from: as written
# -     return max(range(1, gpus), key=lambda prefill: requests_per_second(prefill, gpus - prefill, *rest))
# +     return max(range(gpus - 1, 0, -1), key=lambda prefill: requests_per_second(prefill, gpus - prefill, *rest))


# %% wrong: left as it is => not-answered
def requests_per_second(*given):
    raise NotImplementedError


best_split = requests_per_second
