"""Beam search against a slow twin of the algorithm, and against transformers where that is installed.

The judge, by night: `tests/night transformers`.
"""

import json
import math
import shutil

import lamina
import numpy as np
import pytest

ONCE = "Once upon a time"
SETTINGS = [(early, penalty) for early in (False, True, "never") for penalty in (1.0, 0.0, -1.0, 2.0)]


def twin(rows, prompt, width, most, penalty, early, ends):
    """Answers and their scores, best first, and the smallest gap between two numbers that anything was decided by.

    rows: logits behind each of the texts that it is given.
    """
    running, found, gap = [((), 0.0)], [], math.inf
    for length in range(1, most + 1):
        logits = rows([[*prompt, *tokens] for tokens, _ in running]).astype(np.float64)
        logits -= logits.max(-1, keepdims=True)
        logprobs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        sums = logprobs + np.array([[total] for _, total in running])
        kept = max(2, 1 + len(ends)) * width
        order = np.argsort(-sums, axis=None, kind="stable")[: kept + 1]
        gap = min(gap, -np.diff(sums.flat[order]).max())
        split = [divmod(int(i), sums.shape[1]) for i in order[:kept]]
        new = [((*running[beam][0], token), sums[beam, token]) for beam, token in split]
        ended = [length == most or tokens[-1] in ends for tokens, _ in new]
        if not (early is True and len(found) == width):
            found += [(tokens, total / length**penalty) for (tokens, total), end in zip(new[:width], ended) if end]
        found.sort(key=lambda one: -one[1])
        gap = min([gap, *(a[1] - b[1] for a, b in zip(found, found[1:]))])
        found = found[:width]
        running = [one for one, end in zip(new, ended) if not end][:width]
        if not running or (early is True and len(found) == width):
            break
        if len(found) == width:
            hope = running[0][1] / (most if early == "never" and penalty > 0 else length) ** penalty
            gap = min(gap, abs(hope - found[-1][1]))
            if hope <= found[-1][1]:
                break
    return [(list(tokens[:-1] if tokens[-1] in ends else tokens), score) for tokens, score in found], gap


@pytest.fixture(scope="module")
def often_ends(shared, tmp_path_factory):
    """A model whose answers end at every full stop and comma."""
    folder = tmp_path_factory.mktemp("stories")
    for file in (shared / "models" / "stories260k").glob("[!c]*"):
        shutil.copy(file, folder)
    config = json.loads((shared / "models" / "stories260k" / "config.json").read_text())
    with lamina.LLM(shared / "models" / "stories260k", progress=False) as llm:
        ends = [2, llm.tokenize(".")[-1], llm.tokenize(",")[-1]]
    (folder / "config.json").write_text(json.dumps({**config, "eos_token_id": ends}))
    with lamina.LLM(folder, context=512, kv_dtype="f32", progress=False) as llm:
        assert sorted(llm.info.end_tokens) == sorted(ends)
        yield folder, llm


def prompts(llm, count):
    """Beginnings of stories, of many lengths."""
    for seed in range(count):
        yield llm.generate([1], seed=seed, temperature=1.0, max_tokens=1 + seed % 37, ignore_eos=True).tokens


def test_beams_are_those_of_the_twin(often_ends):
    _, llm = often_ends

    def rows(texts):
        return np.stack([llm.logits(text)[-1] for text in texts])

    sure = 0
    for i, prompt in enumerate(prompts(llm, 24)):
        early, penalty = SETTINGS[i % len(SETTINGS)]
        width, most = 1 + i % 5, 3 + i % 11
        want, gap = twin(rows, prompt, width, most, penalty, early, llm.info.end_tokens)
        got = llm.beam(prompt, width, most, penalty, early, n=width)
        if gap > 1e-4:
            sure += 1
            assert [beam.tokens for beam in got] == [tokens for tokens, _ in want], (i, gap)
            np.testing.assert_allclose([beam.score for beam in got], [score for _, score in want], atol=1e-4)
    assert sure > 12


