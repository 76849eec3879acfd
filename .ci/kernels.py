#!/usr/bin/env python3
"""Compiles every GPU kernel for every CUDA architecture, and holds registers, stack and shared memory against kernels/*list.h.

`--out FOLDER` keeps the images, and the sources that they are of: a build takes them with LAMINA_CUBINS=FOLDER. Names of
architectures, such as sm_90, compile those only. What was found for all of them is kept in benches/record/kernels.txt with a hash
of the sources; `--recorded` asks whether it is of these sources. Images have the kernels that plans launch on them. compute_75 and compute_120
are texts in PTX, which drivers compile: of the kernels that only `lamina doctor` runs, and of all for newer devices.
"""

import argparse
import ctypes
import hashlib
import itertools
import lzma
import re
import site
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KERNELS = ROOT / "crates/gpu/kernels"
RECORD = ROOT / "benches/record/kernels.txt"
ARCHITECTURES = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120", "compute_75", "compute_120"]
OPTIONS = ["--std=c++17", "--fmad=false", "-default-device", f"-I{KERNELS}"]
MOST_SHARED = 48 << 10
# Registers that cost nothing on devices before sm_80: a multiprocessor has 64 for each of its 1024 threads.
FREE_BEFORE_80 = 64
# Shared memory of half of a multiprocessor there, which products of many rows keep to.
HALF_BEFORE_80 = 32 << 10
# What the images of all architectures may add to a wheel.
MOST_COMPRESSED = 2 << 20


def fingerprint():
    """A hash of all that decides what is compiled and what it is held against."""
    files = sorted(f for f in KERNELS.rglob("*") if f.is_file())
    texts = [f.relative_to(KERNELS).as_posix().encode() + b"\0" + f.read_bytes() for f in files]
    return hashlib.sha256(b"\0".join([*texts, Path(__file__).read_bytes()])).hexdigest()


def package_file(pattern):
    found = [f for folder in site.getsitepackages() for f in Path(folder, "nvidia").rglob(pattern)]
    if not found:
        sys.exit(f"no {pattern}: install nvidia-cuda-nvrtc-cu12, nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm, as .ci/kernels does")
    return str(sorted(found)[0])


def limits():
    """Most registers of each kernel of the lists."""
    text = "".join((KERNELS / file).read_text() for file in ("list.h", "tensor_list.h"))
    lines = re.findall(r"^KERNEL_LINE\((\w+), \d+, \d+, (\d+)\)$", text, re.M)
    return {name: int(registers) for name, registers in lines}


def compared(names):
    """Those of all kernels that CUDA runs for their golden bits alone: products by fma of types that tensor cores multiply."""
    types = {name.removeprefix("tensor_few_") for name in names if name.startswith("tensor_few_")}
    return {name for name in names if (found := re.fullmatch(r"product_(?:few|many|each)_(\w+)", name)) and found[1] in types}


def number_of(architecture):
    return int(architecture.split("_")[1])


def launched(names, number):
    """Those of all kernels that plans launch: tensor cores before sm_80 have no bfloat16, which is multiplied by fma there."""
    bf16 = {name for name in names if re.fullmatch(r"(tensor|attend|product)_\w+_bf16", name)}
    portable = {name for name in bf16 if name.startswith("product_")}
    return (names - compared(names) - bf16) | portable if number < 80 else names - compared(names)


def part(architecture):
    """Options for the part of the kernels that is compiled for an architecture, and the names of its kernels."""
    names, number = set(limits()), number_of(architecture)
    if architecture.startswith("sm_"):
        return ["-DONLY_LAUNCHED"], launched(names, number)
    # Newer devices have nothing but their text.
    return (["-DONLY_COMPARED"], compared(names)) if number < 120 else ([], names)


