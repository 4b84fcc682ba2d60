IMPORTS = """import hashlib
import math
from collections import Counter
from statistics import median, median_high, median_low
import torch
from course_lib import params"""
