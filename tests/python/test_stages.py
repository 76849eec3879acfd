"""Parts of a model that ranks compute, in processes of their own: the answers of one machine, and clear words when one is gone."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading

import lamina
import pytest

OWN = os.environ.get("LAMINA_TEST_COMMAND")
COMMAND = [OWN] if OWN else [sys.executable, "-m", "lamina"]
KEY = "k" * 40
PROMPT = "Once upon a time"


@contextlib.contextmanager
def ranks(count=1, key=None, *options, isa=None):
    """Addresses of ranks, and their processes."""
    more = {"LAMINA_APP_KEY": key, "LAMINA_ISA": isa}
    env = {**os.environ, **{name: value for name, value in more.items() if value}}
    args = [*COMMAND, "rank", "--listen", "127.0.0.1:0", "--threads", "1", *options]
    running = [subprocess.Popen(args, stderr=subprocess.PIPE, text=True, env=env) for _ in range(count)]
    try:
        addresses = [process.stderr.readline().split()[-1] for process in running]
        readers = [threading.Thread(target=process.stderr.read) for process in running]
        [reader.start() for reader in readers]
        yield addresses, running
    finally:
        for process in running:
            process.kill()
            process.wait()
        [reader.join() for reader in readers]
        [process.stderr.close() for process in running]


def run(*args, key=None):
    env = {**os.environ, **({"LAMINA_APP_KEY": key} if key else {})}
    return subprocess.run([*COMMAND, *args], capture_output=True, text=True, env=env, timeout=60)


@pytest.mark.parametrize(("way", "said"), [("--stages", ""), ("--tp", "1 of 3 parts of each matrix is ")])
def test_a_command_on_several_machines_says_what_it_says_alone(way, said):
    args = ["run", "--seed", "3", "-n", "40", "--threads", "1"]
    alone = run(*args, PROMPT)
    with ranks(2) as (addresses, _):
        divided = run(*args, way, ",".join(addresses), PROMPT)
    assert divided.returncode == 0 and divided.stdout == alone.stdout
    assert all(f"{said}computed by rank {address}" in divided.stderr for address in addresses)


@pytest.mark.parametrize("tp", ["2", "3", "numa"])
def test_ranks_inside_one_process_say_what_one_says(tp):
    args = ["run", "--seed", "3", "-n", "40", "--threads", "2"]
    alone, divided = run(*args, PROMPT), run(*args, "--tp", tp, PROMPT)
    assert divided.returncode == 0 and divided.stdout == alone.stdout
    known = tp != "numa" or "one node of memory" not in divided.stderr
    assert not known or "computed by rank 1 of this process" in divided.stderr, divided.stderr
    with lamina.LLM(threads=2, tp=tp if tp == "numa" else int(tp), progress=False) as llm:
        assert llm.generate(PROMPT, max_tokens=40, seed=3).text == alone.stdout.removesuffix("\n")


def test_a_plan_measures_the_link_to_a_rank():
    with ranks(key=KEY) as ([address], _):
        args = ["plan", "--machines", "2", "--link", address]
        told = run(*args, "--json", key=KEY)
        assert told.returncode == 0, told.stderr
        link = json.loads(told.stdout)["machines"][0]["link"]
        assert link["name"] == "measured" and 0 <= link["message_s"] < 0.1 and link["gb_s"] > 0.01, link
        assert "measured" in run(*args, key=KEY).stdout
        assert lamina.plan(machines=2, link="35us,1GB").machines[0]["link"]["name"] is None
        other = run(*args, key="o" * 40)
        assert other.returncode == 1 and address in other.stderr, other.stderr
        # It has not been used up.
        assert run("run", "-n", "4", "--stages", address, PROMPT, key=KEY).returncode == 0
    gone = run(*args, key=KEY)
    assert gone.returncode == 1 and address in gone.stderr, gone.stderr
    wrong = run("plan", "--machines", "2", "--link", "wire")
    assert wrong.returncode == 2 and "HOST:PORT" in wrong.stderr, wrong.stderr


def test_ranks_of_shards_have_to_compute_alike():
    with ranks(isa="scalar") as ([address], _):
        refused = run("run", "--tp", address, PROMPT)
        assert refused.returncode == 1 and "all have to compute alike" in refused.stderr, refused.stderr
        assert run("run", "-n", "4", "--stages", address, PROMPT).returncode == 0


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
def test_a_rank_of_shards_that_is_gone_is_named_and_the_others_serve_again(end):
    with ranks(2) as (addresses, [process, other]):
        llm = lamina.LLM(threads=1, tp=",".join(addresses))
        stream = llm.stream(PROMPT, max_tokens=2000, ignore_eos=True)
        next(iter(stream))
        process.send_signal(end)
        with pytest.raises(lamina.DeviceLostError, match=addresses[0]):
            list(stream)
        with pytest.raises(lamina.LaminaError):
            llm.generate(PROMPT, max_tokens=1)
        llm.close()
        process.send_signal(signal.SIGCONT)
        alone = lamina.LLM(threads=1).generate(PROMPT, max_tokens=30, seed=1).text
        assert lamina.LLM(threads=1, tp=addresses[1]).generate(PROMPT, max_tokens=30, seed=1).text == alone
        assert other.poll() is None


def test_who_has_another_key_is_turned_away():
    with ranks(1, KEY) as ([address], _):
        for key in (None, "l" * 40):
            refused = run("run", "--stages", address, PROMPT, key=key)
            assert refused.returncode == 1 and "has another key" in refused.stderr, refused.stderr
        assert run("run", "-n", "4", "--stages", address, PROMPT, key=KEY).returncode == 0


def test_other_machines_are_reached_with_a_key_alone():
    refused = run("rank", "--listen", "0.0.0.0:0")
    assert refused.returncode == 1 and "LAMINA_APP_KEY" in refused.stderr
    refused = run("run", "--stages", "192.0.2.1:9000", PROMPT)
    assert refused.returncode == 1 and "LAMINA_APP_KEY" in refused.stderr


def test_an_answer_in_stages_is_that_of_one_machine_and_a_rank_that_dies_is_named():
    alone = lamina.LLM(threads=1).generate(PROMPT, max_tokens=30, seed=1).text
    with ranks() as ([address], [process]):
        llm = lamina.LLM(threads=1, stages=f"{address}=2")
        assert llm.generate(PROMPT, max_tokens=30, seed=1).text == alone
        stream = llm.stream(PROMPT, max_tokens=2000, ignore_eos=True)
        next(iter(stream))
        process.send_signal(signal.SIGKILL)
        with pytest.raises(lamina.DeviceLostError, match=address):
            list(stream)
        with pytest.raises(lamina.LaminaError):
            llm.generate(PROMPT, max_tokens=1)


def test_a_rank_that_stops_speaking_is_given_up():
    with ranks() as ([address], [process]):
        llm = lamina.LLM(threads=1, stages=address)
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(lamina.DeviceLostError, match="has said nothing for 10 seconds"):
            llm.generate(PROMPT, max_tokens=4)
        process.send_signal(signal.SIGCONT)


def test_what_is_no_list_of_ranks_is_refused():
    for wrong in ("host", "host:port", ":1", "host:1=0"):
        with pytest.raises(lamina.InvalidRequestError, match="HOST:PORT"):
            lamina.LLM(stages=wrong)
    for wrong in ("host", "host:1=2", "0", "65", "2,host:1"):
        with pytest.raises(lamina.InvalidRequestError, match="HOST:PORT"):
            lamina.LLM(tp=wrong)
    refused = run("plan", "--stages", "127.0.0.1:1")
    assert refused.returncode == 1 and "leave stages and tp out" in refused.stderr
