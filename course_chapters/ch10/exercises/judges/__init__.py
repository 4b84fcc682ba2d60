IMPORTS = """from course_lib import params
from course_lib.parallel.timeline import play"""
