import statistics


# %% right: every repeat on an empty queue
def time_kernel(device, repeats):
    for _ in range(5):
        device.launch()
    times = []
    for _ in range(repeats):
        device.synchronize()
        start = device.now()
        device.launch()
        device.synchronize()
        times.append(device.now() - start)
    return statistics.median(times)


# %% right: no warm-up but a median, wait carried over
import numpy as np


def time_kernel(device, repeats):
    device.synchronize()
    marks = [device.now()]
    for _ in range(repeats):
        device.launch()
        device.synchronize()
        marks.append(device.now())
    return np.median(np.diff(marks))


# %% wrong: waits before, not after => values hasty  from: every repeat on an empty queue
# -     for _ in range(5):
# -         device.launch()
#           device.launch()
# -         device.synchronize()


# %% wrong: only the last wait was added => values pending-work
def time_kernel(device, repeats):
    start = device.now()
    for _ in range(repeats):
        device.launch()
    device.synchronize()
    return (device.now() - start) / repeats


# %% wrong: no warm-up => values warm-up-counted  from: only the last wait was added
#   def time_kernel(device, repeats):
# +     device.synchronize()

# %% wrong: a mean over the disturbed ones too => values mean  from: only the last wait was added
#   def time_kernel(device, repeats):
# +     for _ in range(5):
# +         device.launch()
# +     device.synchronize()

# %% wrong: all repeats together => values -  from: a mean over the disturbed ones too
# ~ (device.now() - start) / repeats ==> device.now() - start

# %% wrong: in milliseconds => values milliseconds  from: waits before, not after
# -         times.append(device.now() - start)
# +         device.synchronize()
# +         times.append(1e3 * (device.now() - start))

# %% wrong: the slowest repeat => values -  from: every repeat on an empty queue
# -     for _ in range(5):
# -         device.launch()
# ~ statistics.median ==> max


# %% wrong: never stops => raised
def time_kernel(device, repeats):
    while device.now() < 1e9:
        device.launch()
    return device.now()


# %% wrong: right for the matmul shown only => values -  from: the slowest repeat
# ~ max(times) ==> min(statistics.median(times), 1.38e-3)

# %% wrong: eleven repeats, whatever is asked for => generality -  from: every repeat on an empty queue
# ~ range(repeats): ==> range(11):