def compiled(nvrtc, architecture):
    """The image of an architecture, or its text in PTX, whose end is a 0."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), b'#include "all.h"\n', b"kernels.cu", 0, None, None)
    options = [o.encode() for o in [*OPTIONS, *part(architecture)[0], f"--gpu-architecture={architecture}"]]
    failed = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    if failed:
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(f"{architecture}: {log.value.decode()}")
    kind = "CUBIN" if architecture.startswith("sm_") else "PTX"
    getattr(nvrtc, f"nvrtcGet{kind}Size")(program, ctypes.byref(size))
    image = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{kind}")(program, image)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return image.raw


def usage(cuobjdump, image):
    """Registers, stack and shared memory of each kernel of an image."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(image)
        file.flush()
        out = subprocess.run([cuobjdump, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"Function (\w+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+)", out)
    return {name: tuple(map(int, numbers)) for name, *numbers in found}


def issued(nvdisasm, image):
    """Instructions that a warp issues for 512 weights in the loop of each product on tensor cores, for as many rows as its
    tile has: two HMMA are 512 weights times 8 rows, or four where one has 8 inputs (HMMA.1688)."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(image)
        file.flush()
        out = subprocess.run([nvdisasm, "-c", file.name], capture_output=True, text=True, check=True).stdout
    for name, body in re.findall(r"^\.text\.(tensor_(?:few|many)_\w+):\n(.*?)(?=^\.text\.|\Z)", out, re.M | re.S):
        lines = [line for line in body.splitlines() if re.match(r"\.L_x_\d+:|\s+/\*[0-9a-f]+\*/", line)]
        labels = {line.rstrip(":"): i for i, line in enumerate(lines) if line.startswith(".L_x_")}
        loops = [(labels.get(found[1], i), i) for i, line in enumerate(lines) if (found := re.search(r"BRA.*`\((\.L_x_\d+)\)", line))]
        bodies = [[line for line in lines[a:b + 1] if not line.startswith(".L")] for a, b in loops if a < b]
        inputs = lambda line: 16 if "HMMA.16816" in line else 8 if "HMMA" in line else 0
        bodies = [(len(body), sum(map(inputs, body))) for body in bodies]
        # The innermost loop with products in it.
        if inner := min((body for body in bodies if body[1]), default=None):
            yield name, inner[0] * 32 * (8 if "many" in name else 1) // inner[1]


def entries(text):
    """Names of the kernels of a text in PTX."""
    return set(re.findall(r"^\.visible \.entry (\w+)\(", text.decode(errors="replace"), re.M))


def misplaced(architecture, found):
    """Kernels that are missing, or should be elsewhere."""
    names = part(architecture)[1]
    for name in sorted(names ^ found):
        yield f"{architecture}: {name} is {'not compiled' if name in names else 'not in the list, or not for this'}"


def beyond(architecture, used):
    """What is over its limit."""
    most = limits()
    for name in sorted(most.keys() & used.keys()):
        registers, stack, shared = used[name]
        old = number_of(architecture) < 80
        limit = max(most[name], FREE_BEFORE_80 if old else 0)
        room = HALF_BEFORE_80 if old and name.startswith("tensor_many_") else MOST_SHARED
        if registers > limit or stack or shared > room:
            yield f"{architecture}: {name} has {registers} registers (at most {limit}), {stack} bytes of stack, {shared} shared"


def packed(images):
    """Images as a build holds them, their lengths first: wheels compress by deflate only, which leaves half as much again."""
    lengths = b"".join(len(image).to_bytes(4, "little") for image in images)
    # Instructions have 16 bytes, whose places say more of the next byte than the bytes before; text has none.
    binary = images[0].startswith(b"\x7fELF")
    places = {"lc": 0, "lp": 4, "pb": 4} if binary else {}
    words = {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, **places}
    return lzma.compress(lengths + b"".join(images), filters=[words])


def packs(images):
    """Files of a build by name: images of like instructions are packed together, which takes half of what they take apart."""
    # Blackwell's instructions differ from those before it; texts are nearly the same.
    alike = lambda name: (name.split("_")[0], name.startswith("sm_") and number_of(name) >= 100)
    names = sorted(images, key=lambda name: (alike(name), number_of(name)))
    for (kind, _), group in itertools.groupby(names, alike):
        group = list(group)
        yield "_".join([kind, *(str(number_of(name)) for name in group)]) + ".xz", packed([images[name] for name in group])


def keep(folder, files):
    """Writes the images for a build, compressed, and the sources, which the build holds against its own (crates/cuda/build.rs)."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    files = sorted(f.relative_to(KERNELS).as_posix() for f in KERNELS.rglob("*") if f.is_file())
    sources = "".join(f"== {file}\n{(KERNELS / file).read_text()}" for file in files)
    (folder / "sources.txt").write_text(sources)


def examined(images, tools):
    """What is wrong with images, and lines that tell what they are."""
    wrong, told = [], []
    for architecture, image in images.items():
        if architecture.startswith("compute_"):
            wrong += misplaced(architecture, entries(image))
            told.append(f"{architecture}: {len(entries(image))} kernels, {len(image)} bytes of text")
            continue
        used = usage(tools["cuobjdump"], image)
        wrong += misplaced(architecture, used.keys())
        wrong += beyond(architecture, used)
        told.append(f"{architecture}: {len(used)} kernels, {len(image)} bytes, most registers {max(r for r, _, _ in used.values())}")
        counts = ", ".join(f"{name.removeprefix('tensor_')} {count}" for name, count in issued(tools["nvdisasm"], image))
        told.append(f"{architecture}: instructions of a warp for 512 weights: {counts}")
    return wrong, told


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("architectures", nargs="*", default=ARCHITECTURES)
    parser.add_argument("--out", type=Path, help="folder for the images")
    parser.add_argument("--recorded", action="store_true", help="compile nothing: print the record, and fail where it is of other sources")
    options = parser.parse_args()
    if options.recorded:
        record = RECORD.read_text() if RECORD.is_file() else ""
        print(record, end="")
        sys.exit(0 if record.startswith(fingerprint()) else f"{RECORD.name} is of other kernels: .ci/kernels writes it anew")
    nvrtc = ctypes.CDLL(package_file("libnvrtc.so.*"))
    architectures = options.architectures
    with ThreadPoolExecutor(2) as pool:
        images = dict(zip(architectures, pool.map(lambda a: compiled(nvrtc, a), architectures)))
    wrong, told = examined(images, {name: package_file(name) for name in ("cuobjdump", "nvdisasm")})
    files = dict(packs(images))
    told.append("compressed: " + ", ".join(f"{name} {len(data)} bytes" for name, data in files.items()))
    print("\n".join(told))
    if options.out:
        keep(options.out, files)
    compressed = sum(map(len, files.values()))
    if compressed > MOST_COMPRESSED:
        wrong.append(f"the images take {compressed} bytes of a wheel, at most {MOST_COMPRESSED}")
    if not wrong and architectures == ARCHITECTURES:
        RECORD.write_text("\n".join([fingerprint(), *told]) + "\n")
    sys.exit("\n".join(wrong) if wrong else 0)


if __name__ == "__main__":
    main()
