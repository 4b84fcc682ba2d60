IMPORTS = """import torch
from course_lib import params"""
