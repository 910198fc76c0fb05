"""What the tests of whole processes share: the program, the starter model, homes, nodes."""

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
STARTER = ROOT / "build/models/SmolLM2-135M-Instruct.Q4_1.gguf"
SECOND = ROOT / "build/models/gemma-3-270m-q4_k_m.gguf"
EXO = Path(os.environ.get("EXO_BINARY", ROOT / "build/release/exo"))
NEVER_ENDS = {"0": -100, "2": -100}  # logit_bias against SmolLM2's end-of-sequence ids


def run_exo(*arguments, home=None, timeout=60, environment=None, **options):
    """Runs exo to its end; `home` becomes EXO_HOME."""
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    if home is not None:
        env["EXO_HOME"] = str(home)
    env.update(environment or {})
    options.setdefault("stdin", None if "input" in options else subprocess.DEVNULL)
    if "input" in options:
        options.pop("stdin")
    return subprocess.run([EXO, *map(str, arguments)], env=env, capture_output=True, timeout=timeout, **options)


def sentence_of(result, status=1):
    """The one sentence on standard error of a command that failed as it should."""
    assert result.returncode == status, (result.returncode, result.stdout, result.stderr)
    lines = result.stderr.decode().splitlines()
    assert len(lines) == 1 and lines[0].startswith("exo: "), lines
    return lines[0]


def children_of(pid):
    """Process ids of the direct children of `pid`."""
    children = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        children += map(int, task.read_text().split())
    return children


def is_alive(pid):
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_until(condition, seconds=10, what="the condition"):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what} did not come within {seconds} s")


class Node:
    """An `exo serve` on a home and a free port of its own."""

    def __init__(self, home, *arguments, prefix=(), environment=None):
        self.home = Path(home)
        env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "EXO_HOME": str(home), **(environment or {})}
        self.log = open(self.home / "serve.log", "ab")
        self.process = subprocess.Popen(
            [*prefix, EXO, "serve", "--api-port", "0", *map(str, arguments)],
            env=env, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
        )
        self.url = wait_until(self._address, what="the node's address")

    def _address(self):
        assert self.process.poll() is None, (self.home / "serve.log").read_text()
        result = run_exo("status", "--address", home=self.home)
        return result.stdout.decode().strip() if result.returncode == 0 else None

    @property
    def pid(self):
        return self.process.pid

    def runners(self):
        return [child for child in children_of(self.pid) if is_alive(child)]

    def request(self, path, body=None, timeout=60):
        """(status, JSON) of one request."""
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                return response.status, json.loads(response.read() or "null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or "null")

    def chat(self, text="Say hello.", **fields):
        fields.setdefault("max_tokens", 16)
        body = {"model": "smollm2", "messages": [{"role": "user", "content": text}], "temperature": 0, **fields}
        return self.request("/v1/chat/completions", body)

    def stream(self, text="Tell me a long story.", **fields):
        """An open stream of a generation that does not end by itself; iterate over its lines."""
        fields.setdefault("max_tokens", 4000)
        body = {
            "model": "smollm2", "messages": [{"role": "user", "content": text}], "stream": True, "temperature": 0,
            "logit_bias": NEVER_ENDS, **fields,
        }
        request = urllib.request.Request(
            self.url + "/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
        )
        return urllib.request.urlopen(request, timeout=60)

    def stop(self, signal_number=signal.SIGTERM, seconds=10):
        """Ends the node and returns its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal_number)
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise
        self.log.close()
        return self.process.returncode


def texts(stream, count):
    """The first `count` pieces of text of a stream."""
    pieces = []
    for line in stream:
        if line.startswith(b"data: {"):
            event = json.loads(line[6:])
            for choice in event.get("choices", []):
                if content := choice.get("delta", {}).get("content"):
                    pieces.append(content)
        if len(pieces) >= count:
            break
    return pieces


@pytest.fixture(scope="session")
def exo():
    if not EXO.exists():
        pytest.fail(f"{EXO} is missing: run ./bootstrap build first")
    return EXO


@pytest.fixture(scope="session")
def starter():
    if not STARTER.exists():
        pytest.fail(f"{STARTER} is missing: ./bootstrap run or test fetches it")
    return STARTER


@pytest.fixture
def home(tmp_path, exo):
    path = tmp_path / "home ü 模型"  # a path that a sloppy program trips over
    path.mkdir()
    return path


@pytest.fixture
def home_with_model(home, starter):
    result = run_exo("import", starter, "--name", "smollm2", home=home)
    assert result.returncode == 0, result.stderr
    return home


@pytest.fixture
def node(home_with_model):
    node = Node(home_with_model)
    yield node
    node.stop()


@pytest.fixture
def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