def test_what_a_beam_says_of_itself(stories):
    beams = stories.beam(ONCE, width=6, max_tokens=12, n=6, length_penalty=0.7)
    assert [b.score for b in beams] == sorted((b.score for b in beams), reverse=True)
    prompt = stories.tokenize(ONCE, special=True)
    for beam in beams:
        assert beam.text == stories.detokenize(prompt + beam.tokens)[len(stories.detokenize(prompt)) :]
        assert beam.finish_reason == "length" and len(beam.tokens) == 12
        assert beam.score == pytest.approx(beam.cumulative_logprob / 12**0.7)
        assert beam.cumulative_logprob == pytest.approx(stories.score(prompt, beam.tokens).logprob, abs=1e-4)
    greedy = stories.generate(ONCE, temperature=0, max_tokens=12)
    assert stories.beam(ONCE, width=1, max_tokens=12)[0].tokens == greedy.tokens
    assert beams[0].cumulative_logprob > stories.score(prompt, greedy.tokens).logprob - 1e-4


def test_beams_beside_other_requests_are_the_same(stories):
    from concurrent.futures import ThreadPoolExecutor

    asks = [(ONCE + "," * (i % 3), 2 + i % 4) for i in range(8)]
    alone = [stories.beam(text, width, max_tokens=20, n=2) for text, width in asks]
    with ThreadPoolExecutor(12) as pool:
        noise = [pool.submit(stories.generate, f"{i}", n=2, max_tokens=60) for i in range(4)]
        assert list(pool.map(lambda ask: stories.beam(ask[0], ask[1], max_tokens=20, n=2), asks)) == alone
        [future.result() for future in noise]


def test_stop_strings_and_grammars(stories):
    for beam in stories.beam(ONCE, width=4, max_tokens=40, n=4, stop=["park", "girl"]):
        assert "park" not in beam.text and "girl" not in beam.text
        assert beam.finish_reason in ("stop", "length")
    beams = stories.beam(ONCE, width=4, n=4, grammar=lamina.Grammar.from_choice([" there was", " he ran", " it", " a dog", " the end"]))
    assert len({tuple(beam.tokens) for beam in beams}) == 4, "a text has several spellings"
    assert {beam.text for beam in beams} < {" there was", " he ran", " it", " a dog", " the end"}
    assert all(beam.finish_reason == "stop" for beam in beams)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, "width"),
        ({"width": 1000}, "width"),
        ({"width": 2, "n": 3}, "n is 3"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"length_penalty": "x"}, "length_penalty"),
        ({"length_penalty": math.nan}, "length_penalty"),
        ({"early_stopping": "always"}, "early_stopping"),
        ({"stop": [""]}, "stop"),
    ],
)
def test_searches_that_are_refused(stories, options, message):
    with pytest.raises(lamina.InvalidRequestError, match=message):
        stories.beam(ONCE, **{"max_tokens": 3, **options})


@pytest.mark.filterwarnings("default")
def test_transformers_finds_the_same(often_ends):
    transformers = pytest.importorskip("transformers", reason="transformers, the judge of beam search, is not installed")
    torch = pytest.importorskip("torch", reason="torch, which transformers needs, is not installed")
    torch.set_num_threads(1)
    folder, llm = often_ends
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    @torch.no_grad()
    def rows(texts):
        return model(torch.tensor(texts)).logits[:, -1].numpy()

    equal = close = 0
    for i, prompt in enumerate(prompts(llm, 500)):
        early, penalty = SETTINGS[i % len(SETTINGS)]
        width, most = (2, 3, 4, 8)[i // len(SETTINGS) % 4], 4 + i % 21
        out = model.generate(
            torch.tensor([prompt]), num_beams=width, num_return_sequences=width, max_new_tokens=most, do_sample=False,
            length_penalty=penalty, early_stopping=early, eos_token_id=llm.info.end_tokens, pad_token_id=0,
            output_scores=True, return_dict_in_generate=True,
        )  # fmt: skip
        theirs = [row[len(prompt) :].tolist() for row in out.sequences]
        ends = [next((i for i, t in enumerate(row) if t in llm.info.end_tokens), len(row)) for row in theirs]
        theirs = [row[:end] for row, end in zip(theirs, ends)]
        ours = llm.beam(prompt, width, most, penalty, early, n=width)
        if [beam.tokens for beam in ours] == theirs:
            equal += 1
            np.testing.assert_allclose([beam.score for beam in ours], out.sequences_scores.numpy(), atol=1e-3)
            continue
        _, gap = twin(rows, prompt, width, most, penalty, early, llm.info.end_tokens)
        assert gap < 1e-4, (i, early, penalty, width, most, gap, theirs, ours)
        close += 1
    print(f"{equal} of 500 prompts have equal ids, {close} were decided by less than 1e-4")
    assert equal > 450
