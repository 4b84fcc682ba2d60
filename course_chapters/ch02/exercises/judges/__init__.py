IMPORTS = """import math
import torch
from torch.nn import functional as F
from course_lib import params
from course_lib.estimate.units import GB"""
