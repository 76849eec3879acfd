#!/usr/bin/env python3
"""Size of a wheel and of the library in it, against what they may have: fails a tenth above that."""

import sys
import zipfile

MB = 1_000_000
# Without the model that is packaged; the library as it is when unpacked.
MOST_WHEEL, MOST_LIBRARY = 10 * MB, 16 * MB
BEYOND = 1.1


def main(path):
    files = zipfile.ZipFile(path).infolist()
    wheel = sum(f.compress_size for f in files if not f.filename.endswith(".gguf"))
    library = max(f.file_size for f in files if f.filename.endswith((".so", ".pyd", ".dylib")))
    print(f"wheel {wheel / MB:.2f} MB without its model (at most {MOST_WHEEL / MB:.0f}), library {library / MB:.2f} MB (at most {MOST_LIBRARY / MB:.0f})")
    sys.exit(wheel > BEYOND * MOST_WHEEL or library > BEYOND * MOST_LIBRARY)


main(sys.argv[1])
