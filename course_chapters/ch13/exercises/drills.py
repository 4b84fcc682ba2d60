"""One-line questions of chapter 13, with other numbers every time."""

from course_grader.exercises.drilling import of_chapter, pick

_drill = of_chapter("13")
_POWERS = (2, 4, 8)

DRILLS = (
    _drill(
        "replicas-of-a-mesh",
        "{{gpus}} GPUs, tp = {{tp}}, cp = {{cp}}, pp = {{pp}}: how many data-parallel replicas are there?",
        "replicas",
        {"gpus": 16_384, "tp": 8, "cp": 16, "pp": 16},
        pick(gpus=(4096, 8192, 16_384), tp=_POWERS, cp=(2, 4, 16), pp=_POWERS),
    ),
    _drill(
        "stride-of-an-axis",
        "A mesh (dp, pp, tp) has pp = {{pp}} and tp = {{tp}}; the last axis changes fastest. How many ranks apart are "
        "neighbors on the dp axis?",
        "ranks",
        {"pp": 4, "tp": 8},
        pick(pp=(2, 3, 4, 6, 16), tp=(2, 4, 5, 8)),
    ),
    _drill(
        "groups-of-an-axis",
        "{{gpus}} GPUs form a mesh with tp = {{tp}}. How many tensor-parallel groups are there?",
        "groups",
        {"gpus": 96, "tp": 4},
        pick(gpus=(48, 96, 144, 192), tp=(2, 3, 4, 8, 12)),
    ),
    _drill(
        "coordinate-of-a-rank",
        "On a mesh (dp, pp, tp) with pp = {{pp}} and tp = {{tp}}, last axis fastest: what is the pp coordinate of "
        "rank {{rank}}?",
        "a coordinate, counted from 0",
        {"pp": 4, "tp": 8, "rank": 53},
        pick(pp=(3, 4, 5), tp=(4, 6, 8), rank=(29, 37, 53, 61, 77, 95)),
    ),
    _drill(
        "sequences-of-a-step",
        "dp = {{dp}}, cp = {{cp}}, {{count}} micro-batches of {{micro}} sequences: how many sequences does a "
        "step train on?",
        "sequences",
        {"dp": 8, "cp": 16, "count": 16, "micro": 1},
        pick(dp=(4, 8, 12), cp=(2, 4, 16), count=(4, 8, 16), micro=(1, 2, 3)),
    ),
    _drill(
        "two-share-an-adapter",
        "Two transfers of {{first}} and {{second}} GB start at once over one adapter of {{rate}} GB/s and share it "
        "equally. When does the shorter one end?",
        "s",
        {"first": 10, "second": 30, "rate": 50},
        pick(first=(5, 10, 15), second=(20, 30, 45), rate=(25, 50, 100)),
    ),
    _drill(
        "who-waits",
        "One rank of a mesh with dp = {{dp}}, pp = {{pp}}, tp = {{tp}} hangs before an all-reduce over tp and then "
        "one over dp. How many ranks are stuck, itself included?",
        "ranks",
        {"dp": 4, "pp": 3, "tp": 8},
        pick(dp=(2, 4, 6), pp=(2, 3, 5), tp=(2, 4, 8)),
    ),
    _drill(
        "state-on-a-mesh",
        "{{billions}}B parameters, 16 bytes of state each, tp = {{tp}}, pp = {{pp}}, dp = {{dp}} with ZeRO-3: how "
        "many GB of state does a GPU hold?",
        "GB",
        {"billions": 405, "tp": 8, "pp": 4, "dp": 4},
        pick(billions=(70, 180, 405), tp=(4, 8), pp=(2, 4, 8), dp=(2, 4, 16)),
    ),
)
