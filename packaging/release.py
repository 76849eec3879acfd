#!/usr/bin/env python3
"""The version of a release, which stands in Cargo.toml, Cargo.lock and CHANGELOG.md.

    packaging/release.py VERSION           writes it into all three, with today's date; commits, tags and pushes nothing
    packaging/release.py --check VERSION   fails where one of them says another
    packaging/release.py --notes VERSION   what CHANGELOG.md says of it
"""

import datetime
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MANIFEST, CHANGES = ROOT / "Cargo.toml", ROOT / "CHANGELOG.md"
# Semantic Versioning; what PyPI would write in another form is left out.
VERSION = re.compile(r"\d+\.\d+\.\d+(-(alpha|beta|rc)\.\d+)?")


def section(version):
    """The heading of a version and what stands below it."""
    found = re.search(rf"^## \[{re.escape(version)}\] - (.*)\n(.*?)(?=^## \[|\Z)", CHANGES.read_text(), re.MULTILINE | re.DOTALL)
    if not found:
        sys.exit(f"CHANGELOG.md has no heading for {version}")
    return found[1], found[2].strip()


def check(version):
    stands = re.search(r'^version = "(.*)"', MANIFEST.read_text(), re.MULTILINE)[1]
    if stands != version:
        sys.exit(f"Cargo.toml says {stands}, the tag {version}")
    date, notes = section(version)
    if date == "unreleased" or not notes:
        sys.exit(f"CHANGELOG.md: {version} has no date, or nothing below its heading")


def write(version):
    if not VERSION.fullmatch(version):
        sys.exit(f"{version} is no version such as 1.2.3 or 1.2.3-rc.1")
    changes = CHANGES.read_text()
    heading = re.search(r"^## \[(.*)\] - unreleased$", changes, re.MULTILINE)
    if not heading:
        sys.exit("CHANGELOG.md has no heading that ends in `unreleased`")
    dated = f"## [{version}] - {datetime.date.today().isoformat()}"
    CHANGES.write_text(changes.replace(heading[0], dated, 1))
    MANIFEST.write_text(re.sub(r'^version = ".*"', f'version = "{version}"', MANIFEST.read_text(), count=1, flags=re.MULTILINE))
    subprocess.run(["cargo", "update", "--workspace", "--offline", "--quiet"], cwd=ROOT, check=True)
    print(f"{version} is written: look at `git diff`, commit it, tag it v{version} (signed), and push both")


def main(words):
    match words:
        case ["--check", version]:
            check(version)
        case ["--notes", version]:
            print(section(version)[1])
        case [version]:
            write(version)
        case _:
            sys.exit(__doc__)


main(sys.argv[1:])
