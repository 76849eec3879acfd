"""Writes what tests of sound compare with: features by transformers' WhisperFeatureExtractor, a tone in three formats, and a
rising tone in noise.

Needs numpy, transformers (5.24 wrote the files here; without torch, so that the NumPy path computes), sox and
lame.
"""

import json
import subprocess
import wave
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from transformers import WhisperFeatureExtractor

FILES = Path(__file__).parent / "files"
FRAMES = [0, 1, 2, 3, 50, 74, 147, 148, 149, 150, 151, 190]


def chirp(samples):
    t = np.arange(samples) / 16_000
    return (0.4 * np.sin(2 * np.pi * (200 + 900 * t) * t) + 0.05 * np.sin(2 * np.pi * 3333 * t)).astype(np.float32)


def case(mels, seconds, samples):
    extractor = WhisperFeatureExtractor(feature_size=mels, chunk_length=seconds)
    answer = extractor(chirp(samples), sampling_rate=16_000, return_attention_mask=True)
    features = np.asarray(answer["input_features"])[0]
    return {
        "mels": mels,
        "seconds": seconds,
        "samples": samples,
        "heard": int(np.asarray(answer["attention_mask"]).sum()),
        "frames": {str(f): [round(float(v), 7) for v in features[:, f]] for f in FRAMES},
    }


def tone():
    """Left and right channels of different size, 0.3 s at 22,050 Hz."""
    at = np.sin(2 * np.pi * 440 * np.arange(6_615) / 22_050)
    return np.round(np.stack([0.6 * at, 0.2 * at], axis=1) * 32_767).astype("<i2")


def sweep():
    """The sound of shared fixtures of Qwen2-Audio, 1.5 s at 16 kHz, in samples of 24 bits."""
    t = np.arange(24_000) / 16_000
    noise = 0.05 * np.random.default_rng(5).normal(size=24_000)
    samples = np.round((0.4 * np.sin(2 * np.pi * (200 + 900 * t) * t) + noise) * 2**23).astype("<i4")
    return samples.view(np.uint8).reshape(-1, 4)[:, :3].tobytes()


with wave.open(str(FILES / "sweep.wav"), "wb") as file:
    file.setnchannels(1)
    file.setsampwidth(3)
    file.setframerate(16_000)
    file.writeframes(sweep())
cases = [case(32, 2, 24_000), case(80, 2, 24_001), case(128, 2, 23_999)]
(FILES / "whisper.json").write_text(json.dumps(cases) + "\n")
with TemporaryDirectory() as folder:
    source = f"{folder}/tone.wav"
    with wave.open(source, "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(22_050)
        file.writeframes(tone().tobytes())
    for name, quality in [("flac", "8"), ("ogg", "5")]:
        subprocess.run(["sox", "-D", "-R", source, "-C", quality, FILES / f"tone.{name}"], check=True)
    # sox writes no tag with the encoder's delay and padding. LAME lowers the volume by 5 %.
    subprocess.run(["lame", "--quiet", "-b", "64", source, FILES / "tone.mp3"], check=True)
