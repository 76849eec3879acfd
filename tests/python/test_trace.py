"""Recordings: the same answers, the forms they come in, and pages that strangers' texts do not break."""

import json
from dataclasses import replace

import pytest

import lamina

PROMPT = "Once upon a time, there was a brave little robot"


@pytest.fixture(scope="module")
def llm():
    with lamina.LLM(progress=False, threads=1, seed=1) as llm:
        yield llm


@pytest.mark.parametrize("detail", ["steps", "ops", "tokens", "inside"])
def test_the_answer_is_the_same(llm, detail):
    want = llm.generate(PROMPT, max_tokens=12, seed=3, top_p=0.9)
    trace = llm.trace(PROMPT, detail=detail, max_tokens=12, seed=3, top_p=0.9)
    assert trace.text == want.text
    assert trace.data["requests"][0]["answer"] == list(want.tokens)
    assert len(trace.steps) == 12
    assert (len(trace.ops) > 0) == (detail != "steps")
    assert len(trace.tokens) == (12 if detail in ("tokens", "inside") else 0)
    assert (len(trace.lens) > 0, len(trace.attention) > 0) == (detail == "inside", detail == "inside")
    assert ("lens" in trace.figures) == (detail == "inside")
    assert trace.summary["prompt_tokens"] == len(llm.tokenize(PROMPT, True))


def test_what_is_saved_is_read_again(llm, tmp_path):
    trace = llm.trace([PROMPT, "A cat"], max_tokens=8, temperature=0.0)
    assert "turns" in trace.figures and "Two lives" in repr(trace)
    for name in "t.json", "t.json.gz":
        trace.save(tmp_path / name)
        assert lamina.Trace.load(tmp_path / name).data == trace.data
    trace.save(tmp_path / "t.html")
    page = (tmp_path / "t.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in page and "http://" not in page.replace("http://www.w3.org", "")
    trace.save(tmp_path / "t.chrome.json")
    events = json.loads((tmp_path / "t.chrome.json").read_text())["traceEvents"]
    assert {"engine", "machine", "requests"} == {e["args"]["name"] for e in events if e["ph"] == "M"}
    assert len([e for e in events if e["ph"] == "s"]) == len([e for e in events if e["ph"] == "f"])
    assert trace.figure("limits").svg.startswith("<svg xmlns")
    with pytest.raises(lamina.InvalidRequestError, match="there are"):
        trace.figure("nothing")
    with pytest.raises(lamina.InvalidRequestError, match="button of the page"):
        trace.figure("limits").save(tmp_path / "limits.png")
    with pytest.raises(lamina.InvalidRequestError, match="ends in none"):
        trace.save(tmp_path / "t.doc")
    with pytest.raises(lamina.InvalidRequestError, match="steps ops tokens"):
        llm.trace(PROMPT, detail="all")


def test_texts_are_told_as_they_go_out(llm):
    want = llm.generate(PROMPT, max_tokens=40, temperature=0.0).text
    stop = want[10:12] + "\N{SNOWMAN}"  # begins like the answer, which never reaches its end
    trace = llm.trace(PROMPT, max_tokens=40, temperature=0.0, stop=[stop])
    sent, held = trace.texts["bytes"], trace.texts["held"]
    assert trace.text == want and sum(sent) == len(want.encode())
    assert max(held) >= 1 and held[-1] == 0 and (sent[1:] >= held[:-1]).any()
    assert f"At most {max(held)} bytes were held back" in repr(trace)


def test_streamed_operators_say_what_they_waited_for(shared, tmp_path):
    policy = lamina.Policy(rules=["experts=disk"])
    with lamina.LLM(shared / "golden" / "mixtral", context=128, progress=False, offload=policy, panel_cache=tmp_path) as llm:
        trace = llm.trace([5, 6, 7], detail="ops", max_tokens=12, temperature=0.0)
    streams, steps = trace.streams, trace.steps
    names = {trace.data["plan"]["ops"][op]["name"] for op in streams["op"]}
    assert names == {"Experts"} and sum(streams["bytes"]) > 0
    assert sum(streams["hits"]) + sum(streams["misses"]) > 0
    for step in set(streams["step"]):
        own = streams["step"] == step
        assert sum(streams["waited"][own]) <= steps["waited"][steps["step"] == step][0]
    assert "were in memory" in repr(trace)


def test_an_older_recording_stands_beside_a_newer_one(llm, tmp_path):
    old = llm.trace(PROMPT, max_tokens=8, temperature=0.0)
    old.save(tmp_path / "old.json.gz")
    new = llm.trace(PROMPT, max_tokens=8, temperature=0.0)
    both = new.against(lamina.Trace.load(tmp_path / "old.json.gz"))
    assert both.figures == ["against", *new.figures] and "against" not in new.figures
    assert both.data == new.data and both.summary == new.summary
    assert "prompt and answer are the same" in both.html and "Then and now" in repr(both)
    assert both.figure("against").svg.startswith("<svg xmlns")
    both.save(tmp_path / "new.json")
    assert lamina.Trace.load(tmp_path / "new.json").data == new.data
    with pytest.raises(lamina.InvalidRequestError, match="there are"):
        new.figure("against")


def test_all_that_happens_meanwhile_is_watched(llm):
    with llm.watch("steps") as watching:
        llm.generate(PROMPT, max_tokens=4)
        llm.generate("A dog", max_tokens=5)
    assert list(watching.trace.sequences["what"]).count("end") == 2
    assert watching.trace.steps.to_dict()["machine"].min() > 0


def test_a_notebook_shows_how_likely_words_were(llm):
    plain = llm.generate(PROMPT, max_tokens=20, seed=3)
    assert plain.words is None and "<span" not in plain._repr_html_()
    answer = llm.generate(PROMPT, max_tokens=20, seed=3, logprobs=2)
    assert "".join(answer.words) == answer.text == plain.text
    assert len(answer.words) == len(answer.tokens)
    shown = answer._repr_html_()
    assert shown.count("<span") == len(answer.tokens) and "http" not in shown
    hostile = replace(plain, text="<img src=x onerror=alert(1)>")
    assert "<img" not in hostile._repr_html_()


def test_texts_of_strangers_stay_text(llm):
    trace = llm.trace("x</script><img src=x onerror=alert(1)>\u202e & \" '", max_tokens=2)
    body = trace.html
    assert "<img" not in body and body.count("</script>") == 2
    assert "\u202e" not in body
