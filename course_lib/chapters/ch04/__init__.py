"""The names that chapter 04 uses."""

import torch

from course_lib import text, transformer
from course_lib.training import SMALL, accumulate
from course_lib.widgets import ch04 as pictures
