"""Command lines of training frameworks: the version that the course prints them for, and the options which that version
knows."""

import re
from dataclasses import dataclass
from functools import cache

from course_lib.estimate.facts.fact import find, reference, rows


@dataclass(frozen=True, slots=True)
class Framework:
    """One version of a framework. Options are written without the leading dashes."""

    name: str
    version: str
    date: str
    source: str
    options: frozenset[str]

    def unknown(self, line: str) -> list[str]:
        """What stands in a command line as an option of the framework and is none in this version.

        Torchrun's own flags end where the program begins. An index of a list, and a key of a dictionary, name no
        option.
        """
        _, _, after = line.partition(" -m torchtitan.train ") if "torchtitan.train" in line else line.partition(".py ")
        said = re.findall(r"(?<!\S)--([\w.-]+)", after.partition("  #")[0])
        said += re.findall(r"(?<!\S)([\w-]+:[\w-]+)", after.partition("  #")[0])
        said += re.findall(r"(?<!\S)([a-z]\w*\.\w+)=", after.partition("  #")[0])  # an override
        return [option for option in said if not self._known(option)]

    def _known(self, option: str) -> bool:
        plain = re.sub(r"\.\d+(?=\.)", "", option)
        spelled = {
            option,
            plain.replace("-", "_"),
            plain.replace("-", "_").rpartition(".")[0],
        }  # dashes and underscores are one
        return bool(spelled & self.options)


@cache
def _frameworks() -> dict[str, Framework]:
    options: dict[str, set[str]] = {}
    for row in rows("framework_options.csv"):
        options.setdefault(row["framework"], set()).add(row["option"])
    return {
        row["framework"]: Framework(
            name=row["framework"],
            version=row["version"],
            date=row["date"],
            source=reference(row["source"]).short,
            options=frozenset(options[row["framework"]]),
        )
        for row in rows("framework_versions.csv")
    }


def framework(name: str) -> Framework:
    """The framework called "torchtitan", "megatron" or "bridge"."""
    return find("framework", name, _frameworks())


def frameworks() -> dict[str, Framework]:
    """All frameworks by name."""
    return dict(_frameworks())


@cache
def _torch_releases() -> dict[str, str]:
    return {row["version"]: row["released"] for row in rows("torch_releases.csv")}


def torch_release(version: str) -> str | None:
    """The day on which this torch, such as "2.13.0", came out, YYYY-MM-DD; None where the facts do not have it."""
    return _torch_releases().get(version)
