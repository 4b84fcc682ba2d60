IMPORTS = """import math
import numpy as np
import torch
from course_lib import params"""
