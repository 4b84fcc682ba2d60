from course_grader.judging import Params, prediction
from course_lib.estimate.units import bytes_text, number_text


def decode_rate(params: Params) -> float:
    """Tokens a second for one user: the slower of reading and computing every weight once."""
    return 1 / max(2 * params["params"] / params["bandwidth"], 2 * params["params"] / params["flops"])


def _decode_reveal(params: Params) -> str:
    rate = decode_rate(params)
    return (
        f"At most {number_text(rate)} tokens a second: every token reads {bytes_text(2 * params['params'])} of "
        f"weights, which takes {number_text(1e3 / rate)} ms. The arithmetic alone would do "
        f"{number_text(params['flops'] / (2 * params['params']))} tokens a second, "
        f"{number_text(params['flops'] / params['bandwidth'])} times as many, and it is idle for the rest."
    )


JUDGING = prediction(
    unit="tokens a second",
    reveal=_decode_reveal,
    truth=decode_rate,
    why="Generating for one user performs one FLOP per byte, and the device needs hundreds to be busy. So it runs at "
    "the memory's speed, and the peak does not matter: divide the bytes of all weights by the bytes per second.",
)

ANSWERS = r'''# %% right: worked
one = params("predict-decode-rate")  # leave as is: your variant: one.params, one.flops, one.bandwidth


def tokens_interval() -> tuple[float, float]:
    """(low, high): the interval in which you expect the rate in tokens per second, with high at most 4 × low."""
    weights = 2 * one.params  # bytes, all of them read for every token
    guess = one.bandwidth / weights
    return guess / 2, guess * 1.2
# %% right: far off, exactly a factor of four, a list
# ~ guess / 2, guess * 1.2 ==> [10_000.0, 40_000.0]
# %% wrong: words => values not-numbers
# ~ guess / 2, guess * 1.2 ==> "about 200", "400"
'''
