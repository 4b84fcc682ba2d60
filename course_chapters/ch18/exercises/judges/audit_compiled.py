from course_chapters.ch18.exercises.audit_compiled import CAUSES, ITEMS
from course_grader.judging import Worked
from course_grader.judging.audit import audit

JUDGING = audit(
    ITEMS,
    Worked("audit-compiled"),
    CAUSES,
    why="""With torch.compile the run makes more tokens, so its MFU is the higher one, and “respectively” has the two in
the wrong order. Most of a large-batch step is matmuls, which fusion leaves as they are, so the step saves far less
than its small kernels. A compiled function costs tens of microseconds for each call, guards included, but a further
kernel in it costs its preamble, its binding and its launch: 6.8 µs. The other four are right.""",
    pytorch="`torch.utils.flop_counter.FlopCounterMode` counts the FLOP of a step, and `torch.profiler` its launches.",
)

ANSWERS = r'''# %% right: worked
def audit_compiled() -> dict[str, tuple[float, str, str]]:
    """(number, "right" or "wrong", cause) of each statement, by id."""
    flop = 6 * 7.50e9 + 12 * 32 * 4096 * 8192  # of a token
    right = "right", "as printed"
    return {
        "titan-mfu-compiled": (100 * 6667 * flop / 989e12, "wrong", "swapped"),
        "gpt-fast-bandwidth": (104.9 * 6.61e9 * 2 / 1e9, *right),
        "block-reduction": (100 * (1 - 5762 / 6667), "wrong", "small kernels alone"),
        "gpt-fast-four-times": (104.9 / 25.5, *right),
        "liger-speedup": (234.76 / 177.21, *right),
        "liger-tokens": (4096 / 0.17721, *right),
        "inductor-launch": (2.1 + 1.7 + 3.0, "wrong", "a whole call"),
    }
# %% right: by hand, lists, other letters
# ~ (100 * 6667 * flop / 989e12, "wrong", "swapped") ==> [39, "Wrong", "Swapped"]
# ~ 104.9 * 6.61e9 * 2 / 1e9 ==> 1387
# ~ 104.9 / 25.5 ==> 4.1
# ~ 2.1 + 1.7 + 3.0 ==> 6.8
# %% wrong: attention left out => values
# > attention's FLOP are missing: 12 · layers · width · length for each token.
# ~ 6 * 7.50e9 + 12 * 32 * 4096 * 8192 ==> 6 * 7.50e9
# %% wrong: one byte a parameter => values
# > a parameter has two bytes here.
# ~ 6.61e9 * 2 / 1e9 ==> 6.61e9 / 1e9
# %% wrong: more tokens, not less time => values
# > this is how many more tokens a second there are, not how much less time a token takes.
# ~ 1 - 5762 / 6667 ==> 6667 / 5762 - 1
# %% wrong: the whole call => values
# > this is a call with one kernel, not one more kernel in it.
# ~ 2.1 + 1.7 + 3.0 ==> 44.3
# %% wrong: the printed numbers => values blind
# ~ return { ==> printed = {
#       }
# +     return {name: (number, *right) for name, number in zip(printed, (33, 1397.31, 30, 4, 1.32, 23113, 33))}
# %% wrong: everything is right => values wrong-verdict
# ~ return { ==> found = {
#       }
# +     return {name: (number, *right) for name, (number, _, _) in found.items()}
# %% wrong: another cause => values wrong-cause
# ~ "a whole call" ==> "decimal point"
# %% wrong: left as it is => not-answered
# ~ right = "right", "as printed" ==> raise NotImplementedError
# %% half: one statement is missing => 6
# -         "liger-tokens": (4096 / 0.17721, *right),
'''
