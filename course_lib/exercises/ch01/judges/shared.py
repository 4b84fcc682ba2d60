"""What several of chapter 01's judges use."""

from course_lib import facts

H100 = float(facts.device("H100 SXM").dense_flops)

LLAMA, GPT3 = facts.run("Llama 3.1 405B"), facts.run("GPT-3 175B")


def work(params: float, tokens: float) -> float:
    """FLOP of training."""
    return 6 * params * tokens
