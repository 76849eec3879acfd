#!/usr/bin/env python3
"""Recipes of package managers with the version, places and hashes of a release.

    packaging/fill.py SHA256SUMS FOLDER HOME

Recipes are the files beside this one. `@VERSION@` is the version of Cargo.toml, `@HOME@` the address of the repository,
`@RELEASE@` that of the release's files, `@FILE:NAME@` a file that the release must have, and `@SHA256:NAME@` its hash.
"""

import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
RECIPES = ("aur", "conda", "homebrew", "nix", "scoop", "winget")


def version():
    return re.search(r'^version = "(.*)"', (HERE.parent / "Cargo.toml").read_text(), re.MULTILINE)[1]


def sums(file):
    """The hash of each file by its name, from a list as `sha256sum` writes it."""
    lines = (line.split(maxsplit=1) for line in Path(file).read_text().splitlines())
    return {name.lstrip("*"): hash for hash, name in lines}


def fill(text, of, hashes, home):
    for name, value in {"VERSION": of, "HOME": home, "RELEASE": f"{home}/releases/download/v{of}"}.items():
        text = text.replace(f"@{name}@", value)

    def named(match):
        kind, name = match.groups()
        if name not in hashes:
            sys.exit(f"the release has no file {name}")
        return name if kind == "FILE" else hashes[name]

    return re.sub(r"@(FILE|SHA256):([^@]+)@", named, text)


def main(list_of_hashes, folder, home):
    of, hashes = version(), sums(list_of_hashes)
    for recipe in RECIPES:
        for file in sorted((HERE / recipe).iterdir()):
            out = Path(folder, recipe, file.name)
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(fill(file.read_text(), of, hashes, home.rstrip("/")))
            print(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
