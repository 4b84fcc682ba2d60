"""One-line questions of chapter 04, with other numbers every time."""

from course_grader.exercises import asking, pick

_drill = asking("04")

DRILLS = (
    _drill("adamw-by-hand", "", theta=(2.0, 1.0, 4.0), grad=(0.5, 3.0), rate=(0.1, 0.05), decay=(0.1, 0.2))(
        "AdamW, first step: parameter {{theta}}, gradient {{grad}}, learning rate {{rate}}, weight decay {{decay}}, ε "
        "= 0. New parameter?"
    ),
    _drill(
        "second-step-by-hand", "learning rates", one=(0.9, 0.8), two=(0.99, 0.95), first=(1.0, 2.0), second=(3.0, 5.0)
    )(
        "Adam without decay, ε = 0, β₁ = {{one}}, β₂ = {{two}}. Gradients {{first}}, then {{second}}. How many "
        "learning rates is the second update?"
    ),
    _drill("clip-to-norm", "", left=(3.0, 5.0, 8.0), right=(4.0, 12.0, 15.0), limit=(1.0, 2.0))(
        "A gradient has two pieces with norms {{left}} and {{right}}. It is clipped at norm {{limit}}. Norm of the "
        "first piece afterwards?"
    ),
    _drill("warm-up-rate", "millionths", warmup=(2000, 1000, 4000), peak=(300, 80, 600), step=(500, 100, 250))(
        "Linear warm-up over {{warmup:int}} updates to {{peak}} millionths. Learning rate of update {{step:int}}?"
    ),
    _drill(
        "cosine-rate", "millionths", total=(12_000, 24_000), peak=(300, 600), floor=(30, 60), step=(4000, 3000, 8000)
    )(
        "No warm-up, {{total:int}} updates, cosine from {{peak}} to {{floor}} millionths. Learning rate of update "
        "{{step:int}}?"
    ),
    _drill(
        "batch-tokens",
        "millions of tokens",
        ranks=(128, 32, 64),
        micro=(2, 1, 4),
        seq=(4096, 2048, 8192),
        accumulated=(4, 2, 8),
    )(
        "{{ranks}} data-parallel ranks, micro-batches of {{micro}} sequences of {{seq:int}} tokens, {{accumulated}} "
        "accumulated. Tokens per step?"
    ),
    _drill("adam-state-sharded", "GB", params=(7e9, 13e9, 70e9), ranks=(8, 16, 64))(
        "{{params:count}} parameters, Adam's two moments and an fp32 master copy, sharded over {{ranks}} GPUs. "
        "Bytes on each?"
    ),
    _drill("adam-moments", "GB", params=(7e9, 1e9, 13e9, 70e9))(
        "{{params:count}} parameters: how much do Adam's two moments take in fp32, unsharded?"
    ),
    _drill("mean-of-micro-batches", "", few=(100, 200), many=(900, 600), first=(5.0, 4.0), second=(3.0, 2.0))(
        "Micro-batch 1 has {{few}} tokens with a mean loss of {{first}}, micro-batch 2 has {{many}} with {{second}}. "
        "Mean loss over all tokens?"
    ),
    _drill(
        "steps-at-batch",
        "steps",
        {"least": 10_000, "critical": 2, "batch": 4},
        pick(least=(10_000, 20_000, 50_000), critical=(1, 2, 4), batch=(1.5, 3, 8)),
    )(
        "A run needs at least {{least:int}} steps at any batch; the critical batch is {{critical}} million tokens. "
        "Steps at a batch of {{batch}} million?"
    ),
    _drill("tokens-at-batch", "billions of tokens", least=(100, 50, 300), critical=(2, 4), batch=(1, 0.5, 3))(
        "A run needs at least {{least}} billion tokens; the critical batch is {{critical}} million. Tokens needed at "
        "a batch of {{batch}} million?"
    ),
    _drill("rate-for-batch", "millionths", rate=(300, 200, 600), old=(256, 128), new=(1024, 2048))(
        "Adam trains well at a rate of {{rate}} millionths with a batch of {{old}} sequences. Rate for {{new}} by the "
        "square-root rule?"
    ),
    _drill("decay-timescale", "steps", rate=(300, 80, 600), decay=(0.1, 0.05))(
        "AdamW with learning rate {{rate}} millionths and weight decay {{decay}}. After how many steps of decay alone "
        "is a weight at 1/e?"
    ),
    _drill("spike-in-v", "", spike=(100, 50, 300), after=(1000, 100, 500))(
        "Gradients of 1, then one of {{spike}}, then 1 again; β₂ = 0.999. {{after:int}} steps after the spike, what "
        "is √v (v was 1 before it)?"
    ),
    _drill("packed-share", "%", a=(300, 100), b=(700, 500), c=(900, 1000), row=(1024, 2048))(
        "Documents of {{a}}, {{b}} and {{c}} tokens, one to a row of {{row}}. What share of the positions holds tokens?"
    ),
    _drill("tokens-per-parameter", "tokens", params=(405e9, 7e9, 70e9), tokens=(15.6e12, 1.4e12, 2e12))(
        "{{params:count}} parameters, {{tokens:count}} tokens. Tokens per parameter?"
    ),
    _drill("compute-optimal-params", "billions", flops=(12, 3, 50, 576))(
        "A budget of {{flops}}e21 FLOP, 6 FLOP per parameter and token, 20 tokens per parameter. How many parameters?"
    ),
)
