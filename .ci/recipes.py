#!/usr/bin/env python3
"""Recipes of package managers in the form that their readers ask for, filled as a release fills them, with made hashes."""

import hashlib
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
HOME = "https://example.org/lamina"


def made_hashes():
    """A line of `sha256sum` for each file that the workflow makes and recipes may name: a recipe of another file is not filled."""
    version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
    jobs = yaml.safe_load((ROOT / ".github/workflows/wheels.yml").read_text())["jobs"]
    targets = [entry["target"] for entry in jobs["archives"]["strategy"]["matrix"]["include"]]
    names = [f"lamina-{version}-{target}.{'zip' if 'windows' in target else 'tar.gz'}" for target in targets]
    names.append(f"lamina-{version}.tar.gz")
    return "".join(f"{hashlib.sha256(name.encode()).hexdigest()}  {name}\n" for name in sorted(names))


def shell(file):
    ran = subprocess.run(["bash", "-n", file], capture_output=True, text=True)
    return ran.stderr.strip()


def parsed(read, file):
    try:
        read(file.read_text())
    except ValueError as e:
        return str(e)
    except yaml.YAMLError as e:
        return str(e)
    return ""


def problems(file):
    text = file.read_text()
    left = re.search(r"@[A-Z0-9]+(:[^@\n]*)?@", text)
    if left:
        yield f"{left[0]} was not filled"
    if HOME not in text and file.name not in ("Lamina.Lamina.yaml",):
        yield "it names no file of the release and no home"
    form = {".json": lambda f: parsed(json.loads, f), ".yaml": lambda f: parsed(yaml.safe_load, f)}.get(file.suffix)
    form = shell if file.name == "PKGBUILD" else form
    wrong = form(file) if form else ""
    if wrong:
        yield wrong
    for opening, closing in ("()", "[]", "{}"):
        if file.suffix in (".rb", ".nix") and text.count(opening) != text.count(closing):
            yield f"{opening} and {closing} do not match"


def main():
    with tempfile.TemporaryDirectory() as folder:
        sums = Path(folder, "SHA256SUMS")
        sums.write_text(made_hashes())
        fill = [sys.executable, ROOT / "packaging/fill.py", sums, f"{folder}/recipes", HOME]
        subprocess.run(fill, check=True, stdout=subprocess.DEVNULL)
        files = sorted(f for f in Path(folder, "recipes").rglob("*") if f.is_file())
        found = [f"{f.relative_to(folder)}: {problem}" for f in files for problem in problems(f)]
        print(f"{len(files)} recipes, {len(sums.read_text().splitlines())} files of a release")
        sys.exit("\n".join(found) or 0)


main()
