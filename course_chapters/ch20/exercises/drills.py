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
)
