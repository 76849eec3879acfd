"""Pictures in prompts and conversations, in every form in which they are given."""

import asyncio
import base64
import contextlib
import importlib
import io
import json
import logging
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import lamina
import numpy as np
import pytest

MARKER = "<|image_pad|>"


@pytest.fixture(scope="module")
def golden(shared):
    return shared / "golden-vision"


@pytest.fixture(scope="module")
def wide(golden):
    return golden / "images" / "wide.png"


@pytest.fixture(scope="module")
def llm(golden):
    with lamina.LLM(golden / "qwen2-vl", kv_dtype="f32", threads=2, progress=False) as model:
        yield model


@pytest.fixture(scope="module")
def pixels(golden):
    """The pixels of wide.png, as the reference decoded them."""
    data = (golden / "resize" / "resize.safetensors").read_bytes()
    head = int.from_bytes(data[:8], "little")
    source = json.loads(data[8 : 8 + head])["wide/source"]
    begin, end = (8 + head + at for at in source["data_offsets"])
    return np.frombuffer(data[begin:end], np.uint8).reshape(source["shape"]).copy()


class Unlike:
    """What is told to be a Pillow image by its parts alone."""

    def __init__(self, array, mode="RGB", orientation=None, info=None):
        self.array, self.mode, self.info = array, mode, info or {}
        self.size, self.orientation = (array.shape[1], array.shape[0]), orientation

    def tobytes(self):
        return self.array.tobytes()

    def convert(self, mode):
        assert mode in ("RGB", "RGBA")
        four = np.dstack([self.array, np.full(self.array.shape[:2], 255, np.uint8)])
        return Unlike(self.array if mode == "RGB" else four, mode, self.orientation)

    def getexif(self):
        return {} if self.orientation is None else {0x0112: self.orientation}


class Tensor:
    """What torch's tensors do."""

    def __init__(self, array):
        self.array = array

    def detach(self):
        return self

    def cpu(self):
        return self.array

    def __array__(self, *_, **__):
        raise TypeError("bring it to the CPU first")


def greedy(llm, *prompt, **options):
    return llm.generate(*prompt, max_tokens=6, temperature=0, ignore_eos=True, **options)


def chat(llm, *parts, **options):
    messages = [{"role": "user", "content": [*parts, {"type": "text", "text": "What is it?"}]}]
    return llm.chat(messages, max_tokens=6, temperature=0, ignore_eos=True, **options)


def test_every_form_of_a_picture_is_the_same_picture(llm, wide, pixels):
    file = wide.read_bytes()
    url = "data:image/png;base64," + base64.b64encode(file).decode()
    want = llm.image_rows(wide)
    assert want.shape[1] == llm.info.hidden and want.dtype == np.float32
    forms = [str(wide), wide, file, bytearray(file), memoryview(file), io.BytesIO(file), url, wide.as_uri()]
    forms += [pixels, np.asfortranarray(pixels), Tensor(pixels), Unlike(pixels)]
    with contextlib.suppress(ImportError):
        forms.append(importlib.import_module("PIL.Image").open(wide))
    for form in forms:
        assert np.array_equal(llm.image_rows(form), want), type(form)


def test_pixels_are_turned_laid_over_white_and_grey(llm, pixels):
    want = llm.image_rows(pixels)
    assert np.array_equal(llm.image_rows(Unlike(np.ascontiguousarray(np.rot90(pixels)), orientation=6)), want)
    clear = np.dstack([pixels, np.full(pixels.shape[:2], 255, np.uint8)])
    assert np.array_equal(llm.image_rows(clear), want)
    assert np.array_equal(llm.image_rows(Unlike(pixels, info={"transparency": 0})), want)
    hidden, white = clear.copy(), np.full_like(pixels, 255)
    hidden[..., 3] = 0
    assert np.array_equal(llm.image_rows(hidden), llm.image_rows(white))
    grey = pixels[..., 0].copy()
    for form in (grey, grey[..., None], Unlike(grey, "L")):
        assert np.array_equal(llm.image_rows(form), llm.image_rows(np.dstack([grey] * 3)))


