IMPORTS = """import itertools
import math
from course_lib import params"""
