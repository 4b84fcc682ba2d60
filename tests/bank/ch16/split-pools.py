# %% right: as written
def requests_per_second(prefill, decode, prompt, answer, kv, prefill_speed, decode_speed, link):
    busy = max(prompt / prefill_speed, prompt * kv / link)
    return min(prefill / busy, decode * decode_speed / answer)


def best_split(gpus, prompt, answer, kv, prefill_speed, decode_speed, link):
    rest = prompt, answer, kv, prefill_speed, decode_speed, link
    return max(range(gpus), key=lambda prefill: requests_per_second(prefill, gpus - prefill, *rest))


# %% right: any variant  from: as written
# - def requests_per_second(prefill, decode, prompt, answer, kv, prefill_speed, decode_speed, link):
# -     busy = max(prompt / prefill_speed, prompt * kv / link)
# + from course_lib import params
# + TOGETHER = max if params("split-pools").sends == "overlaps" else sum
# + def requests_per_second(prefill, decode, prompt, answer, kv, prefill_speed, decode_speed, link):
# +     busy = prompt * TOGETHER([1 / prefill_speed, kv / link])

# %% wrong: sending takes no time => generality no-sending  from: as written
# ~ max(prompt / prefill_speed, prompt * kv / link) ==> prompt / prefill_speed

# %% wrong: sending waits => values other-sending unless sends=waits  from: as written
# ~ max(prompt / prefill_speed, prompt * kv / link) ==> prompt / prefill_speed + prompt * kv / link

# %% wrong: the pools add up => values sum  from: as written
# ~ min(prefill / busy, decode * decode_speed / answer) ==> prefill / busy + decode * decode_speed / answer
# ~ range(gpus) ==> range(1, gpus)

# %% wrong: prefill alone => values -  from: as written
# ~ min(prefill / busy, decode * decode_speed / answer) ==> prefill / busy

# %% wrong: tokens per second => values tokens  from: as written
# ~ min ==> answer * min

# %% wrong: the GPUs of the other pool => values decode-gpus  from: as written
# ~ max(range ==> gpus - max(range

# %% wrong: half and half => values halves  from: as written
# ~ max(range(gpus), key=lambda prefill: requests_per_second(prefill, gpus - prefill, *rest)) ==> gpus // 2

# %% wrong: more of equals => generality more-of-equals  from: as written
# ~ range(gpus) ==> range(gpus)[::-1]

# %% wrong: 64 prefill GPUs at most => generality -  from: as written
# ~ range(gpus) ==> range(min(gpus, 65))

# %% wrong: left as it is => not-answered  from: as written
# ~ busy = max(prompt / prefill_speed, prompt * kv / link) ==> raise NotImplementedError
