"""The official OpenAI clients, Python and JavaScript, against a real node."""

import json
import os
import pathlib
import subprocess
import time

import openai
import pytest

JS = pathlib.Path(__file__).parent / "js"
QUESTION = [{"role": "user", "content": "Name a colour."}]


@pytest.fixture
def client(node):
    return openai.OpenAI(base_url=f"{node.url}/v1", api_key="unused", max_retries=0, timeout=120)


def test_a_reply_at_once(client):
    reply = client.chat.completions.create(model="smollm2", messages=QUESTION, max_tokens=8, temperature=0, seed=1)
    assert reply.choices[0].message.content
    assert reply.choices[0].finish_reason in ("stop", "length")
    assert reply.usage.completion_tokens <= 8
    assert reply.model == "local/smollm2"


def test_a_stream_says_the_same(client):
    whole = client.chat.completions.create(model="smollm2", messages=QUESTION, max_tokens=12, temperature=0)
    pieces, finish, usage = [], None, None
    for chunk in client.chat.completions.create(
        model="smollm2", messages=QUESTION, max_tokens=12, temperature=0, stream=True, stream_options={"include_usage": True}
    ):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            pieces.append(choice.delta.content or "")
            finish = choice.finish_reason or finish
    assert "".join(pieces) == whole.choices[0].message.content
    assert finish == whole.choices[0].finish_reason
    assert usage.completion_tokens == whole.usage.completion_tokens


@pytest.mark.parametrize("limit", [1, 2, 17])
def test_the_limit_is_exact(client, limit):
    reply = client.chat.completions.create(
        model="smollm2", messages=[{"role": "user", "content": "Count to one hundred."}], max_tokens=limit, temperature=0
    )
    assert reply.usage.completion_tokens == limit
    assert reply.choices[0].finish_reason == "length"


def test_errors_are_typed(client):
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="nobody/nothing", messages=QUESTION)
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as field:
        client.chat.completions.create(model="smollm2", messages=QUESTION, temperature=9)
    assert field.value.param == "temperature"
    with pytest.raises(openai.BadRequestError) as long:
        client.chat.completions.create(model="smollm2", messages=[{"role": "user", "content": "word " * 20000}])
    assert long.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError) as long_stream:
        client.chat.completions.create(model="smollm2", messages=[{"role": "user", "content": "word " * 20000}], stream=True)
    assert long_stream.value.code == "context_length_exceeded"


def test_a_disconnect_frees_the_runner(client):
    endless = [{"role": "user", "content": "Count from 1 to 100000, one number a line."}]
    stream = client.chat.completions.create(model="smollm2", messages=endless, max_tokens=8000, temperature=0, stream=True)
    for _ in range(5):
        next(stream)
    stream.close()
    begin = time.monotonic()
    client.chat.completions.create(model="smollm2", messages=QUESTION, max_tokens=1)
    # One request runs at a time: an answer that had gone on would have kept this one waiting for a minute.
    assert time.monotonic() - begin < 5


def test_the_models_are_listed(client):
    assert [model.id for model in client.models.list()] == ["local/smollm2"]
    assert client.models.retrieve("local/smollm2").id == "local/smollm2"


def test_the_javascript_client(node):
    if not (JS / "node_modules").exists():
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], cwd=JS, check=True, timeout=120)
    result = subprocess.run(
        ["node", "openai.mjs"], cwd=JS, capture_output=True, text=True, timeout=180,
        env={**os.environ, "EXO_BASE_URL": f"{node.url}/v1", "EXO_MODEL": "smollm2"},
    )
    assert result.returncode == 0, result.stdout + result.stderr
    seen = json.loads(result.stdout)
    assert seen["whole"] and seen["whole"] == seen["streamed"]
    assert seen["errors"] == ["NotFoundError", "BadRequestError", "BadRequestError context_length_exceeded"]
    assert seen["afterDisconnectMs"] < 5000
