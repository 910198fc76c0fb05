"""`exo run`: one answer, pipes, a chat in a terminal, Ctrl-C."""

import json
import os
import pty
import select
import signal
import subprocess
import time

import pytest
from conftest import EXO, children_of, is_alive, run_exo, sentence_of, wait_until

LONG = "Write a very long story about a lighthouse, with many chapters."


class Terminal:
    """exo run on a pseudo-terminal."""

    def __init__(self, home, *arguments):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(EXO, ["exo", "run", *map(str, arguments)],
                      {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "EXO_HOME": str(home)})
        self.output = ""
        self.seen = 0  # how much of it read_until has gone past

    def read_until(self, text, seconds=30):
        """What came since the last call, up to the end of `text`."""
        deadline = time.monotonic() + seconds
        while (at := self.output.find(text, self.seen)) < 0:
            left = deadline - time.monotonic()
            assert left > 0, f"{text!r} did not come: {self.output!r}"
            if select.select([self.fd], [], [], left)[0]:
                try:
                    self.output += os.read(self.fd, 65536).decode(errors="replace")
                except OSError:
                    raise AssertionError(f"exo ended before {text!r}: {self.output!r}") from None
        begin, self.seen = self.seen, at + len(text)
        return self.output[begin:self.seen]

    def type(self, text):
        os.write(self.fd, text.encode())

    def wait(self, seconds=10):
        def ended():
            if select.select([self.fd], [], [], 0)[0]:
                try:
                    self.output += os.read(self.fd, 65536).decode(errors="replace")
                except OSError:
                    pass
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            return [os.waitstatus_to_exitcode(status)] if pid else None
        [code] = wait_until(ended, seconds, "the end of exo run")
        self.pid = None
        return code

    def close(self):
        if self.pid is not None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


@pytest.fixture
def terminal(home_with_model):
    terminals = []

    def start(*arguments):
        terminals.append(Terminal(home_with_model, *arguments))
        return terminals[-1]

    yield start
    for terminal in terminals:
        terminal.close()


def ask(home, *arguments, **options):
    return run_exo("run", "smollm2", "--temperature", 0, "--max-tokens", 24, *arguments, home=home, **options)


def test_an_answer_is_the_same_with_a_pipe_an_argument_and_a_running_node(node):
    question = "What is 2+2?"
    with_node = ask(node.home, question)
    assert with_node.returncode == 0, with_node.stderr
    assert b"4" in with_node.stdout and with_node.stderr == b""
    assert ask(node.home, input=question.encode()).stdout == with_node.stdout
    assert node.runners(), "the running node answered"
    node.stop()
    assert ask(node.home, question).stdout == with_node.stdout


def test_its_own_node_ends_with_it(home_with_model):
    assert ask(home_with_model, "Hello").returncode == 0
    assert not (home_with_model / "exo.pid").exists()
    assert run_exo("status", home=home_with_model).returncode == 1


def test_a_file_is_registered_where_it_is(home, starter):
    result = run_exo("run", starter, "--max-tokens", 4, "Hello", home=home)
    assert result.returncode == 0, result.stderr
    [model] = json.loads(run_exo("list", "--json", home=home).stdout)
    assert model["id"] == "local/" + starter.stem


def test_what_cannot_be_answered_is_one_sentence(home_with_model):
    assert "nobody" in sentence_of(run_exo("run", "nobody", "Hello", home=home_with_model))
    assert "UTF-8" in sentence_of(ask(home_with_model, input=b"\xff\xfe"))
    assert "prompt" in sentence_of(ask(home_with_model, input=b" \n"), status=2)
    sentence_of(ask(home_with_model, input=b"word " * 20000))


def test_ctrl_c_ends_a_single_answer(home_with_model):
    process = subprocess.Popen([EXO, "run", "smollm2", LONG], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               env={"PATH": os.environ["PATH"], "EXO_HOME": str(home_with_model)})
    try:
        assert process.stdout.read(10)
        runners = children_of(process.pid)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
        wait_until(lambda: not any(map(is_alive, runners)), what="the runners' end")
    finally:
        process.kill()
        process.wait()


def test_a_chat_keeps_its_history_and_obeys_commands(terminal):
    chat = terminal("smollm2", "--temperature", 0, "--max-tokens", 30)
    chat.read_until(">>> ")
    chat.type("My name is Ada.\n")
    chat.read_until(">>> ")
    chat.type("What is my name?\n")
    chat.read_until(">>> ")
    chat.type("/help\n")
    chat.read_until("/clear")
    chat.read_until(">>> ")
    chat.type("/cleer\n")
    chat.read_until("no command /cleer")
    chat.read_until(">>> ")
    chat.type("/clear\n")
    chat.read_until("forgotten")
    chat.read_until(">>> ")
    chat.type("/exit\n")
    assert chat.wait() == 0


def test_ctrl_c_stops_the_answer_and_not_the_program(terminal):
    chat = terminal("smollm2", "--temperature", 0)
    chat.read_until(">>> ")
    chat.type(LONG + "\n")
    chat.read_until("\n")
    chat.read_until("e")  # some text
    chat.type("\x03")
    chat.read_until("[stopped]")
    chat.read_until(">>> ")
    chat.type("\x03")
    chat.read_until("Ctrl-D ends")
    chat.read_until(">>> ")
    chat.type("\x04")
    assert chat.wait() == 0


def test_sigterm_ends_a_chat(terminal):
    chat = terminal("smollm2")
    chat.read_until(">>> ")
    os.kill(chat.pid, signal.SIGTERM)
    assert chat.wait() == 0
