"""One-line questions of chapter 13, with other numbers every time."""

from course_grader.exercises import asking, pick

_drill = asking("13")
_POWERS = (2, 4, 8)

DRILLS = (
    _drill(
        "replicas-of-a-mesh",
        "replicas",
        {"gpus": 16_384, "tp": 8, "cp": 16, "pp": 16},
        pick(gpus=(4096, 8192, 16_384), tp=_POWERS, cp=(2, 4, 16), pp=_POWERS),
    )("{{gpus}} GPUs, tp = {{tp}}, cp = {{cp}}, pp = {{pp}}: how many data-parallel replicas are there?"),
    _drill("stride-of-an-axis", "ranks", pp=(4, 2, 3, 6, 16), tp=(8, 2, 4, 5))(
        "A mesh (dp, pp, tp) has pp = {{pp}} and tp = {{tp}}; the last axis changes fastest. How many ranks apart are "
        "neighbors on the dp axis?"
    ),
    _drill("groups-of-an-axis", "groups", gpus=(96, 48, 144, 192), tp=(4, 2, 3, 8, 12))(
        "{{gpus}} GPUs form a mesh with tp = {{tp}}. How many tensor-parallel groups are there?"
    ),
    _drill(
        "coordinate-of-a-rank",
        "a coordinate, counted from 0",
        pp=(4, 3, 5),
        tp=(8, 4, 6),
        rank=(53, 29, 37, 61, 77, 95),
    )(
        "On a mesh (dp, pp, tp) with pp = {{pp}} and tp = {{tp}}, last axis fastest: what is the pp coordinate of "
        "rank {{rank}}?"
    ),
    _drill("sequences-of-a-step", "sequences", dp=(8, 4, 12), cp=(16, 2, 4), count=(16, 4, 8), micro=(1, 2, 3))(
        "dp = {{dp}}, cp = {{cp}}, {{count}} micro-batches of {{micro}} sequences: how many sequences does a "
        "step train on?"
    ),
    _drill("two-share-an-adapter", "s", first=(10, 5, 15), second=(30, 20, 45), rate=(50, 25, 100))(
        "Two transfers of {{first}} and {{second}} GB start at once over one adapter of {{rate}} GB/s and share it "
        "equally. When does the shorter one end?"
    ),
    _drill("who-waits", "ranks", dp=(4, 2, 6), pp=(3, 2, 5), tp=(8, 2, 4))(
        "One rank of a mesh with dp = {{dp}}, pp = {{pp}}, tp = {{tp}} hangs before an all-reduce over tp and then "
        "one over dp. How many ranks are stuck, itself included?"
    ),
    _drill("state-on-a-mesh", "GB", billions=(405, 70, 180), tp=(8, 4), pp=(4, 2, 8), dp=(4, 2, 16))(
        "{{billions}}B parameters, 16 bytes of state each, tp = {{tp}}, pp = {{pp}}, dp = {{dp}} with ZeRO-3: how "
        "many GB of state does a GPU hold?"
    ),
)
