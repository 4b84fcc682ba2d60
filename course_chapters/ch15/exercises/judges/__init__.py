IMPORTS = """import math
import statistics
from collections import Counter
from statistics import median
import numpy as np
import torch
from course_lib import params"""
