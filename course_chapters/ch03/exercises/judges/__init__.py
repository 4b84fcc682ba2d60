IMPORTS = """import math
import statistics
import numpy as np
from course_lib import params"""
