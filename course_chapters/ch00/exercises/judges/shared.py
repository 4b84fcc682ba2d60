"""What several of chapter 00's judges use."""

import math

from course_lib.cluster.adversary import Adversary

# The freedom that the semantics give a machine: buffers or none, bytes that move early or late.
ADVERSARIES = tuple(Adversary(depth=depth, late=late) for depth in (0, 1, math.inf) for late in (False, True))[1:]
