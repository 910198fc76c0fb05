"""What only a raw socket can do to a node."""

import json
import socket
import threading
import time
import urllib.parse

from conftest import NEVER_ENDS, cpu_seconds

CHAT = {"model": "smollm2", "messages": [{"role": "user", "content": "Tell me a story."}], "temperature": 0}


def connect(node):
    where = urllib.parse.urlparse(node.url)
    return socket.create_connection((where.hostname, where.port), timeout=20)


def post(body, version="1.1"):
    data = json.dumps(body).encode()
    return f"POST /v1/chat/completions HTTP/{version}\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


def status_of(connection):
    return int(connection.recv(4096).split(b" ", 2)[1])


def test_a_client_that_goes_is_noticed_behind_bytes_that_nobody_read(node):
    assert node.chat(max_tokens=1)[0] == 200
    (runner,) = node.runners()
    with connect(node) as connection:
        connection.sendall(post({**CHAT, "max_tokens": 4000, "logit_bias": NEVER_ENDS}))
        time.sleep(0.5)
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(0.3)
    time.sleep(1)
    before = cpu_seconds(runner)
    time.sleep(1)
    assert cpu_seconds(runner) - before < 0.2, "the runner still computes"


def test_requests_in_one_packet_are_answered_in_turn(node):
    with connect(node) as connection:
        connection.sendall(post({**CHAT, "max_tokens": 2}) + b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        received = b""
        while piece := connection.recv(65536):
            received += piece
    assert received.count(b"HTTP/1.1 200 OK") == 2 and received.endswith(b'{"status":"ok"}')


def test_a_body_beyond_the_limit_is_413(node):
    with connect(node) as connection:
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 104857601\r\n\r\n")
        assert status_of(connection) == 413


def test_headers_beyond_the_limit_and_nonsense_are_refused(node):
    for bytes_sent, status in ((b"GET / HTTP/1.1\r\nX: " + b"x" * 70000 + b"\r\n\r\n", 431), (b"\x16\x03\x01nonsense\r\n\r\n", 400)):
        with connect(node) as connection:
            connection.sendall(bytes_sent)
            assert status_of(connection) == status


def test_http_1_0_and_expect_are_served(node):
    with connect(node) as connection:
        connection.sendall(post({**CHAT, "max_tokens": 2, "stream": True}, version="1.0"))
        received = b""
        while piece := connection.recv(65536):
            received += piece
    assert received.startswith(b"HTTP/1.0 200") and b"chunked" not in received and received.endswith(b"data: [DONE]\n\n")
    with connect(node) as connection:
        head, body = post({**CHAT, "max_tokens": 2}).split(b"\r\n\r\n", 1)
        connection.sendall(head + b"\r\nExpect: 100-continue\r\n\r\n")
        assert status_of(connection) == 100
        connection.sendall(body)
        assert status_of(connection) == 200


def test_a_completion_is_cancelled_by_its_id_and_ends_cleanly(node):
    stream = node.stream()
    identity = None
    for line in stream:
        if line.startswith(b"data: {"):
            identity = json.loads(line[6:])["id"]
            break
    assert node.request(f"/v1/cancel/{identity}", {})[0] == 200
    rest = stream.read()
    assert b'"finish_reason":"stop"' in rest and rest.endswith(b"data: [DONE]\n\n")
    assert node.request(f"/v1/cancel/{identity}", {})[0] == 404


def test_clients_that_go_at_any_time_harm_nobody(node):
    assert node.chat(max_tokens=1)[0] == 200

    def visit(index):
        with connect(node) as connection:
            request = post({**CHAT, "max_tokens": 50, "stream": index % 2 == 0})
            connection.sendall(request[: 1 + index * 37 % len(request)] if index % 3 == 0 else request)
            time.sleep(index % 7 * 0.02)

    visitors = [threading.Thread(target=visit, args=(index,)) for index in range(60)]
    for visitor in visitors:
        visitor.start()
    for visitor in visitors:
        visitor.join()
    assert node.chat(max_tokens=4)[0] == 200
    assert node.request("/health")[0] == 200
