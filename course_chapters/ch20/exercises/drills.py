"""One-line questions of chapter 20, with other numbers every time."""

from course_grader.exercises import asking

_drill = asking("20")

DRILLS = (
    _drill("healthy-rejected", "a plain number", nodes=(1000, 2000, 5000), weak=(10, 20, 40), alarms=(0.05, 0.02, 0.1))(
        "{{weak}} of {{nodes:int}} nodes are weak, and a check finds all of them. It also rejects "
        "{{alarms:percent}} of the healthy nodes. How many rejected nodes are healthy?"
    ),
    _drill("known-answers", "a plain number", tests=(10, 20, 50), chance=(0.1, 0.05, 0.02))(
        "A device errs in each test with chance {{chance}}. What is the chance that it passes {{tests}} tests?"
    ),
    _drill("outer-traffic", "GB", params=(1, 2, 8), workers=(4, 8, 16))(
        "DiLoCo exchanges the fp32 weights of {{params}} billion parameters among {{workers}} workers by a ring. How "
        "much does each worker send in one exchange?"
    ),
    _drill("taking-part", "a plain number", group=(8, 12, 16), healing=(1, 2, 3), total=(30, 60))(
        "{{healing}} of {{group}} replicas heal and send zeros. The sum of all gradients is {{total}}. What is "
        "the mean?"
    ),
    _drill("token-bandwidth", "MB/s", tokens=(500_000, 2_000_000, 10_000_000), size=(2, 4))(
        "A cluster trains on {{tokens:int}} tokens per second, stored in {{size}} bytes each. Which bandwidth does it "
        "need, in MB/s?"
    ),
    _drill("hidden-pause", "a plain number", step=(2, 4, 5), read=(1, 1.5), pause=(8, 12, 20))(
        "A step takes {{step}} s, a read {{read}} s, and one read pauses for {{pause}} s. How many batches must a full "
        "buffer have to hide that?"
    ),
    _drill("late-report", "a plain number", every=(100, 200, 500), step=(5, 8), check=(60, 120))(
        "A run validates every {{every}} steps of {{step}} s, for {{check}} s. How many seconds after a fault is the "
        "first validation that sees it done, on average?"
    ),
    _drill("run-energy", "a plain number", gpus=(64, 512, 1024), days=(10, 30), pue=(1.1, 1.2, 1.3))(
        "{{gpus}} GPUs draw 1,000 W each with their part of the server, for {{days}} days, at a PUE of {{pue}}. How "
        "many MWh is that?"
    ),
)
