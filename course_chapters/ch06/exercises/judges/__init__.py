IMPORTS = """import torch
from course_lib import params
from course_lib.cluster import P2POp
from course_lib.messages import count_text"""
