#!/usr/bin/env python3
"""What no schema sees in workflow files: steps whose shell does not parse or does what nobody means (shellcheck, where it is
installed), files that are not there, and actions without a version."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
READER = ["shellcheck", "--shell=bash", "--severity=warning", "-"] if shutil.which("shellcheck") else ["bash", "-n"]


def problems(step):
    """What is wrong with one step."""
    uses, script = step.get("uses"), re.sub(r"\$\{\{.*?\}\}", "VALUE", step.get("run", ""))
    if uses and not re.search(r"@[\w.-]+$", uses):
        yield f"{uses} has no version"
    parsed = subprocess.run(READER, input=script, capture_output=True, text=True)
    if script and parsed.returncode != 0:
        yield f"{script!r}: {parsed.stdout.strip()}{parsed.stderr.strip()}"
    paths = re.findall(r"(?:^|\s)((?:\.ci|tests|examples|benches|crates|packaging)/[\w./-]+)", script)
    if "-p lamina --test it " in script:
        paths += [f"tests/it/{name}.rs" for name in re.findall(r"(\w+)::", script)]
    yield from (f"{path} is not there" for path in paths if not (ROOT / path).exists())


def main():
    found = []
    for file in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        jobs = yaml.safe_load(file.read_text())["jobs"]
        # A job that calls another workflow has no steps of its own.
        steps = [(name, step) for name, job in jobs.items() for step in job.get("steps", ())]
        found += [f"{file.name}: {name}: {problem}" for name, step in steps for problem in problems(step)]
        print(f"{file.name}: {len(jobs)} jobs, {len(steps)} steps")
    sys.exit("\n".join(found) or 0)


main()
