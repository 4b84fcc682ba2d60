IMPORTS = """import math
import torch
from torch.nn import functional as F
from course_lib import params"""
