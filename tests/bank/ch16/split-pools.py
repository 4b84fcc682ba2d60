# %% right: as written
def requests_per_second(prefill, decode, prompt, answer, kv, prefill_speed, decode_speed, link):
    busy = max(prompt / prefill_speed, prompt * kv / link)
    return min(prefill / busy, decode * decode_speed / answer)


def best_split(gpus, prompt, answer, kv, prefill_speed, decode_speed, link):
    rest = prompt, answer, kv, prefill_speed, decode_speed, link
    return max(range(1, gpus), key=lambda prefill: requests_per_second(prefill, gpus - prefill, *rest))


# %% right: in a loop
from course_lib import params

SENDS = params("split-pools").sends


def requests_per_second(prefill, decode, prompt, answer, kv, prefill_speed, decode_speed, link):
    slowness = [1 / prefill_speed, kv / link]
    speed = 1 / max(slowness) if SENDS == "overlaps" else 1 / sum(slowness)
    return min(prefill * speed / prompt, decode * decode_speed / answer)


def best_split(gpus, prompt, answer, kv, prefill_speed, decode_speed, link):
    best, most = None, -1
    for decode in range(gpus - 1, 0, -1):
        pace = requests_per_second(gpus - decode, decode, prompt, answer, kv, prefill_speed, decode_speed, link)
        if pace > most * (1 + 1e-12):
            best, most = gpus - decode, pace
    return best


# %% wrong: sending takes no time => generality no-sending  from: as written
# ~ max(prompt / prefill_speed, prompt * kv / link) ==> prompt / prefill_speed

# %% wrong: sending waits => values other-sending unless sends=waits  from: as written
# ~ max(prompt / prefill_speed, prompt * kv / link) ==> prompt / prefill_speed + prompt * kv / link

# %% wrong: the pools add up => values sum  from: as written
# ~ min(prefill / busy, decode * decode_speed / answer) ==> prefill / busy + decode * decode_speed / answer

# %% wrong: prefill alone => values -  from: as written
# ~ min(prefill / busy, decode * decode_speed / answer) ==> prefill / busy

# %% wrong: tokens per second => values tokens  from: as written
# ~ min ==> answer * min

# %% wrong: the GPUs of the other pool => values decode-gpus  from: as written
# -     return max(range(1, gpus), key=lambda prefill: requests_per_second(prefill, gpus - prefill, *rest))
# +     return gpus - max(range(1, gpus), key=lambda prefill: requests_per_second(prefill, gpus - prefill, *rest))

# %% wrong: half and half => values halves  from: as written
# ~ max(range(1, gpus), key=lambda prefill: requests_per_second(prefill, gpus - prefill, *rest)) ==> gpus // 2

# %% wrong: more of equals => generality more-of-equals  from: as written
# ~ 1, gpus ==> gpus - 1, 0, -1

# %% wrong: 64 prefill GPUs at most => generality -  from: as written
# ~ 1, gpus ==> 1, min(gpus, 65)

# %% wrong: left as it is => not-answered  from: as written
#   def requests_per_second(prefill, decode, prompt, answer, kv, prefill_speed, decode_speed, link):
# +     raise NotImplementedError
