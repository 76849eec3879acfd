"""`SamplingParams`."""

import copy
import inspect
import pickle

import lamina
import numpy as np
import pytest
from lamina._lamina import sampling_params
from lamina.sampling import SamplingOptions

NAMES = [row[0] for row in sampling_params()]


def test_every_parameter_of_the_engine_is_there():
    params = lamina.SamplingParams()
    for name, aliases, _, default, _, text in sampling_params():
        assert getattr(params, name) == getattr(lamina.SamplingParams, name) == default
        assert text in lamina.SamplingParams.__doc__
        assert name in inspect.signature(lamina.SamplingParams).parameters
        for given in (name, *aliases):
            assert lamina.SamplingParams(**{given: default}) == params
            assert given in SamplingOptions.__annotations__


def test_names_that_users_type():
    for name in """temperature top_p top_k min_p typical_p repeat_penalty presence_penalty frequency_penalty mirostat
        mirostat_tau mirostat_eta dry_multiplier dry_base xtc_probability xtc_threshold logit_bias logprobs seed""".split():
        assert name in NAMES


def test_defaults_are_those_of_llama_cpp():
    p = lamina.SamplingParams()
    assert (p.temperature, p.top_k, p.top_p, p.min_p, p.repeat_penalty) == (0.8, 40, 0.95, 0.05, 1.0)
    assert (p.max_tokens, p.n, p.stop, p.echo, p.ignore_eos) == (None, 1, [], False, False)


def test_value(stories):
    p = lamina.SamplingParams(temperature=0.2, stop="x", top_k=np.int64(5), logit_bias={3: 1})
    assert repr(p) == "SamplingParams(stop=['x'], logit_bias={3: 1}, top_k=5, temperature=0.2)".replace(
        "top_k=5", f"top_k={p.top_k!r}"
    )
    assert p == lamina.SamplingParams(temp=0.2, stop=["x"], top_k=5, logit_bias={3: 1})
    assert p != lamina.SamplingParams() and p != 3
    q = p.replace(temp=0.3, stop=None)
    assert (q.temperature, q.stop, q.top_k, p.temperature) == (0.3, [], 5, 0.2)
    assert pickle.loads(pickle.dumps(p)) == p == copy.deepcopy(p)
    assert lamina.SamplingParams(**p.as_dict()) == p
    assert eval(repr(lamina.SamplingParams(top_p=0.5)), {"SamplingParams": lamina.SamplingParams}).top_p == 0.5


def test_it_cannot_be_changed():
    p = lamina.SamplingParams()
    with pytest.raises(AttributeError, match="replace"):
        p.temperature = 1.0
    with pytest.raises(AttributeError):
        del p.temperature
    stop = ["a"]
    p = lamina.SamplingParams(stop=stop)
    stop.append("b")
    assert p.stop == ["a"]
    lamina.SamplingParams().dry_sequence_breakers.clear()
    assert lamina.SamplingParams().dry_sequence_breakers != []


def test_none_is_the_default():
    assert lamina.SamplingParams(**{name: None for name in NAMES}) == lamina.SamplingParams()


def test_twice_is_an_error():
    with pytest.raises(TypeError, match="'temperature' is given twice, once as 'temp'"):
        lamina.SamplingParams(temperature=1, temp=1)


def test_wrong_values_are_found_where_they_are_written():
    with pytest.raises(lamina.InvalidRequestError, match="top_p = 2"):
        lamina.SamplingParams(top_p=2)
    with pytest.raises(TypeError, match="temperature"):
        lamina.SamplingParams().replace(temperatur=1)
