"""Writes a wheel that installs the package in place: a path to `python/`, with the metadata of `pyproject.toml`.

The extension is not in it: a build of the workspace makes it, in the same pass as the tests, and it is put beside the package.
(`pip install --editable` would have maturin compile it once more, with other features.) Prints the wheel's path.
"""

import sys
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def metadata(project, version):
    yield "Metadata-Version: 2.4"
    yield f"Name: {project['name']}"
    yield f"Version: {version}"
    yield f"Requires-Python: {project['requires-python']}"
    yield from (f"License-File: {file}" for file in project["license-files"])
    yield from (f"Requires-Dist: {need}" for need in project["dependencies"])
    for extra, needs in project["optional-dependencies"].items():
        yield f"Provides-Extra: {extra}"
        for name, _, marker in (need.partition(";") for need in needs):
            only = f"({marker.strip()}) and " if marker else ""
            yield f"Requires-Dist: {name}; {only}extra == '{extra}'"


def main(folder):
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project, data = settings["project"], ROOT / settings["tool"]["maturin"]["data"]
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    stem = f"{project['name']}-{version}"
    scripts = "\n".join(f"{name} = {entry}" for name, entry in project["scripts"].items())
    files = {
        "lamina-in-place.pth": f"{ROOT / 'python'}\n",
        f"{stem}.dist-info/METADATA": "\n".join(metadata(project, version)) + "\n",
        f"{stem}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: in_place\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{stem}.dist-info/entry_points.txt": f"[console_scripts]\n{scripts}\n",
    }
    for file in project["license-files"]:
        files[f"{stem}.dist-info/licenses/{file}"] = (ROOT / file).read_text()
    # Manual and completions, which installers put below the prefix.
    for file in sorted(path for path in data.rglob("*") if path.is_file()):
        files[f"{stem}.data/{file.relative_to(data).as_posix()}"] = file.read_text()
    record = f"{stem}.dist-info/RECORD"
    files[record] = "".join(f"{name},,\n" for name in [*files, record])
    wheel = Path(folder).resolve() / "in_place" / f"{stem}-py3-none-any.whl"
    wheel.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel, "w") as out:
        for name, text in files.items():
            out.writestr(name, text)
    print(wheel)


main(sys.argv[1])