def test_a_prompt_and_a_conversation_see(llm, wide, golden):
    answer = greedy(llm, f"{MARKER} What is it?", images=[wide])
    assert answer.tokens == greedy(llm, " What is it?", images=[wide]).tokens, "without a marker it goes first"
    assert answer.usage.image_tokens == answer.images[0].tokens == len(llm.image_rows(wide))
    assert answer.images[0].size == (96, 64) and answer.images[0].resized[0] % 14 == 0
    assert answer.tokens != greedy(llm, f"{MARKER} What is it?", images=[golden / "images" / "tall.png"]).tokens
    one = chat(llm, {"type": "image", "image": wide})
    for part in (
        {"type": "image_url", "image_url": {"url": str(wide), "detail": "high"}},
        {"type": "image_url", "image_url": str(wide)},
        {"type": "input_image", "image_url": wide.as_uri()},
        {"type": "image", "base64": base64.b64encode(wide.read_bytes()).decode()},
        {"type": "image", "source": {"type": "base64", "data": base64.b64encode(wide.read_bytes())}},
    ):
        again = chat(llm, part)
        assert again.tokens == one.tokens and again.images[0].cached, part
    assert one.usage.image_tokens > 0 and one.usage.prompt_tokens > one.usage.image_tokens
    with lamina.LLM(golden / "qwen2-vl", progress=False, kv_dtype="f32", image_cache="0") as fresh:
        first, second = (greedy(fresh, MARKER, images=[wide]) for _ in range(2))
    assert not second.images[0].cached and second.timings.encode_seconds > 0
    assert first.tokens == second.tokens
    assert chat(llm, {"type": "image", "image": wide}).timings.encode_seconds == 0


def test_a_batch_a_stream_and_coroutines_see(llm, wide, golden):
    tall = golden / "images" / "tall.png"
    alone = [greedy(llm, f"{MARKER} a", images=[wide]), greedy(llm, "b"), greedy(llm, f"{MARKER}{MARKER}", images=[tall, wide])]
    prompts, images = [f"{MARKER} a", "b", f"{MARKER}{MARKER}"], [[wide], None, [tall, wide]]
    together = greedy(llm, prompts, images=images)
    assert [a.tokens for a in together] == [a.tokens for a in alone]
    assert [len(a.images) for a in together] == [1, 0, 2]
    options = {"max_tokens": 6, "temperature": 0, "ignore_eos": True}
    stream = llm.stream(prompts[0], images=[wide], **options)
    assert [image.size for image in stream.images] == [(96, 64)]
    pieces = list(stream)
    assert [p.token for p in pieces if p.token is not None] == alone[0].tokens

    async def ask():
        one = await llm.agenerate(prompts[0], images=[wide], **options)
        many = await llm.agenerate(prompts, images=images, **options)
        streamed = [p.token async for p in llm.astream(prompts[0], images=[wide], **options)]
        said = [{"role": "user", "content": [{"type": "image", "image": wide}, {"type": "text", "text": "What is it?"}]}]
        return one, many, streamed, await llm.achat(said, **options)

    one, many, streamed, said = asyncio.run(ask())
    assert one.tokens == alone[0].tokens and [a.tokens for a in many] == [a.tokens for a in alone]
    assert [t for t in streamed if t is not None] == alone[0].tokens
    assert said.tokens == chat(llm, {"type": "image", "image": wide}).tokens


async def anext_of(stream):
    return await stream.__anext__()


def test_pictures_are_encoded_beside_the_event_loop(golden):
    """Another task goes on while a picture is encoded, and an error comes to the one that awaits."""
    large = np.random.default_rng(0).integers(0, 256, (300, 300, 3), np.uint8)

    async def ask(llm):
        at = []
        task = asyncio.create_task(llm.agenerate(MARKER, images=[large], max_tokens=1))
        while not task.done():
            await asyncio.sleep(0.001)
            at.append(threading.current_thread())
        for wrong in (llm.agenerate(MARKER, images=[b"no picture"]), anext_of(llm.astream(MARKER, images=[b"no picture"]))):
            with pytest.raises(lamina.InvalidRequestError, match=r"images\[0\]"):
                await wrong
        async with llm.astream(MARKER, images=[large]) as closed:
            pass
        assert [piece async for piece in closed] == [] and closed.images == []
        return at, await task

    with lamina.LLM(golden / "qwen2-vl", progress=False) as llm:
        at, answer = asyncio.run(ask(llm))
    assert len(at) > 1 and answer.usage.image_tokens > 0


