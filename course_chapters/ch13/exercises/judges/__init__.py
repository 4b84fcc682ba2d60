IMPORTS = """import itertools
import math
import torch
from course_lib import params"""
