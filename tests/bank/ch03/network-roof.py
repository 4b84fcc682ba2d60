# %% right: three times, the longest
def three_roofs(flop, memory_bytes, network_bytes, flops, bandwidth, network):
    times = {"compute": flop / flops, "memory": memory_bytes / bandwidth, "network": network_bytes / network}
    bound = max(times, key=times.get)
    return flop / times[bound], bound


# %% right: three roofs, the lowest
import math


def three_roofs(flop, memory_bytes, network_bytes, flops, bandwidth, network):
    roofs = [
        (flops, "compute"),
        (bandwidth * flop / memory_bytes, "memory"),
        (network * flop / network_bytes if network_bytes else math.inf, "network"),
    ]
    return list(min(roofs))


# %% right: any variant  from: three times, the longest
# - def three_roofs(flop, memory_bytes, network_bytes, flops, bandwidth, network):
# + from course_lib import params
# + WAYS = 2 if params("network-roof").network_kind == "both ways" else 1
# + def three_roofs(flop, memory_bytes, network_bytes, flops, bandwidth, network):
# ~ : network_bytes ==> : WAYS * network_bytes

# %% wrong: sends through the memory => values no-network  from: three times, the longest
# ~ network} ==> bandwidth}

# %% wrong: one intensity for both => values one-intensity  from: three roofs, the lowest
# ~ network * flop / network_bytes ==> network * flop / memory_bytes

# %% wrong: halves a one-way wire => values other-direction unless network_kind=both ways  from: three times, the longest
# ~ : network_bytes ==> : 2 * network_bytes

# %% wrong: nothing overlaps => values sum-of-times  from: three times, the longest
# ~ return flop / times[bound], bound ==> return flop / sum(times.values()), bound

# %% wrong: the peak => values the-peak  from: three times, the longest
# ~ flop / times[bound], bound ==> flops, "compute"

# %% wrong: names of its own => values no-such-word  from: three times, the longest
# -     times = {"compute": flop / flops, "memory": memory_bytes / bandwidth, "network": network_bytes / network}
# +     times = {"FLOPs": flop / flops, "HBM": memory_bytes / bandwidth, "NIC": network_bytes / network}

# %% wrong: the highest roof => values -  from: three times, the longest
# ~ max(times, key=times.get) ==> min(filter(times.get, times), key=times.get)

# %% wrong: the seconds => values seconds  from: three times, the longest
# ~ flop / times ==> times

# %% wrong: one H100 by heart => values -  from: three times, the longest
# ~ flop / flops, "memory": memory_bytes / bandwidth ==> flop / 989e12, "memory": memory_bytes / 3.35e12

# %% wrong: stumbles over nothing sent => raised  from: three times, the longest
# ~ network_bytes / network} ==> 1 / (network / network_bytes)}

# %% half: the names only => 3.75  from: three times, the longest
# ~ return flop / times[bound], bound ==> return 0.0, bound
