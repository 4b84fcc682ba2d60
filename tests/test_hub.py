"""The containers of a JupyterHub and of Codespaces, as far as they can be read without an engine."""

import json
import re
import runpy
import subprocess
import sys
from types import SimpleNamespace

import typer
import yaml

from course_app.cli import app
from course_lib.folders import ROOT

USED = ("init", "release", "collect", "grade")  # of `course class`
DOCKERFILE = (ROOT / "hub" / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = yaml.safe_load((ROOT / "hub" / "compose.yaml").read_text(encoding="utf-8"))


class Settings(SimpleNamespace):
    """What `c` of a configuration file is: any name of it can be set."""

    def __getattr__(self, name):
        made = Settings()
        setattr(self, name, made)
        return made


def configured(name, monkeypatch):
    made = Settings()
    monkeypatch.setitem(sys.modules, "nativeauthenticator", SimpleNamespace(__file__="/native/__init__.py"))
    runpy.run_path(str(ROOT / "hub" / name), init_globals={"get_config": lambda: made})
    return made


def test_every_file_that_an_image_copies_exists_and_only_the_grader_gets_the_whole_course():
    stages = dict(re.findall(r"^FROM \S+ AS (\w+)\n(.*?)(?=^FROM |\Z)", DOCKERFILE, re.DOTALL | re.MULTILINE))
    assert list(stages) == ["grader", "bundle", "hub"]
    for text in stages.values():
        for copied in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE):
            assert all((ROOT / name).exists() for name in copied.split()), copied
    assert "COPY . " in stages["grader"] and "COPY . " not in stages["hub"]
    assert "COPY --from=bundle /opt/course /opt/course" in stages["hub"]


def test_every_command_of_the_course_in_an_image_and_in_its_guide_exists():
    guide = (ROOT / "docs" / "where-it-runs.md").read_text(encoding="utf-8").partition("## JupyterHub")[2]
    joined = (DOCKERFILE + guide.partition("\n## ")[0]).replace("\\\n", " ")
    found = re.findall(r"(?:^|[ /`])course (class \w+|learn|submit)([^`&\n]*)", joined, re.MULTILINE)
    assert {name for name, _ in found} == {"learn", "submit", *(f"class {each}" for each in USED)}
    for name, words in found:
        command = typer.main.get_command(app)
        for word in name.split():
            command = command.commands[word]
        options = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        assert {word for word in words.split() if word.startswith("--")} <= options, name


def test_compose_builds_stages_that_exist_and_shares_no_class_folder_with_students():
    services = COMPOSE["services"]
    for name in ("hub", "grader"):
        assert f" AS {services[name]['build']['target']}\n" in DOCKERFILE
    mounted = {volume.split(":")[0] for service in services.values() for volume in service["volumes"]}
    assert mounted == set(COMPOSE["volumes"])
    assert not [volume for volume in services["hub"]["volumes"] if volume.startswith(("class", "gradebook"))]
    assert all(port.startswith("127.0.0.1:") for port in services["hub"]["ports"])


def test_the_hub_and_the_exchange_agree(monkeypatch):
    hub, nbgrader = (configured(name, monkeypatch) for name in ("jupyterhub_config.py", "nbgrader_config.py"))
    assert hub.Spawner.cmd[0].startswith("/opt/course/") and callable(hub.Spawner.pre_spawn_hook)
    for service in ("hub", "grader"):
        assert any(volume.endswith(nbgrader.Exchange.root) for volume in COMPOSE["services"][service]["volumes"])
    assert f"chmod 1777 {nbgrader.Exchange.root} " in DOCKERFILE
    subprocess.run(["sh", "-n", ROOT / "hub" / "accounts"], check=True)


def test_codespaces_starts_the_course():
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
    assert container["postAttachCommand"].startswith("./course learn --no-browser --port 8888")
    assert container["forwardPorts"] == [8888]
