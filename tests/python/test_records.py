"""Records of benches: every line says where it comes from, and two records are compared row by row."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHES = Path(__file__).resolve().parents[2] / "benches"
sys.path.insert(0, str(BENCHES))
import compare  # noqa: E402
import record  # noqa: E402


def peers(speed, cpu="a CPU", **more):
    """A row as peers.py writes it."""
    values = {"median": speed, "range": [0.9 * speed, 1.1 * speed]}
    same = {"model": "m.gguf", "threads": 2, "isa": "avx2", "kv": "f16", "depth": 0, "batch": 1, "busy": 0}
    return {"cpu": cpu, **same, "prefill": {"lamina": values}, "decode": {"lamina": values}, **more}


def bench(*tok_s):
    """A row as `lamina bench --json` writes it."""
    speeds = [{"n": n, "depth": 0, "batch": 1, "tok_s": list(tok_s)} for n in (32, 64)]
    return {"cpu": "a CPU", "model": "m.gguf", "threads": 2, "prefill": [], "decode": speeds}


def test_ratios_have_medians_and_spreads():
    (prefill, decode) = compare.compare([peers(10.0)], [peers(20.0)])
    assert prefill[0][0] == "prefill" and decode[0][0] == "decode"
    assert decode[3] == pytest.approx((2.0, 18 / 11, 22 / 9))
    rows = compare.compare([bench(1.0, 2.0, 4.0)], [bench(3.0)])
    assert [r[3] for r in rows] == [pytest.approx((1.5, 0.75, 3.0))] * 2


def test_the_last_of_equal_rows_counts_and_others_are_left_out():
    before = [peers(5.0), peers(10.0), peers(1.0, depth=4096)]
    assert [r[3][0] for r in compare.compare(before, [peers(20.0)])] == [2.0, 2.0]
    with pytest.raises(compare.Refused, match="no row measures the same"):
        compare.compare([peers(1.0, isa="avx512")], [peers(1.0)])


def test_different_cpus_are_refused_unless_told():
    other = peers(1.0, cpu="another CPU")
    with pytest.raises(compare.Refused, match="a CPU and another CPU.*--any-cpu"):
        compare.compare([peers(1.0)], [other])
    assert len(compare.compare([peers(1.0)], [other], any_cpu=True)) == 2
    # Lines before the field had its name.
    old = {**peers(1.0), "machine": "a CPU"}
    del old["cpu"]
    assert len(compare.compare([old], [peers(1.0)])) == 2


def run(*args):
    return subprocess.run([sys.executable, BENCHES / "compare.py", *args], capture_output=True, text=True)


def test_command(tmp_path):
    files = []
    for i, (commit, speed) in enumerate((("aaaa1111", 10.0), ("bbbb2222", 9.0))):
        files.append(tmp_path / f"{i}.jsonl")
        record.append(files[-1], {**peers(speed), "commit": commit})
    out = run(*files, "--json")
    assert out.returncode == 0 and [r["ratio"]["median"] for r in json.loads(out.stdout)] == [0.9, 0.9]
    assert "median of 1 rows x 0.900" in run(*files).stdout
    assert run(*files, "--at-least", "0.98").returncode == 1 and run(*files, "--at-least", "0.5").returncode == 0
    files[0].write_text(files[0].read_text() + files[1].read_text())
    both = run(f"{files[0]}@aaaa", f"{files[0]}@bbbb2222", "--json")
    assert json.loads(both.stdout)[0]["ratio"]["median"] == 0.9
    missing = run("nothing", files[0])
    assert missing.returncode == 1 and "no record and no commit" in missing.stderr


def test_lines_say_where_they_come_from(tmp_path):
    path = tmp_path / "r.jsonl"
    record.append(path, {"model": "m", "commit": None, "peak": None}, peer="peer 1.0")
    record.append(path, {"model": "m", "cpu": "of the bench"})
    first, second = (json.loads(line) for line in path.read_text().splitlines())
    assert first["date"].endswith("+00:00") and first["cpu"] and first["peer"] == "peer 1.0"
    assert first["peak"] is None and second["cpu"] == "of the bench"
    if (BENCHES.parent / ".git").exists():
        assert len(first["commit"].rstrip("+")) == 12


@pytest.mark.parametrize("path", sorted(BENCHES.glob("record/*.jsonl")), ids=lambda path: path.stem)
def test_records_of_the_repository(path):
    rows = compare.rows(str(path))
    assert {r[3][0] for r in compare.compare(rows, rows)} == {1.0}
    dated = [row for row in rows if "date" in row]
    assert all(row["commit"] and row["cpu"] for row in dated)
    # Lines before dates stay as they were; none may follow those that have them.
    assert rows[len(rows) - len(dated) :] == dated
