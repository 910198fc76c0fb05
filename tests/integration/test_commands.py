"""Commands without a node: the store, doctor, bench, completions, and what bad input gets."""

import json
import os
import shutil
import socket
import struct
import subprocess

import pytest
from conftest import EXO, run_exo, sentence_of

COMMANDS = ["serve", "run", "import", "list", "rm", "status", "show", "tokenize", "template", "logits", "perplexity",
            "bench", "doctor", "completion"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_teaches_with_examples(command, home):
    result = run_exo(command, "--help", home=home)
    assert result.returncode == 0
    assert b"Examples:" in result.stdout and b"exo " + command.encode() in result.stdout


def test_help_and_version_need_neither_home_nor_lock():
    assert run_exo("--help", environment={"HOME": ""}).returncode == 0
    assert run_exo("--version").stdout.startswith(b"exo ")


def test_a_wrong_command_line_exits_with_2(home):
    assert "'exo list --help'" in sentence_of(run_exo("list", "--nonsense", home=home), status=2)
    sentence_of(run_exo("dance", home=home), status=2)


def test_without_any_home_exo_says_what_to_set(exo):
    result = subprocess.run([EXO, "list"], env={"PATH": os.environ["PATH"]}, capture_output=True, timeout=20)
    assert "EXO_HOME" in sentence_of(result)


def test_a_home_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    for command in (["serve", "--api-port", "0"], ["run", "x.gguf", "hi"]):
        sentence_of(run_exo(*command, home=tmp_path / "file" / "home"))


def test_a_bad_configuration_file_is_one_sentence(home):
    (home / "config.toml").write_text("api-port = 'many'\n")
    assert "api-port in config.toml" in sentence_of(run_exo("list", home=home))
    (home / "config.toml").write_text("api-port = [")
    assert "line 1" in sentence_of(run_exo("list", home=home))


def test_a_model_comes_is_listed_and_goes(home, starter):
    imported = run_exo("import", starter, "--name", "smollm2", home=home)
    assert imported.returncode == 0 and b"local/smollm2" in imported.stdout
    assert run_exo("import", starter, "--name", "smollm2", home=home).returncode == 0, "again is no error"
    listed = json.loads(run_exo("list", "--json", home=home).stdout)
    assert [model["id"] for model in listed] == ["local/smollm2"]
    assert listed[0]["bytes"] >= starter.stat().st_size
    assert run_exo("rm", "smollm2", home=home).returncode == 0
    assert json.loads(run_exo("list", "--json", home=home).stdout) == []
    assert "smollm2" in sentence_of(run_exo("rm", "smollm2", home=home))
    assert starter.exists(), "the original stays"


@pytest.mark.parametrize("name", ["../evil", "a/b/c", "", "-x", "a b", "." * 200])
def test_a_bad_name_is_refused(name, home, starter):
    result = run_exo("import", starter, f"--name={name}" if name else "--name=/", home=home)
    sentence_of(result)
    assert json.loads(run_exo("list", "--json", home=home).stdout) == []


def damaged_files(folder, starter):
    """Files and directories that are no models, by what is wrong with them."""
    content = starter.read_bytes()[:200_000]

    def file(name, data):
        path = folder / name
        path.write_bytes(data)
        return path

    def directory(name, header=None, config='{"model_type": "llama", "architectures": ["LlamaForCausalLM"]}', body=b""):
        path = folder / name
        path.mkdir()
        (path / "config.json").write_text(config)
        if header is not None:
            (path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + body)
        return path

    tensor = b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [%d, %d]}}'
    yield file("empty.gguf", b"")
    yield file("noise.gguf", os.urandom(4096))
    yield file("truncated.gguf", content)
    yield file("counts.gguf", content[:8] + struct.pack("<QQ", 2**60, 2**60) + content[24:])
    yield file("string.gguf", content[:24] + struct.pack("<Q", 2**62) + content[32:])
    yield file("version.gguf", content[:4] + struct.pack("<I", 77) + content[8:])
    yield file("text.txt", b"not a model")
    empty = folder / "empty"
    empty.mkdir()
    yield empty
    yield directory("no-weights")
    yield directory("not-json", b"{nonsense")
    yield directory("beyond-the-end", tensor % (0, 400))
    yield directory("overlapping", b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},'
                    b' "b": {"dtype": "F32", "shape": [1], "data_offsets": [2, 6]}}', body=bytes(6))
    yield directory("bad-config", tensor % (0, 4), config="[1, 2", body=bytes(4))
    yield directory("unknown-family", tensor % (0, 4), config='{"model_type": "abacus"}', body=bytes(4))
    huge = directory("huge-header")
    (huge / "model.safetensors").write_bytes(struct.pack("<Q", 2**62) + b"{}")
    yield huge
    short = directory("short-header")
    (short / "model.safetensors").write_bytes(b"abc")
    yield short


def test_what_is_no_model_is_refused_in_one_sentence(home, starter, tmp_path):
    folder = tmp_path / "damaged"
    folder.mkdir()
    for path in [*damaged_files(folder, starter), tmp_path / "missing.gguf"]:
        for command in (["import", path], ["run", path, "hi"]):
            result = run_exo(*command, home=home, timeout=20)
            try:
                sentence_of(result)
            except AssertionError as error:
                raise AssertionError(f"{command[0]} {path.name}") from error
        assert json.loads(run_exo("list", "--json", home=home).stdout) == [], path.name


def test_a_full_disk_leaves_no_model(home, starter):
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("mounting a small disk needs root")
    script = ('mount -t tmpfs -o size=20m none "$EXO_HOME" || exit 99\n'
              f'"{EXO}" import "{starter}"; status=$?\n'
              f'"{EXO}" list --json; exit $status')
    result = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, timeout=60,
                            env={"PATH": os.environ["PATH"], "EXO_HOME": str(home)})
    if result.returncode == 99:
        pytest.skip("this container may not mount")
    assert "space" in sentence_of(result)
    assert json.loads(result.stdout) == []


def test_doctor_reports_each_topic(home, free_port):
    result = run_exo("doctor", "--json", "--api-port", free_port, home=home)
    findings = {finding["topic"]: finding for finding in json.loads(result.stdout)}
    assert {"processor", "instructions", "memory", "bandwidth", "open files", "node", "libraries", "models"} <= set(findings)
    assert result.returncode == 0
    assert findings["models"]["advice"]


def test_doctor_says_that_the_port_is_taken(home):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = run_exo("doctor", "--api-port", port, home=home)
    assert result.returncode == 1
    assert f"port {port}".encode() in result.stdout and b"WRONG" in result.stdout


def test_bench_prints_the_documented_keys(home, starter):
    result = run_exo("bench", starter, "--threads", "1,2", "--prompt", 16, "--generate", 8, "--repeats", 1, "--json",
                     home=home, timeout=120)
    assert result.returncode == 0, result.stderr
    measured = json.loads(result.stdout)
    assert [entry["threads"] for entry in measured] == [1, 2]
    for entry in measured:
        for key in ("prefill_tokens_per_s", "decode_tokens_per_s", "load_s", "first_token_s", "peak_anonymous_bytes",
                    "bytes_per_token", "bandwidth_bytes_per_s", "bandwidth_share"):
            assert entry[key] > 0, key


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_parse_in_their_shell(shell, home):
    script = run_exo("completion", shell, home=home).stdout
    assert b"import" in script and b"runner" not in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, check=True, timeout=20)
