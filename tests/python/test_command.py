"""The `lamina` command as the package installs it."""

import json
import os
import signal
import subprocess
import sys
import time

import lamina
import pytest

COMMANDS = {
    "module": [sys.executable, "-m", "lamina"],
    "script": [sys.executable, "-c", "import sys; from lamina.__main__ import main; sys.exit(main())"],
}


@pytest.fixture(params=COMMANDS)
def command(request):
    def run(*args, **options):
        line = [*COMMANDS[request.param], *map(str, args)]
        return subprocess.run(line, capture_output=True, text=True, timeout=120, **options)

    return run


def test_it_is_installed():
    assert "lamina" in {e.name for e in entry_points()}


def test_licences_of_what_it_links_are_inside():
    from importlib.metadata import distribution

    notices = [f for f in distribution("lamina").files if f.name == "THIRD-PARTY-LICENSES.txt"]
    text = notices[0].read_text(encoding="utf-8")
    assert all(name in text for name in ("marked 4", "hyper 1", "pyo3 0", "the Rust standard library"))


def entry_points():
    from importlib.metadata import distribution

    return distribution("lamina").entry_points


def test_run_and_exit_codes(command, stories_folder):
    text = lamina.LLM(stories_folder, progress=False).generate("Once", max_tokens=10, temperature=0).text
    done = command("run", stories_folder, "Once", "--max-tokens", 10, "--temperature", 0)
    assert done.returncode == 0, done.stderr
    assert text in done.stdout
    assert command("--version").stdout.split()[-1] == lamina.__version__
    assert command("nonsense").returncode == 2
    failed = command("inspect", stories_folder / "nowhere")
    assert failed.returncode == 1 and "nowhere" in failed.stderr and "Traceback" not in failed.stderr


def test_the_model_inside_the_package(command, stories_gguf):
    done = command("inspect", "--json", env={**os.environ, "LAMINA_MODEL": str(stories_gguf)})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["architecture"] == "llama"


@pytest.mark.skipif(os.name == "nt", reason="signals are sent in another way there")
def test_ctrl_c_ends_it(stories_folder, heed_ctrl_c):
    line = [*COMMANDS["module"], "bench", str(stories_folder), "--repeat", "100000"]
    process = subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed_ctrl_c
    )
    time.sleep(1.5)
    assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode in (130, -signal.SIGINT), err
    assert "Traceback" not in err


@pytest.mark.skipif(os.name == "nt", reason="signals are sent in another way there")
def test_ctrl_c_while_it_starts_ends_it_with_130(heed_ctrl_c):
    """From the package's first lines on; before them it is Python's own start."""
    line = [sys.executable, "-X", "importtime", "-m", "lamina", "bench", "--repeat", "100000"]
    process = subprocess.Popen(
        line, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, preexec_fn=heed_ctrl_c
    )
    begun = False
    for text in process.stderr:
        # Python names a module once it is imported, so the line after this one is of what follows.
        if begun:
            break
        begun = "lamina.interrupt" in text
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=60)
    assert process.returncode == 130, rest[-500:]
    assert "Traceback" not in rest