def test_what_a_model_does_with_pictures_is_told(llm, golden, wide, stories):
    vision = llm.info.vision
    assert (vision.family, vision.projector, vision.mmproj, vision.marker) == ("qwen2_vl", "qwen2_vl", None, MARKER)
    assert vision.max_tokens > 1 and "pixels" in vision.token_rule
    assert llm.image_tokens(wide) == len(llm.image_rows(wide))
    assert stories.info.vision is None
    with lamina.LLM(golden / "gemma3", progress=False) as gemma:
        assert gemma.image_tokens(wide) == 16 + 6, "with the markup around it"
    with lamina.LLM(golden / "qwen2-vl", progress=False, mmproj=False) as blind:
        assert blind.info.vision is None
    with lamina.LLM(golden / "qwen2-vl", progress=False, image_max_tokens=4) as small:
        assert len(small.image_rows(wide)) <= 4 and small.info.vision.max_tokens == 4


def test_a_plan_tells_what_pictures_take(llm, golden, wide):
    told = lamina.plan(golden / "qwen2-vl", image=(96, 64), threads=2)
    assert told.pictures["picture"]["tokens"] == llm.image_tokens(wide)
    assert told.memory["parts"]["picture_encoder"] == told.pictures["weight_bytes"] > 0
    assert "picture encoder" in str(told)
    blind = lamina.plan(golden / "qwen2-vl", mmproj=False, threads=2)
    assert blind.pictures is None and "picture_encoder" not in blind.memory["parts"]
    with pytest.raises(lamina.InvalidRequestError, match="text only"):
        lamina.plan(image=(96, 64), threads=2)


def test_hosts_that_pictures_come_from_are_named(golden):
    folder = golden / "qwen2-vl"
    with pytest.raises(lamina.InvalidRequestError, match="allow_urls has .* must be a host"):
        lamina.LLM(folder, progress=False, allow_urls=["https://example.org"])
    with lamina.LLM(folder, progress=False, allow_urls=["example.org"]) as llm:
        for url, said in (
            ("https://example.com/a.png", "example.com is not among the hosts"),
            ("http://example.org/a.png", "only https"),
            ("https://user:word@example.org/a.png", "password"),
        ):
            with pytest.raises(lamina.InvalidRequestError, match=rf"^images\[0\]: .*{said}"):
                llm.generate(MARKER, images=[url])


def test_the_templates_text_has_markers(llm, wide):
    said = [{"role": "user", "content": [{"type": "image", "image": wide}, {"type": "text", "text": "What?"}]}]
    assert llm.apply_chat_template(said).count(MARKER) == 1


def test_wrong_pictures_are_refused_with_their_place(llm, golden, wide, stories, tmp_path):
    hostile = golden / "hostile"
    cut = tmp_path / "cut.png"
    cut.write_bytes(wide.read_bytes()[:200])
    for wrong, said in (
        (cut, "damaged"),
        (hostile / "picture.heic", "HEIC"),
        (hostile / "vector.svg", "SVG"),
        (hostile / "bomb-bits.png", "allowed"),
        (tmp_path / "none.png", "cannot be read"),
        (tmp_path, "cannot be read"),
        (b"", "this is no picture"),
        ("https://example.com/a.png", "not fetched"),
        ("data:image/png;base64,%%%", "no base64"),
        ("data:image/png", "comma"),
        (7, "takes a path"),
        (np.zeros((3, 40, 40), np.uint8), "channels first"),
        (np.zeros((40, 40, 3), np.float32), "uint8"),
        (np.zeros((0, 40, 3), np.uint8), "no picture"),
        (np.zeros((2, 2, 2, 2), np.uint8), "height, width"),
        (Unlike(np.zeros((4, 4), np.int32), "I"), "8 bits"),
        (np.zeros((1, 400, 3), np.uint8), "200 times"),
    ):
        with pytest.raises(lamina.InvalidRequestError, match=r"images\[1\]|picture 2 of 2") as error:
            llm.generate(MARKER * 2, images=[wide, wrong])
        assert said in str(error.value), error.value
        assert len(str(error.value)) < 400
    with pytest.raises(lamina.InvalidRequestError, match=r"messages\[0\].content\[0\]: this model takes text only"):
        chat(stories, {"type": "image", "image": wide})
    with pytest.raises(lamina.InvalidRequestError, match=r"images\[0\]: this model takes text only.*mmproj"):
        stories.generate("What?", images=[wide])
    with pytest.raises(lamina.InvalidRequestError, match="has no picture"):
        chat(llm, {"type": "image"})
    with pytest.raises(lamina.InvalidRequestError, match="3 places"):
        llm.generate(MARKER * 3, images=[wide])
    with pytest.raises(lamina.InvalidRequestError, match="for each of the 2 prompts"):
        llm.generate(["a", "b"], images=[wide])
    with pytest.raises(lamina.InvalidRequestError, match="takes a list of pictures"):
        llm.generate("a", images=wide)


