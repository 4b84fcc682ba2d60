"""Judge of predict-decode-rate: predict: one user, one GPU."""

from course_lib.judging import Params, prediction
from course_lib.units import bytes_text, number_text


def decode_rate(params: Params) -> float:
    """Tokens a second for one user: the slower of reading and computing every weight once."""
    return 1 / max(2 * params["params"] / params["bandwidth"], 2 * params["params"] / params["flops"])


def _decode_reveal(params: Params) -> str:
    rate = decode_rate(params)
    return (
        f"At most {number_text(rate)} tokens a second: every token reads {bytes_text(2 * params['params'])} of weights, "
        f"which takes {number_text(1e3 / rate)} ms. The arithmetic alone would do "
        f"{number_text(params['flops'] / (2 * params['params']))} tokens a second, "
        f"{number_text(params['flops'] / params['bandwidth'])} times as many, and it is idle for the rest."
    )


JUDGING = prediction(
    unit="tokens a second",
    reveal=_decode_reveal,
    truth=decode_rate,
    why="Generating for one user performs one FLOP per byte, and the device needs hundreds to be busy. So it runs at the "
    "memory's speed, and the peak does not matter: divide the bytes of all weights by the bytes per second.",
)

ANSWERS = r"""# %% right: around the memory's rate
def tokens_interval():
    return 100, 400


# %% right: far off, exactly a factor of four, a list
def tokens_interval():
    guess = 20_000.0
    return [guess / 2, guess * 2]


# %% wrong: too wide => values too-wide  from: around the memory's rate
# ~ 100, 400 ==> 10, 1000

# %% wrong: turned round => values reversed  from: around the memory's rate
# ~ 100, 400 ==> 400, 100

# %% wrong: one number => values not-a-pair  from: around the memory's rate
# ~ 100, 400 ==> 208

# %% wrong: words => values not-numbers  from: around the memory's rate
# ~ 100, 400 ==> "about 200", "400"
"""
