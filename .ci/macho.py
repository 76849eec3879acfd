#!/usr/bin/env python3
"""Reads the load commands of the libraries in wheels for macOS, on any system.

A library has to be for the wheel's processor, run on every macOS that the wheel's tag admits, link nothing but what the
system has, and carry a signature where the system wants one (`codesign` makes it, linkers as well). What it does not define
is bound to one of these libraries by the linker: only Python's functions are looked up in whatever process loads it.
"""

import re
import struct
import sys
import zipfile

MAGIC = 0xFEEDFACF
LOAD_DYLIB, LOAD_WEAK_DYLIB, REEXPORT_DYLIB = 0xC, 0x80000018, 0x8000001F
SYMTAB, CODE_SIGNATURE, MIN_MACOS, BUILD_VERSION = 0x2, 0x1D, 0x24, 0x32
# Of an entry of the table of symbols: external, the bits of its kind, and the numbers that stand for any library (0: zig writes it).
EXTERNAL, KIND, ANY_LIBRARY = 0x01, 0x0E, (0x00, 0xFE)
PYTHON = ("_Py", "__Py")
PROCESSORS = {0x0100000C: "arm64", 0x01000007: "x86_64"}
SYSTEM = ("/usr/lib/", "/System/Library/Frameworks/")


def load_commands(image):
    """Number and bytes of each load command."""
    count, at = struct.unpack_from("<I", image, 16)[0], 32
    for _ in range(count):
        command, size = struct.unpack_from("<II", image, at)
        yield command, image[at : at + size]
        at += size


def version(packed):
    return packed >> 16, packed >> 8 & 255


def facts(image):
    """Processor, oldest system, linked libraries, and whether there is a signature."""
    processor = PROCESSORS.get(struct.unpack_from("<I", image, 4)[0], "another processor")
    oldest, libraries, signed = None, [], False
    for command, body in load_commands(image):
        if command in (LOAD_DYLIB, LOAD_WEAK_DYLIB, REEXPORT_DYLIB):
            start = struct.unpack_from("<I", body, 8)[0]
            libraries.append(body[start:].split(b"\0")[0].decode())
        elif command == BUILD_VERSION:
            oldest = version(struct.unpack_from("<I", body, 12)[0])
        elif command == MIN_MACOS:
            oldest = version(struct.unpack_from("<I", body, 8)[0])
        signed |= command == CODE_SIGNATURE
    return processor, oldest, libraries, signed


def looked_up(image):
    """Names of symbols that no linker has found: they are looked up in all that is loaded."""
    for command, body in load_commands(image):
        if command != SYMTAB:
            continue
        at, count, names, _ = struct.unpack_from("<4I", body, 8)
        for name, kind, _, description, _ in struct.iter_unpack("<IBBHQ", image[at : at + 16 * count]):
            if kind & EXTERNAL and not kind & KIND and description >> 8 in ANY_LIBRARY:
                start = names + name
                yield image[start : image.index(b"\0", start)].decode()


def problems(image, tag):
    """What is wrong with a library in a wheel whose tag is the oldest system and the processor."""
    if struct.unpack_from("<I", image)[0] != MAGIC:
        yield "no library of 64 bits for one processor"
        return
    processor, oldest, libraries, signed = facts(image)
    if processor != tag[1]:
        yield f"for {processor}, the wheel says {tag[1]}"
    if oldest is None or oldest > tag[0]:
        yield f"needs macOS {oldest}, the wheel says {tag[0]}"
    yield from (f"links {library}" for library in libraries if not library.startswith(SYSTEM))
    yield from (f"has {name} from no library" for name in looked_up(image) if not name.startswith(PYTHON))
    if processor == "arm64" and not signed:
        yield "has no signature"


def main():
    wrong, seen = [], 0
    for wheel in sys.argv[1:]:
        said = re.search(r"-macosx_(\d+)_(\d+)_(\w+)\.whl$", wheel)
        if not said:
            sys.exit(f"{wheel}: no wheel for macOS")
        tag = (int(said[1]), int(said[2])), said[3]
        with zipfile.ZipFile(wheel) as files:
            for name in files.namelist():
                if name.endswith((".so", ".dylib")):
                    image, seen = files.read(name), seen + 1
                    print(name, *(facts(image) if struct.unpack_from("<I", image)[0] == MAGIC else []))
                    wrong += [f"{wheel}: {name}: {what}" for what in problems(image, tag)]
    sys.exit("\n".join(wrong) or (0 if seen else "no library in any wheel"))


if __name__ == "__main__":
    main()
