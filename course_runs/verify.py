"""`./course run verify FILE`: the schema, the hash, and every gate, a line each, and what stays a claim."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from course_lib.messages import Trouble
from course_runs import evidence
from course_runs.evidence_bounds import claims
from course_runs.evidence_checks import Gate, gates

SCHEMA = Path(__file__).with_name("evidence.schema.json")


def problems(content: dict[str, object]) -> list[str]:
    """Where the content departs from the schema, in words; empty where it does not."""
    from jsonschema import Draft202012Validator  # Jupyter brings it

    validator = Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    return [
        f"{'.'.join(map(str, error.absolute_path)) or 'the file'}: {error.message[:200]}"
        for error in validator.iter_errors(content)
    ]


def verified(path: str | Path) -> tuple[evidence.Evidence, list[Gate]]:
    """A file's content and its gates; Trouble where it is no evidence at all."""
    content = evidence.read(path)
    if wrong := problems(content):
        raise Trouble(f"{path} does not follow the schema: {wrong[0]}.", "use the file as the run left it")
    return content, gates(content)


def main(arguments: Sequence[str]) -> int:
    """0 if nothing speaks against any of the files, noise included; 1 if something does."""
    paths = [word for word in arguments if not word.startswith("-")]
    if not paths:
        print("verify: name an evidence file\n  Way out: course run verify work/evidence/train.json", file=sys.stderr)
        return 2
    good = True
    for path in paths:
        try:
            content, found = verified(path)
        except Trouble as trouble:
            print(f"verify: {trouble}", file=sys.stderr)
            good = False
            continue
        print(f"{path}: {content['kind']} on {content['environment']['device']}, {content['when']}")
        for gate in found:
            print(f"  {'ok  ' if gate.ok else 'noisy' if gate.noise else 'FAIL'}  {gate.name}: {gate.found}")
        print(f"  claimed: {claims(content)}")
        good &= all(gate.ok or gate.noise for gate in found)
    return 0 if good else 1
