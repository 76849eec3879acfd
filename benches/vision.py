#!/usr/bin/env python3
"""Pictures: Lamina's encoder beside that of llama.cpp (mtmd) on the same files, and what a cached picture saves, in turn.

    python benches/vision.py [SHAPE ..] [--threads 2] [--rounds 3] [--folder DIR] [--kind F16] [--record FILE]

SHAPE: clip-l-336 siglip-so400m qwen2.5-vl [default: all]; files with random weights are made in the folder, once (some 2 GB each).
Needs gguf and numpy, and llama-cpp-python for the peer. Both sides encode
the same picture of noise in the size that the encoder takes. Nothing else should run. The command is the one on the path, or `LAMINA`.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

import made_vision
import record
from stages import COMMAND, spread


class Peer:
    """llama.cpp in a process of its own."""

    def __init__(self, job):
        program = Path(__file__).with_name("peer_mtmd.py")
        command = [sys.executable, str(program), json.dumps(job)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
        self.see()

    def see(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def files(args, shape):
    """The text model and the encoder, which are made where they are missing."""
    folder = Path(args.folder)
    folder.mkdir(parents=True, exist_ok=True)
    model, mmproj = folder / f"{shape}.gguf", folder / f"{shape}-{args.kind}-mmproj.gguf"
    if not model.exists():
        made_vision.text(shape, model, "Q8_0")
    if not mmproj.exists():
        made_vision.encoder(shape, mmproj, args.kind)
    return str(model), str(mmproj)


def own(args, model, mmproj, side):
    """Seconds of each part of one picture behind a warm-up."""
    command = [COMMAND, "bench", model, "--mmproj", mmproj, "--image", f"{side}x{side}", "--repeat", "1", "--json"]
    found = subprocess.run([*command, "--threads", str(args.threads)], capture_output=True, check=True)
    told = json.loads(found.stdout)
    return {"tokens": told["tokens"], **{part: told[f"{part}_s"][0] for part in ("resize", "encode", "ttft", "ttft_cached")}}


def measure(args, shape):
    model, mmproj = files(args, shape)
    side = made_vision.SHAPES[shape]["picture"]
    peer = Peer({"model": model, "mmproj": mmproj, "threads": args.threads, "size": [side, side]})
    rounds = [(own(args, model, mmproj, side), peer.see()) for _ in range(args.rounds)]
    peer.close()
    row = {"model": shape, "dtype": args.kind, "threads": args.threads, "side": side, "tokens": [one["tokens"] for one in rounds[0]]}
    # Pictures in a second.
    speeds = [[1 / one["encode"] for one in each] for each in rounds]
    ours, theirs = (spread([one[i] for one in speeds]) for i in (0, 1))
    row["encode"] = {"lamina": ours, "peer": theirs, "ratio": spread([a / b for a, b in speeds])}
    row["cached"] = round(statistics.median(one["ttft_cached"] / one["ttft"] for one, _ in rounds), 4)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", metavar="SHAPE")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", default="target/vision")
    parser.add_argument("--kind", default="F16", help="type of the encoder's matrices, such as F16 or Q8_0")
    parser.add_argument("--record")
    args = parser.parse_args()
    if unknown := set(args.shapes) - set(made_vision.SHAPES):
        parser.error(f"there is no shape {' '.join(unknown)}")
    for shape in args.shapes or made_vision.SHAPES:
        row = measure(args, shape)
        print(json.dumps(row), flush=True)
        if args.record:
            record.append(args.record, row, peer=record.peer())


if __name__ == "__main__":
    main()
