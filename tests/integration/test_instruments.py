"""exo show, tokenize, template, logits and perplexity, on both real models, a directory and bare vocabularies."""

import json
import math
import struct
import zlib

import numpy as np
import pytest
from conftest import ROOT, SECOND, STARTER, run_exo, sentence_of
from tokenizers import Tokenizer

CORPUS = ROOT / "tests/golden/tokens"
TINY = ROOT / "tests/golden/logits/affine4_group64"
MODELS = {"starter": STARTER, "second": SECOND}
STRING, LIST, SIZES = 8, 9, {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


def end_of_value(data, kind, at):
    """Where the GGUF value of a kind that begins at `at` ends."""
    if kind == STRING:
        return at + 8 + struct.unpack_from("<Q", data, at)[0]
    if kind != LIST:
        return at + SIZES[kind]
    element, count = struct.unpack_from("<IQ", data, at)
    at += 12
    if element != STRING:
        return at + count * SIZES[element]
    for _ in range(count):
        at = end_of_value(data, STRING, at)
    return at


def vocabulary_only(source, target):
    """A GGUF file with the key-value pairs of another one and no tensors."""
    data = source.read_bytes()
    pairs, at = struct.unpack_from("<Q", data, 16)[0], 24
    for _ in range(pairs):
        at = end_of_value(data, STRING, at)
        at = end_of_value(data, struct.unpack_from("<I", data, at)[0], at + 4)
    target.write_bytes(data[:8] + struct.pack("<Q", 0) + data[16:at])
    return target


@pytest.fixture(scope="session", params=MODELS)
def model(request):
    if not MODELS[request.param].exists():
        pytest.fail(f"{MODELS[request.param]} is missing: ./bootstrap test fetches it")
    return request.param


@pytest.fixture(scope="session")
def vocabulary(model, tmp_path_factory):
    return vocabulary_only(MODELS[model], tmp_path_factory.mktemp("vocabulary") / f"{model}.gguf")


def output_of(*arguments, home, **options):
    result = run_exo(*arguments, home=home, **options)
    assert result.returncode == 0, result.stderr
    return result.stdout


def golden(name):
    """The values of a file of JSON lines; splitlines() would cut at U+2028, too."""
    return [json.loads(line) for line in (CORPUS / name).read_text().split("\n") if line]


def test_lines_of_standard_input_get_the_peers_ids(model, vocabulary, home):
    want = golden(f"{model}.jsonl")
    lines = [(i, text) for i, text in enumerate(golden("corpus.jsonl")) if "\n" not in text]
    assert len(lines) > 1000
    given = "".join(text + "\n" for _, text in lines).encode()
    for file in (MODELS[model], vocabulary):
        got = json.loads(output_of("tokenize", file, "--json", "-", home=home, input=given))
        assert got == [want[i] for i, _ in lines]


def test_the_exported_tokenizer_gives_the_peers_ids_elsewhere(model, vocabulary, home, tmp_path):
    document = tmp_path / "tokenizer.json"
    assert output_of("tokenize", vocabulary, "--export", document, home=home) == b""
    tokenizer = Tokenizer.from_file(str(document))
    texts, want = golden("corpus.jsonl"), golden(f"{model}.jsonl")
    assert len(texts) == len(want) >= 2000
    encoded = tokenizer.encode_batch(texts, add_special_tokens=False)
    assert [one.ids for one in encoded] == want
    # The file by itself is a tokenizer for exo, too.
    [again] = json.loads(output_of("tokenize", document, "--json", texts[0], home=home))
    assert again == want[0]


def test_a_text_is_one_input(starter, home):
    text = "two\nlines"
    [ids] = json.loads(output_of("tokenize", starter, "--json", text, home=home))
    assert len(ids) >= 3
    table = output_of("tokenize", starter, text, home=home).decode().splitlines()
    assert [int(line.split()[0]) for line in table] == ids
    assert '"\\n"' in "".join(table)
    assert json.loads(output_of("tokenize", starter, "--json", home=home, input=b"")) == []


def test_template_gives_the_prompt(starter, tmp_path, home):
    want = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    file = tmp_path / "messages.json"
    file.write_text(json.dumps(messages))
    vocabulary = vocabulary_only(starter, tmp_path / "vocabulary.gguf")
    assert output_of("template", starter, file, home=home).decode() == want
    assert output_of("template", vocabulary, file, home=home).decode() == want
    as_object = json.dumps({"messages": messages, "add_generation_prompt": False}).encode()
    shorter = output_of("template", starter, "-", home=home, input=as_object).decode()
    assert want == shorter + "<|im_start|>assistant\n"


def test_logits_and_perplexity_agree(model, home, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("The quick brown fox jumps over the lazy dog, and nobody minds.")
    file = MODELS[model]
    [ids] = json.loads(output_of("tokenize", file, "--json", text.read_text(), home=home))
    measured = json.loads(output_of("perplexity", file, text, "--json", "--cpu-precision", "exact", home=home))
    assert measured["bos"] == (model == "second") and measured["tokens"] == len(ids)
    if measured["bos"]:
        ids.insert(0, 2)
    out = tmp_path / "logits.npy"
    output_of("logits", file, "--ids", ",".join(map(str, ids)), "--out", out, "--cpu-precision", "exact", home=home)
    logits = np.load(out)
    assert logits.dtype == np.float32 and logits.shape[0] == len(ids) and [p.name for p in tmp_path.glob("*.part")] == []
    wide = logits[:-1].astype(np.float64)
    losses = np.log(np.exp(wide - wide.max(1, keepdims=True)).sum(1)) + wide.max(1)
    losses -= wide[np.arange(len(ids) - 1), ids[1:]]
    assert measured["scored"] == len(losses)
    assert math.isclose(measured["negative_log_likelihood"], losses.mean(), rel_tol=1e-5)
    assert math.isclose(measured["perplexity"], math.exp(losses.mean()), rel_tol=1e-4)
    (tmp_path / "ids").write_text("\n".join(map(str, ids)))
    again = tmp_path / "again.npy"
    output_of("logits", file, "--ids", f"@{tmp_path / 'ids'}", "--out", again, "--cpu-precision", "exact", home=home)
    assert again.read_bytes() == out.read_bytes()


def test_perplexity_is_the_reference_models(model, home):
    want = json.loads((ROOT / "tests/golden/perplexity.json").read_text())[model]
    text = ROOT / "tests/golden/long_text.txt"
    [ids] = json.loads(output_of("tokenize", MODELS[model], "--json", text.read_text(), home=home))
    assert (len(ids), zlib.crc32(np.array(ids, dtype="<u4").tobytes())) == (want["tokens"], want["crc32"])
    measured = {
        precision: json.loads(output_of("perplexity", MODELS[model], text, "--json", "--cpu-precision", precision,
                                        home=home, timeout=300))
        for precision in ("exact", "fast")
    }
    exact, fast = measured["exact"], measured["fast"]
    assert exact["tokens"] == want["tokens"] and exact["scored"] == fast["scored"] == want["scored"]
    assert abs(exact["perplexity"] / math.exp(want["negative_log_likelihood"]) - 1) < 0.001
    assert abs(fast["perplexity"] / exact["perplexity"] - 1) < 0.003


def test_show_tells_what_a_model_is(model, vocabulary, home):
    shown = json.loads(output_of("show", MODELS[model], "--json", home=home))
    assert shown["config"]["model_type"] == {"starter": "llama", "second": "gemma3_text"}[model]
    assert sum(matrix["bytes"] for matrix in shown["matrices"]) <= shown["weight_bytes"]
    assert shown["memory"]["weight_bytes"] > 50e6 and shown["tokenizer"]["load_s"] > 0
    text = output_of("show", MODELS[model], home=home).decode()
    for part in ("architecture", "parameters", "Q8_0", "bytes per weight", "context", "memory", "tokenizer", "template"):
        assert part in text, part
    assert "blk.0.attn_q.weight" in output_of("show", MODELS[model], "--tensors", home=home).decode()
    bare = json.loads(output_of("show", vocabulary, "--json", home=home))
    assert bare["tokenizer"]["tokens"] == shown["tokenizer"]["tokens"] and "tensors" not in bare
    assert "vocabulary" in output_of("show", vocabulary, home=home).decode()


def test_a_directory_without_a_tokenizer_can_be_shown_and_computed(home, tmp_path):
    text = output_of("show", TINY, home=home).decode()
    assert "affine 4 bit, group 64" in text and "no tokenizer" in text
    output_of("logits", TINY, "--ids", "1,2", "--out", tmp_path / "x.npy", home=home)
    assert np.load(tmp_path / "x.npy").shape == (2, 100)


def test_a_model_of_the_store_is_found_by_its_name(home_with_model):
    assert json.loads(output_of("tokenize", "smollm2", "--json", "a", home=home_with_model)) == [[81]]
    assert "llama" in output_of("show", "smollm2", home=home_with_model).decode()


def test_what_the_instruments_refuse_is_one_sentence(starter, home, tmp_path):
    out = tmp_path / "x.npy"
    bare = vocabulary_only(starter, tmp_path / "vocabulary.gguf")
    text = tmp_path / "text.txt"
    text.write_text("one two three")
    refused = lambda *arguments, **options: sentence_of(run_exo(*arguments, home=home, **options))
    assert "UTF-8" in refused("tokenize", starter, "-", input=b"fine\n\xff\n")
    assert "line 2" in refused("tokenize", starter, "--json", "-", input=b"fine\n\xff\n")
    assert "nobody" in refused("tokenize", "nobody", "x")
    assert "messages" in refused("template", starter, "-", input=b"{}")
    assert "JSON" in refused("template", starter, "-", input=b"{")
    assert "role" in refused("template", starter, "-", input=b'[{"content": "x"}]')
    assert "template" in refused("template", SECOND, "-", input=b"[]")
    assert "--ids" in refused("logits", starter, "--ids", "1,x", "--out", out)
    assert "vocabulary" in refused("logits", starter, "--ids", "49152", "--out", out)
    refused("logits", bare, "--ids", "1", "--out", out)
    assert "x.npy" in refused("logits", TINY, "--ids", "1", "--out", tmp_path / "no" / "x.npy")
    assert not list(tmp_path.glob("*.npy*"))
    assert "text.txt" in refused("perplexity", starter, tmp_path / "no" / "text.txt")
    text.write_bytes(b"\xff")
    assert "UTF-8" in refused("perplexity", starter, text)
    text.write_text("")
    assert "short" in refused("perplexity", starter, text)
    (tmp_path / "broken.gguf").write_bytes(b"GGUF")
    assert "broken.gguf" in refused("show", tmp_path / "broken.gguf")
    sentence_of(run_exo("logits", starter, "--out", out, home=home), status=2)
