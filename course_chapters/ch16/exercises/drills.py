"""One-line questions of chapter 16, with other numbers every time."""

from course_grader.exercises import of_chapter, pick

_drill = of_chapter("16")

DRILLS = (
    _drill(
        "kv-of-a-token",
        "A model has {{layers}} layers with {{heads}} query heads and {{kv}} KV heads of 128 numbers each, kept in 16 "
        "bits. How many kB of KV cache does a token take?",
        "kB (1,000 bytes)",
        {"layers": 32, "heads": 32, "kv": 8},
        pick(layers=(28, 32, 40, 48, 64, 80), heads=(32, 64), kv=(2, 4, 8)),
    ),
    _drill(
        "fastest-token",
        "A model of {{params:count}} parameters in {{bytes}} bytes each runs on a GPU with {{tbps}} TB/s. How many "
        "milliseconds does a token of one request take at least, because the weights have to be read?",
        "milliseconds",
        {"params": 8e9, "bytes": 2, "tbps": 3.35},
        pick(params=(7e9, 8e9, 14e9, 32e9), bytes=(1, 2), tbps=(2.0, 3.35, 4.8)),
    ),
    _drill(
        "ridge-without-cache",
        "Weights of {{bytes}} bytes, a GPU with {{tflops}} TFLOP/s and {{tbps}} TB/s, short contexts. At which "
        "batch does a decode step take as long to compute as to read?",
        "requests",
        {"bytes": 2, "tflops": 989, "tbps": 3.35},
        pick(bytes=(1, 2), tflops=(312, 989, 1979), tbps=(2.0, 3.35, 4.8)),
    ),
    _drill(
        "prefill-time",
        "A prompt of {{tokens:int}} tokens for a model of {{params:count}} parameters, on a GPU that sustains "
        "{{tflops}} TFLOP/s. How long does its prefill take, without attention?",
        "seconds",
        {"tokens": 4096, "params": 8e9, "tflops": 500},
        pick(tokens=(2048, 4096, 8192, 16384), params=(8e9, 14e9, 32e9), tflops=(150, 400, 500)),
    ),
    _drill(
        "speculated-tokens",
        "A draft model proposes {{guesses}} tokens, and each is accepted with probability {{rate}} whatever came "
        "before. How many tokens does a step yield on average?",
        "tokens",
        {"guesses": 4, "rate": 0.8},
        pick(guesses=(2, 3, 4, 5, 8), rate=(0.5, 0.6, 0.7, 0.8, 0.9)),
    ),
    _drill(
        "in-the-system",
        "{{rate}} requests per second stay {{seconds}} seconds each. How many are in the system on average?",
        "requests",
        {"rate": 12, "seconds": 8},
        pick(rate=(3, 12, 25, 40), seconds=(2, 8, 15, 30)),
    ),
    _drill(
        "mean-wait",
        "Requests come at random to a server that takes {{service}} s for each and is busy {{busy}} % of the time. "
        "How long does a request wait on average before its service?",
        "seconds",
        {"service": 2, "busy": 80},
        pick(service=(0.5, 1, 2, 4), busy=(50, 75, 80, 90)),
    ),
    _drill(
        "dollars-a-million",
        "{{gpus}} GPUs at {{usd}} dollars an hour each give {{speed:int}} tokens per second together and are busy "
        "{{busy}} % of the time. How many dollars do a million tokens cost?",
        "dollars",
        {"gpus": 4, "usd": 2.5, "speed": 3000, "busy": 50},
        pick(gpus=(1, 2, 4, 8), usd=(2.0, 2.5, 4.0), speed=(800, 2000, 3000, 6000), busy=(20, 40, 50, 80)),
    ),
)
