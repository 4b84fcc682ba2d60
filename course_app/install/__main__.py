"""`python -m course_app.install FOLDER`: set up the environment in FOLDER. What `./course` calls."""

import sys

from course_app.install.setting_up import main
from course_app.install.streams import show_every_character

show_every_character()
sys.exit(main(sys.argv[1:]))
