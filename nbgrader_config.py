"""nbgrader's configuration of this course: `solutions/` is released as `notebooks/`, with our steps around its own.

`./course release`, `nbgrader generate_assignment` and formgrader's Generate button all read this file.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
if str(ROOT) not in sys.path:  # JupyterLab may run where the course is not installed
    sys.path.insert(0, str(ROOT))
# nbgrader starts `alembic` by name to make a gradebook; without this it fails outside an activated environment.
_BIN = str(Path(sys.executable).parent)
if _BIN not in os.environ.get("PATH", "").split(os.pathsep):
    os.environ["PATH"] = _BIN + os.pathsep + os.environ.get("PATH", "")

from course_grader.blank_notebook import STUB, TEXT_STUB  # noqa: E402
from course_grader.hosts import Hosts, repository  # noqa: E402
from course_grader.release_steps import NBGRADER_STEPS, CheckRelease, FillPlaceholders, Tidy  # noqa: E402

c = get_config()  # noqa: F821 (nbgrader gives it to this file)

c.CourseDirectory.course_id = "training-at-scale"
c.CourseDirectory.root = str(ROOT)
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "notebooks"

c.GenerateAssignment.preprocessors = [Tidy, FillPlaceholders, *NBGRADER_STEPS, Hosts, CheckRelease]
c.Hosts.repository = repository(ROOT)
c.ClearSolutions.code_stub = {"python": STUB}
c.ClearSolutions.text_stub = TEXT_STUB
