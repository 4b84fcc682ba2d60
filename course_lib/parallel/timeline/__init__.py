"""A schedule played with durations: when every operation runs, what idles, what is held, and which chain decides the
end.

Every operation starts as soon as its rank is free and its input is there. Messages take their time and no rank's: links
are as wide as need be, and nobody waits for a send. A step ends when the last rank ends, or (`bubble_in_span`) each on
its own.
"""

from course_lib.parallel.timeline.durations import Durations
from course_lib.parallel.timeline.messages import Message, messages
from course_lib.parallel.timeline.played import Timeline
from course_lib.parallel.timeline.playing import play

__all__ = ["Durations", "Message", "Timeline", "messages", "play"]
