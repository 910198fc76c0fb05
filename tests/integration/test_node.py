"""A running node: start and stop, one per home, requests that go wrong, runners that die."""

import json
import os
import shutil
import signal
import socket
import time

import numpy as np
import pytest
from conftest import Node, cpu_seconds, is_alive, run_exo, sentence_of, texts, wait_until
from gguf import GGUFReader


def test_a_node_answers_and_leaves_nothing_behind(home_with_model):
    node = Node(home_with_model)
    try:
        assert node.request("/health")[0] == 200
        status, models = node.request("/v1/models")
        assert status == 200 and [model["id"] for model in models["data"]] == ["local/smollm2"]
        status, answer = node.chat("What is 2+2?")
        assert status == 200 and "4" in answer["choices"][0]["message"]["content"]
        runners = node.runners()
        assert runners
    finally:
        assert node.stop() == 0
    wait_until(lambda: not any(map(is_alive, runners)), what="the runners' end")
    assert not (home_with_model / "exo.pid").exists()
    assert run_exo("status", home=home_with_model).returncode == 1


def test_a_second_node_on_the_same_home_is_told_the_first_ones_process(node):
    result = run_exo("serve", "--api-port", 0, home=node.home)
    assert str(node.pid) in sentence_of(result)
    assert node.request("/health")[0] == 200


def test_a_port_in_use_is_one_sentence(home):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = run_exo("serve", "--api-port", port, home=home)
    assert str(port) in sentence_of(result)


@pytest.mark.parametrize("flags", [["--listen", "nowhere"], ["--api-port", "99999"], ["--cpu-isa", "mmx"], ["--idle-ttl", "soon"]])
def test_a_bad_setting_is_one_sentence(flags, home):
    sentence_of(run_exo("serve", *flags, home=home))


def test_a_low_limit_of_open_files_does_not_keep_a_node_from_starting(home_with_model):
    node = Node(home_with_model, prefix=["sh", "-c", 'ulimit -Sn 256 && ulimit -Hn 256 && exec "$0" "$@"'])
    try:
        assert node.chat()[0] == 200
    finally:
        assert node.stop() == 0


def test_what_is_wrong_with_a_request_has_its_status(node):
    assert node.chat(model="nobody")[0] == 404
    assert node.chat("word " * 20000)[0] == 400
    assert node.request("/v1/chat/completions", b"{")[0] == 400
    assert node.request("/v1/chat/completions", b"[" * 100_000)[0] == 400
    assert node.request("/v1/chat/completions", b'{"model": "smollm2", "messages": [{"role": "user", "content": "\xff"}]}')[0] == 400
    assert node.chat()[0] == 200


def spoiled(starter, target, tensor, spoil):
    """A copy of the starter model; spoil(the tensor's numbers, or its blocks as bytes) changes one tensor of it."""
    shutil.copy(starter, target)
    reader = GGUFReader(target, "r+")
    spoil(next(one.data for one in reader.tensors if one.name == tensor))
    return target


@pytest.mark.parametrize(("tensor", "numbers", "blamed"), [
    ("blk.5.ffn_down.weight", [0x00, 0x7E], "model.layers.5.mlp.down_proj"),  # its first scale is NaN
    ("blk.7.ffn_norm.weight", np.inf, "model.layers.7.post_attention_layernorm.weight"),
    ("blk.3.attn_norm.weight", 3e38, "model.layers.3.self_attn.o_proj"),  # whose product overflows
    ("output_norm.weight", 3e38, "model.embed_tokens"),  # the logits
])
def test_a_model_that_computes_no_numbers_names_the_tensor(home, starter, tmp_path, tensor, numbers, blamed):
    def spoil(data):
        data.reshape(-1)[: np.size(numbers) if np.ndim(numbers) else None] = numbers

    file = spoiled(starter, tmp_path / "spoiled.gguf", tensor, spoil)
    assert run_exo("import", file, "--name", "smollm2", home=home).returncode == 0
    node = Node(home)
    try:
        for _ in range(2):
            status, answer = node.chat()
            assert status >= 500 and blamed in answer["error"]["message"], answer
        assert node.request("/v1/models")[0] == 200
    finally:
        node.stop()


def test_a_killed_runner_ends_its_stream_with_an_error_and_is_replaced(node):
    stream = node.stream()
    assert texts(stream, 3)
    [runner] = node.runners()
    os.kill(runner, signal.SIGKILL)
    rest = stream.read().decode()
    events = [json.loads(line[6:]) for line in rest.splitlines() if line.startswith("data: {")]
    assert any("error" in event for event in events), rest[-500:]
    status, answer = wait_until(lambda: (result := node.chat())[0] == 200 and result, 30, "an answer after the restart")
    assert status == 200 and answer["choices"][0]["message"]["content"]
    assert node.runners() != [runner]


def test_a_closed_connection_stops_the_generation(node):
    stream = node.stream()
    assert texts(stream, 3)
    [runner] = node.runners()
    stream.close()
    time.sleep(0.5)
    before = cpu_seconds(runner)
    time.sleep(1)
    assert cpu_seconds(runner) - before < 0.2, "the runner still computes"
    started = time.monotonic()
    assert node.chat(max_tokens=1)[0] == 200
    assert time.monotonic() - started < 5


def test_sigterm_ends_an_open_stream_and_the_node(home_with_model):
    node = Node(home_with_model)
    stream = node.stream()
    assert texts(stream, 3)
    runners = node.runners()
    started = time.monotonic()
    node.process.send_signal(signal.SIGTERM)
    try:
        rest = stream.read().decode()
    except OSError:
        rest = ""
    assert node.process.wait(6) == 0
    assert time.monotonic() - started < 6
    assert "error" in rest or "[DONE]" in rest
    wait_until(lambda: not any(map(is_alive, runners)), what="the runners' end")


def test_an_idle_node_uses_no_processor(node):
    assert node.chat()[0] == 200
    processes = [node.pid, *node.runners()]
    time.sleep(1)  # the pool's threads park
    before = sum(map(cpu_seconds, processes))
    time.sleep(2)
    assert sum(map(cpu_seconds, processes)) - before <= 0.05


def test_a_model_that_is_imported_while_the_node_runs_is_served(home, starter):
    node = Node(home)
    try:
        assert node.chat()[0] == 404
        assert run_exo("import", starter, "--name", "smollm2", home=home).returncode == 0
        assert node.chat()[0] == 200
    finally:
        node.stop()


def test_without_auto_placement_a_model_that_is_not_loaded_is_not_found(home_with_model):
    node = Node(home_with_model, "--no-auto-place")
    try:
        assert node.chat()[0] == 404
    finally:
        node.stop()


def test_an_idle_model_leaves_and_comes_back(home_with_model):
    node = Node(home_with_model, "--idle-ttl", "1s")
    try:
        assert node.chat()[0] == 200
        wait_until(lambda: not node.runners(), 10, "the runner's leave")
        assert node.chat()[0] == 200
    finally:
        node.stop()
