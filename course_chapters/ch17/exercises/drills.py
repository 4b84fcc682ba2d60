"""One-line questions of chapter 17, with other numbers every time."""

from course_grader.exercises import asking, pick

_drill = asking("17")
_BILLIONS, _GPUS = (7, 8, 13, 34, 70), (8, 16, 32, 64)

DRILLS = (
    _drill("fsdp-sends", "GB", {"billions": 13, "gpus": 16}, pick(billions=_BILLIONS, gpus=_GPUS))(
        "{{billions}}B parameters, FSDP over {{gpus}} GPUs, 16-bit weights and gradients, weights gathered twice: how "
        "many GB does a GPU send in a step?"
    ),
    _drill(
        "hsdp-sends-across",
        "GB",
        {"billions": 70, "shard": 8, "replicas": 4},
        pick(billions=_BILLIONS, shard=(4, 8, 16), replicas=(2, 4, 8)),
    )(
        "{{billions}}B parameters, HSDP: {{shard}} GPUs share a copy, {{replicas}} copies, 16-bit gradients. How many "
        "GB does a GPU send to other copies in a step?"
    ),
    _drill("tp-sends", "GB", layers=(80, 32, 40), hidden=(8192, 4096), tokens=(8192, 4096, 16_384), tp=(8, 2, 4))(
        "{{layers}} layers of hidden {{hidden}}, {{tokens}} tokens a step, tp = {{tp}}, 16 bits: how many GB does a "
        "GPU send in its all-reduces, nothing recomputed?"
    ),
    _drill("pp-sends", "GB", tokens=(65_536, 16_384, 262_144), hidden=(8192, 4096, 5120))(
        "A stage in the middle of a pipeline passes on {{tokens}} tokens a step, hidden {{hidden}}, 16 bits. How many "
        "GB does it send, forward and backward?"
    ),
    _drill("days-with-failures", "days", steps=(30, 20, 50), seconds=(75, 40, 60), goodput=(90, 80, 85))(
        "A run has {{steps}} thousand steps of {{seconds}} s, and its goodput is {{goodput}} %. How many days "
        "does it take?"
    ),
    _drill("dollars-of-a-plan", "thousand dollars", gpus=(64, 32, 128, 512), days=(25, 14, 40), price=(2, 3, 4))(
        "A plan keeps {{gpus}} GPUs busy for {{days}} days at \\${{price}} an hour. How many thousand dollars "
        "does it cost?"
    ),
    _drill("tokens-for-half", "billion tokens", billions=(120, 80, 240), cost=(80, 90, 160), left=(45, 30, 60))(
        "A run of {{billions}} billion tokens costs \\${{cost}} thousand; \\${{left}} thousand are left for all of "
        "it. How many billion tokens can it see?"
    ),
    _drill("exposed-on-a-wire", "s", sent=(120, 180, 240), rate=(50, 25), hidden=(2, 0.5, 1))(
        "An axis sends {{sent}} GB at {{rate}} GB/s, and {{hidden}} s of computation can hide it. How many seconds "
        "are exposed?"
    ),
    _drill("slower-wire", "times", compute=(10, 8, 12), traffic=(6, 4, 5), slower=(4, 5, 8))(
        "A step computes for {{compute}} s and hides {{traffic}} s of traffic behind it. The wire becomes {{slower}} "
        "times slower. How many times longer is the step?"
    ),
)
