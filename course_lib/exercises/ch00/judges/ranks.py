"""What chapter 00's two cluster exercises share: unkind machines, and what to do about a result of another kind."""

import math

from course_lib.cluster.kernel import Adversary

STRICT = Adversary(depth=0, order="stream")
# How unkind a machine may be within what the semantics allow: buffers or none, bytes that move early or late.
ADVERSARIES = tuple(Adversary(depth=depth, late=late) for depth in (0, 1, math.inf) for late in (False, True))[1:]
RECEIVE = "Receive into a tensor of the same shape and dtype."  # where a result has another