def test_limits_are_heeded(golden, wide):
    folder = golden / "qwen2-vl"
    for limit, said in (("side=95", "95 on a side"), ("count=1", "more than 1 pictures"), ("all=7000", "7000 pixels")):
        with lamina.LLM(folder, progress=False, image_limit=limit) as llm:
            with pytest.raises(lamina.InvalidRequestError, match=said):
                llm.generate(MARKER * 2, images=[wide, wide])
    with lamina.LLM(folder, progress=False, context=24) as llm:
        with pytest.raises(lamina.InvalidRequestError, match="those of its pictures are"):
            llm.generate("What?", images=[wide] * 8)
    for wrong in ({"image_limit": "large"}, {"image_max_tokens": 0}, {"mmproj": 7}, {"mmproj": True}, {"image_cache": "x"}):
        with pytest.raises(lamina.InvalidRequestError):
            lamina.LLM(folder, progress=False, **wrong)
    other = golden / "mmproj" / "qwen2-vl.gguf"
    with pytest.raises(lamina.InvalidRequestError, match="of another model"):
        lamina.LLM(progress=False, mmproj=other)


def test_a_picture_that_moves_is_said(llm, golden, caplog):
    moving = golden / "decode" / "moving.gif"
    with caplog.at_level(logging.WARNING, logger="lamina"):
        greedy(llm, MARKER, images=[moving])
    assert "first frame" in caplog.text
    assert any("first frame" in warning for warning in chat(llm, {"type": "image", "image": moving}).warnings)


def test_the_file_of_an_encoder_is_found_beside_the_model(golden, wide, tmp_path):
    model = tmp_path / "model.gguf"
    command = [sys.executable, "-m", "lamina", "convert", str(golden / "qwen2-vl"), str(model), "--no-mmproj"]
    subprocess.run(command, check=True, capture_output=True)
    with lamina.LLM(model, progress=False) as blind:
        assert blind.info.vision is None
    shutil.copy(golden / "mmproj" / "qwen2-vl.gguf", tmp_path / "mmproj-model.gguf")
    with lamina.LLM(model, progress=False) as seeing, lamina.LLM(golden / "qwen2-vl", progress=False) as folder:
        assert Path(seeing.info.vision.mmproj).name == "mmproj-model.gguf"
        assert any("mmproj-model.gguf" in note for note in seeing.info.notes)
        assert np.array_equal(seeing.image_rows(wide), folder.image_rows(wide))
    shutil.copy(tmp_path / "mmproj-model.gguf", tmp_path / "mmproj-other.gguf")
    with pytest.raises(lamina.InvalidRequestError, match=r"mmproj-model\.gguf.*mmproj-other\.gguf"):
        lamina.LLM(model, progress=False)
    with lamina.LLM(model, progress=False, mmproj=tmp_path / "mmproj-other.gguf") as named:
        assert named.info.vision is not None


def test_memory_stays_flat_over_pictures(golden):
    """The cache of rows is full from the first pictures on."""
    code = """
import sys, resource, numpy as np, lamina
llm = lamina.LLM(sys.argv[1], progress=False, image_cache="1MiB", context=256)
random = np.random.default_rng(0)
def rss():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
for i in range(240):
    llm.generate("<|image_pad|>", images=[random.integers(0, 256, (64, 64, 3), np.uint8)], max_tokens=1)
    if i == 40: before = rss()
print(rss() - before)
"""
    if not Path("/proc/self/statm").exists():
        pytest.skip("the system does not tell what a process takes")
    run = subprocess.run([sys.executable, "-c", code, str(golden / "qwen2-vl")], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 16 << 20, f"grew by {int(run.stdout) >> 20} MiB"
