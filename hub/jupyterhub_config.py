"""JupyterHub for a class: everyone signs up, `admin` lets them in, and each works under an account of their own."""

import asyncio
import os
import pwd
import subprocess
from pathlib import Path

import nativeauthenticator

COURSE = Path("/opt/course")
PYTHON = COURSE / ".venv" / "bin" / "python"
COPY = "from course_app.learner import work; work.copy_chapters(work.folders())"

c = get_config()  # noqa: F821 (JupyterHub gives it to this file)

c.JupyterHub.bind_url = "http://:8000"
c.JupyterHub.db_url = "sqlite:////srv/hub/hub.sqlite"
c.JupyterHub.cookie_secret_file = "/srv/hub/cookie-secret"

c.JupyterHub.authenticator_class = "native"
c.JupyterHub.template_paths = [str(Path(nativeauthenticator.__file__).parent / "templates")]
c.Authenticator.admin_users = {"admin"}
c.Authenticator.allow_all = True  # of those whom `admin` has authorized
c.Authenticator.username_pattern = "[a-z][a-z0-9_-]{0,30}"  # what useradd takes
c.NativeAuthenticator.minimum_password_length = 10


def environment(name: str) -> dict[str, str]:
    """The variables of a student's own server."""
    settings = COURSE / "course_app" / "learner"
    return {
        "PATH": os.pathsep.join([str(PYTHON.parent), os.environ["PATH"]]),  # `course` and `nbgrader` in a terminal
        "COURSE_ROOT": str(COURSE),
        "COURSE_WORK": f"/home/{name}/course",
        "JUPYTER_CONFIG_PATH": os.pathsep.join(str(settings / part) for part in ("jupyter", "jupyter_defaults")),
    }


def lay_out(name: str) -> None:
    """Make the account on its first day, and copy the chapters that are not there yet."""
    try:
        pwd.getpwnam(name)
    except KeyError:
        subprocess.run(["useradd", "--create-home", "--shell", "/bin/bash", name], check=True)
    variables = [f"{key}={value}" for key, value in {"HOME": f"/home/{name}", **environment(name)}.items()]
    command = ["runuser", "-u", name, "--", "env", *variables, str(PYTHON), "-P", "-c", COPY]
    subprocess.run(command, check=True, cwd=COURSE)


async def prepare(spawner) -> None:
    """What a student's server needs before it starts; the hub serves others meanwhile."""
    await asyncio.to_thread(lay_out, spawner.user.name)
    spawner.environment.update(environment(spawner.user.name))


c.Spawner.pre_spawn_hook = prepare
c.Spawner.cmd = [str(COURSE / ".venv" / "bin" / "jupyterhub-singleuser")]
c.Spawner.notebook_dir = "~/course"
c.Spawner.default_url = "/lab"
c.Spawner.mem_limit = "4G"  # what a chapter needs at most, with room; a spawner of local processes only shows it
c.Spawner.start_timeout = 180  # seconds; on the first day of a class, many servers start at once
c.Spawner.http_timeout = 120
