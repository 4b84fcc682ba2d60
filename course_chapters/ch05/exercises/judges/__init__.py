IMPORTS = """import math
import torch
from course_lib import params"""
