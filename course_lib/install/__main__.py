"""`python -m course_lib.install FOLDER`: set up the environment in FOLDER. What `./course` calls."""

import sys

from course_lib.install.setting_up import main
from course_lib.install.streams import show_every_character

show_every_character()
sys.exit(main(sys.argv[1:]))
