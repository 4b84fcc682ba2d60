"""One-line questions of chapter 04, with other numbers every time."""

from course_grader.exercises.drilling import of_chapter, pick

_drill = of_chapter("04")

DRILLS = (
    _drill(
        "adamw-by-hand",
        "AdamW, first step: parameter {{theta}}, gradient {{grad}}, learning rate {{rate}}, weight decay {{decay}}, ε "
        "= 0. New parameter?",
        "",
        {"theta": 2.0, "grad": 0.5, "rate": 0.1, "decay": 0.1},
        pick(theta=(1.0, 2.0, 4.0), grad=(0.5, 3.0), rate=(0.1, 0.05), decay=(0.1, 0.2)),
    ),
    _drill(
        "second-step-by-hand",
        "Adam without decay, ε = 0, β₁ = {{one}}, β₂ = {{two}}. Gradients {{first}}, then {{second}}. How many "
        "learning rates is the second update?",
        "learning rates",
        {"one": 0.9, "two": 0.99, "first": 1.0, "second": 3.0},
        pick(one=(0.9, 0.8), two=(0.99, 0.95), first=(1.0, 2.0), second=(3.0, 5.0)),
    ),
    _drill(
        "clip-to-norm",
        "A gradient has two pieces with norms {{left}} and {{right}}. It is clipped at norm {{limit}}. Norm of the "
        "first piece afterwards?",
        "",
        {"left": 3.0, "right": 4.0, "limit": 1.0},
        pick(left=(3.0, 5.0, 8.0), right=(4.0, 12.0, 15.0), limit=(1.0, 2.0)),
    ),
    _drill(
        "warm-up-rate",
        "Linear warm-up over {{warmup:int}} updates to {{peak}} millionths. Learning rate of update {{step:int}}?",
        "millionths",
        {"warmup": 2000, "peak": 300, "step": 500},
        pick(warmup=(1000, 2000, 4000), peak=(80, 300, 600), step=(100, 250, 500)),
    ),
    _drill(
        "cosine-rate",
        "No warm-up, {{total:int}} updates, cosine from {{peak}} to {{floor}} millionths. Learning rate of update "
        "{{step:int}}?",
        "millionths",
        {"total": 12_000, "peak": 300, "floor": 30, "step": 4000},
        pick(total=(12_000, 24_000), peak=(300, 600), floor=(30, 60), step=(3000, 4000, 8000)),
    ),
    _drill(
        "batch-tokens",
        "{{ranks}} data-parallel ranks, micro-batches of {{micro}} sequences of {{seq:int}} tokens, {{accumulated}} "
        "accumulated. Tokens per step?",
        "millions of tokens",
        {"ranks": 128, "micro": 2, "seq": 4096, "accumulated": 4},
        pick(ranks=(32, 64, 128), micro=(1, 2, 4), seq=(2048, 4096, 8192), accumulated=(2, 4, 8)),
    ),
    _drill(
        "adam-state-sharded",
        "{{params:count}} parameters, Adam's two moments and an fp32 master copy, sharded over {{ranks}} GPUs. "
        "Bytes on each?",
        "GB",
        {"params": 7e9, "ranks": 8},
        pick(params=(7e9, 13e9, 70e9), ranks=(8, 16, 64)),
    ),
    _drill(
        "adam-moments",
        "{{params:count}} parameters: how much do Adam's two moments take in fp32, unsharded?",
        "GB",
        {"params": 7e9},
        pick(params=(1e9, 7e9, 13e9, 70e9)),
    ),
    _drill(
        "mean-of-micro-batches",
        "Micro-batch 1 has {{few}} tokens with a mean loss of {{first}}, micro-batch 2 has {{many}} with {{second}}. "
        "Mean loss over all tokens?",
        "",
        {"few": 100, "many": 900, "first": 5.0, "second": 3.0},
        pick(few=(100, 200), many=(600, 900), first=(5.0, 4.0), second=(3.0, 2.0)),
    ),
    _drill(
        "steps-at-batch",
        "A run needs at least {{least:int}} steps at any batch; the critical batch is {{critical}} million tokens. "
        "Steps at a batch of {{batch}} million?",
        "steps",
        {"least": 10_000, "critical": 2, "batch": 4},
        pick(least=(10_000, 20_000, 50_000), critical=(1, 2, 4), batch=(1.5, 3, 8)),
    ),
    _drill(
        "tokens-at-batch",
        "A run needs at least {{least}} billion tokens; the critical batch is {{critical}} million. Tokens needed at "
        "a batch of {{batch}} million?",
        "billions of tokens",
        {"least": 100, "critical": 2, "batch": 1},
        pick(least=(50, 100, 300), critical=(2, 4), batch=(0.5, 1, 3)),
    ),
    _drill(
        "rate-for-batch",
        "Adam trains well at a rate of {{rate}} millionths with a batch of {{old}} sequences. Rate for {{new}} by the "
        "square-root rule?",
        "millionths",
        {"rate": 300, "old": 256, "new": 1024},
        pick(rate=(200, 300, 600), old=(128, 256), new=(1024, 2048)),
    ),
    _drill(
        "decay-timescale",
        "AdamW with learning rate {{rate}} millionths and weight decay {{decay}}. After how many steps of decay alone "
        "is a weight at 1/e?",
        "steps",
        {"rate": 300, "decay": 0.1},
        pick(rate=(80, 300, 600), decay=(0.1, 0.05)),
    ),
    _drill(
        "spike-in-v",
        "Gradients of 1, then one of {{spike}}, then 1 again; β₂ = 0.999. {{after:int}} steps after the spike, what "
        "is √v (v was 1 before it)?",
        "",
        {"spike": 100, "after": 1000},
        pick(spike=(50, 100, 300), after=(100, 500, 1000)),
    ),
    _drill(
        "packed-share",
        "Documents of {{a}}, {{b}} and {{c}} tokens, one to a row of {{row}}. What share of the positions "
        "holds tokens?",
        "%",
        {"a": 300, "b": 700, "c": 900, "row": 1024},
        pick(a=(100, 300), b=(500, 700), c=(900, 1000), row=(1024, 2048)),
    ),
    _drill(
        "tokens-per-parameter",
        "{{params:count}} parameters, {{tokens:count}} tokens. Tokens per parameter?",
        "tokens",
        {"params": 405e9, "tokens": 15.6e12},
        pick(params=(7e9, 70e9, 405e9), tokens=(1.4e12, 2e12, 15.6e12)),
    ),
    _drill(
        "compute-optimal-params",
        "A budget of {{flops}}e21 FLOP, 6 FLOP per parameter and token, 20 tokens per parameter. How many parameters?",
        "billions",
        {"flops": 12},
        pick(flops=(3, 12, 50, 576)),
    ),
)
