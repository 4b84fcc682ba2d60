"""One-line questions of chapter 17, with other numbers every time."""

from course_grader.exercises.drilling import of_chapter, pick

_drill = of_chapter("17")
_BILLIONS, _GPUS = (7, 8, 13, 34, 70), (8, 16, 32, 64)

DRILLS = (
    _drill(
        "fsdp-sends",
        "{{billions}}B parameters, FSDP over {{gpus}} GPUs, 16-bit weights and gradients, weights gathered twice: how "
        "many GB does a GPU send in a step?",
        "GB",
        {"billions": 13, "gpus": 16},
        pick(billions=_BILLIONS, gpus=_GPUS),
    ),
    _drill(
        "hsdp-sends-across",
        "{{billions}}B parameters, HSDP: {{shard}} GPUs share a copy, {{replicas}} copies, 16-bit gradients. How many "
        "GB does a GPU send to other copies in a step?",
        "GB",
        {"billions": 70, "shard": 8, "replicas": 4},
        pick(billions=_BILLIONS, shard=(4, 8, 16), replicas=(2, 4, 8)),
    ),
    _drill(
        "tp-sends",
        "{{layers}} layers of hidden {{hidden}}, {{tokens}} tokens a step, tp = {{tp}}, 16 bits: how many GB does a "
        "GPU send in its all-reduces, nothing recomputed?",
        "GB",
        {"layers": 80, "hidden": 8192, "tokens": 8192, "tp": 8},
        pick(layers=(32, 40, 80), hidden=(4096, 8192), tokens=(4096, 8192, 16_384), tp=(2, 4, 8)),
    ),
    _drill(
        "pp-sends",
        "A stage in the middle of a pipeline passes on {{tokens}} tokens a step, hidden {{hidden}}, 16 bits. How many "
        "GB does it send, forward and backward?",
        "GB",
        {"tokens": 65_536, "hidden": 8192},
        pick(tokens=(16_384, 65_536, 262_144), hidden=(4096, 5120, 8192)),
    ),
    _drill(
        "days-with-failures",
        "A run has {{steps}} thousand steps of {{seconds}} s, and its goodput is {{goodput}} %. How many days "
        "does it take?",
        "days",
        {"steps": 30, "seconds": 75, "goodput": 90},
        pick(steps=(20, 30, 50), seconds=(40, 60, 75), goodput=(80, 85, 90)),
    ),
    _drill(
        "dollars-of-a-plan",
        "A plan keeps {{gpus}} GPUs busy for {{days}} days at \\${{price}} an hour. How many thousand dollars "
        "does it cost?",
        "thousand dollars",
        {"gpus": 64, "days": 25, "price": 2},
        pick(gpus=(32, 64, 128, 512), days=(14, 25, 40), price=(2, 3, 4)),
    ),
    _drill(
        "tokens-for-half",
        "A run of {{billions}} billion tokens costs \\${{cost}} thousand; \\${{left}} thousand are left for all of "
        "it. How many billion tokens can it see?",
        "billion tokens",
        {"billions": 120, "cost": 80, "left": 45},
        pick(billions=(80, 120, 240), cost=(80, 90, 160), left=(30, 45, 60)),
    ),
    _drill(
        "exposed-on-a-wire",
        "An axis sends {{sent}} GB at {{rate}} GB/s, and {{hidden}} s of computation can hide it. How many seconds "
        "are exposed?",
        "s",
        {"sent": 120, "rate": 50, "hidden": 2},
        pick(sent=(120, 180, 240), rate=(25, 50), hidden=(0.5, 1, 2)),
    ),
    _drill(
        "slower-wire",
        "A step computes for {{compute}} s and hides {{traffic}} s of traffic behind it. The wire becomes {{slower}} "
        "times slower. How many times longer is the step?",
        "times",
        {"compute": 10, "traffic": 6, "slower": 4},
        pick(compute=(8, 10, 12), traffic=(4, 5, 6), slower=(4, 5, 8)),
    ),
)
