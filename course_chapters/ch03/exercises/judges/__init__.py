IMPORTS = """import math
import statistics
import numpy as np
from course_lib import params
from course_lib.estimate import roofline"""
