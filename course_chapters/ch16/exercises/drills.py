"""One-line questions of chapter 16, with other numbers every time."""

from course_grader.exercises import asking

_drill = asking("16")

DRILLS = (
    _drill("kv-of-a-token", "kB (1,000 bytes)", layers=(32, 28, 40, 48, 64, 80), heads=(32, 64), kv=(8, 2, 4))(
        "A model has {{layers}} layers with {{heads}} query heads and {{kv}} KV heads of 128 numbers each, kept in 16 "
        "bits. How many kB of KV cache does a token take?"
    ),
    _drill("fastest-token", "milliseconds", params=(8e9, 7e9, 14e9, 32e9), bytes=(2, 1), tbps=(3.35, 2.0, 4.8))(
        "A model of {{params:count}} parameters in {{bytes}} bytes each runs on a GPU with {{tbps}} TB/s. How many "
        "milliseconds does a token of one request take at least, because the weights have to be read?"
    ),
    _drill("ridge-without-cache", "requests", bytes=(2, 1), tflops=(989, 312, 1979), tbps=(3.35, 2.0, 4.8))(
        "Weights of {{bytes}} bytes, a GPU with {{tflops}} TFLOP/s and {{tbps}} TB/s, short contexts. At which batch "
        "does a decode step take as long to compute as to read?"
    ),
    _drill(
        "prefill-time", "seconds", tokens=(4096, 2048, 8192, 16384), params=(8e9, 14e9, 32e9), tflops=(500, 150, 400)
    )(
        "A prompt of {{tokens:int}} tokens for a model of {{params:count}} parameters, on a GPU that sustains "
        "{{tflops}} TFLOP/s. How long does its prefill take, without attention?"
    ),
    _drill("speculated-tokens", "tokens", guesses=(4, 2, 3, 5, 8), rate=(0.8, 0.5, 0.6, 0.7, 0.9))(
        "A draft model proposes {{guesses}} tokens, and each is accepted with probability {{rate}} whatever came "
        "before. How many tokens does a step yield on average?"
    ),
    _drill("in-the-system", "requests", rate=(12, 3, 25, 40), seconds=(8, 2, 15, 30))(
        "{{rate}} requests per second stay {{seconds}} seconds each. How many are in the system on average?"
    ),
    _drill("mean-wait", "seconds", service=(2, 0.5, 1, 4), busy=(80, 50, 75, 90))(
        "Requests come at random to a server that takes {{service}} s for each and is busy {{busy}} % of the time. "
        "How long does a request wait on average before its service?"
    ),
    _drill(
        "dollars-a-million",
        "dollars",
        gpus=(4, 1, 2, 8),
        usd=(2.5, 2.0, 4.0),
        speed=(3000, 800, 2000, 6000),
        busy=(50, 20, 40, 80),
    )(
        "{{gpus}} GPUs at {{usd}} dollars an hour each give {{speed:int}} tokens per second together and are busy "
        "{{busy}} % of the time. How many dollars do a million tokens cost?"
    ),
)
