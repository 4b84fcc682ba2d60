IMPORTS = """import math
import numpy as np
from course_chapters.ch01.exercises.numbers import H100 as h100
from course_lib import params
from course_lib.estimate import compute, facts
from course_lib.estimate.units import DAY, HOUR, TFLOP, YEAR"""
