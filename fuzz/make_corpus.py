"""Writes the seeds of the fuzzers, fuzz/corpus/NAME/*: small valid inputs, for libFuzzer to damage.

Parts of an input are divided by the byte 0x1E, as the first comment of each NAME_fuzz.cc says. Run it after a change of a
format; an input that once crashed a parser is put beside the seeds by hand, as fixed-WHAT.
"""

import json
import struct
from pathlib import Path

CORPUS = Path(__file__).resolve().parent / "corpus"


def parts(*texts: str | bytes) -> bytes:
    return b"\x1e".join(text if isinstance(text, bytes) else text.encode() for text in texts)


def write(fuzzer: str, seeds: dict[str, bytes]) -> None:
    folder = CORPUS / fuzzer
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if not old.name.startswith("fixed-"):
            old.unlink()
    for name, seed in seeds.items():
        (folder / name).write_bytes(seed)


# ---- GGUF

U32, I32, F32, BOOL, STRING, ARRAY, U64 = 4, 5, 6, 7, 8, 9, 10
TYPES = {"F32": (0, 1, 4), "F16": (1, 1, 2), "Q4_0": (2, 32, 18), "Q4_1": (3, 32, 20), "Q5_0": (6, 32, 22), "Q5_1": (7, 32, 24),
         "Q8_0": (8, 32, 34), "Q2_K": (10, 256, 84), "Q3_K": (11, 256, 110), "Q4_K": (12, 256, 144), "Q5_K": (13, 256, 176),
         "Q6_K": (14, 256, 210), "IQ4_NL": (20, 32, 18), "IQ4_XS": (23, 256, 136), "BF16": (30, 1, 2), "MXFP4": (39, 32, 17),
         "NVFP4": (40, 64, 36)}
CODES = {U32: "<I", I32: "<i", F32: "<f", BOOL: "<?", U64: "<Q"}


def gguf_text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_value(kind: int, value) -> bytes:
    return gguf_text(value) if kind == STRING else struct.pack(CODES[kind], value)


def gguf(pairs: list[tuple], tensors: list[tuple[str, list[int], str]], alignment: int = 32) -> bytes:
    """pairs: (key, kind, value) or (key, ARRAY, kind, values); tensors: (name, dimensions with the contiguous one first, type)."""
    meta = b""
    for key, kind, *value in pairs:
        meta += gguf_text(key) + struct.pack("<I", kind)
        if kind == ARRAY:
            element, values = value
            meta += struct.pack("<IQ", element, len(values)) + b"".join(gguf_value(element, v) for v in values)
        else:
            meta += gguf_value(kind, value[0])
    records = data = b""
    for name, dimensions, type_name in tensors:
        number, block, size = TYPES[type_name]
        elements = 1
        for dimension in dimensions:
            elements *= dimension
        records += gguf_text(name) + struct.pack(f"<I{len(dimensions)}QIQ", len(dimensions), *dimensions, number, len(data))
        data += bytes(elements // block * size)
        data += bytes(-len(data) % alignment)
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs)) + meta + records
    return header + bytes(-len(header) % alignment) + data


def llama_gguf(weight_type: str, extra: list[tuple] = (), extra_tensors: list[tuple] = (), hidden: int = 32) -> bytes:
    """A llama of one layer, as small as its quantisation lets it be."""
    tokens = ["<|endoftext|>", "<|im_end|>", "a", "b", "ab", "\u0120"]
    pairs = [
        ("general.architecture", STRING, "llama"), ("llama.block_count", U32, 1), ("llama.context_length", U32, 64),
        ("llama.embedding_length", U32, hidden), ("llama.feed_forward_length", U32, hidden),
        ("llama.attention.head_count", U32, 2), ("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
        ("tokenizer.ggml.model", STRING, "gpt2"), ("tokenizer.ggml.pre", STRING, "smollm"),
        ("tokenizer.ggml.tokens", ARRAY, STRING, tokens), ("tokenizer.ggml.token_type", ARRAY, I32, [3, 3, 1, 1, 1, 1]),
        ("tokenizer.ggml.merges", ARRAY, STRING, ["a b"]), ("tokenizer.ggml.bos_token_id", U32, 0),
        ("tokenizer.ggml.eos_token_id", U32, 1), *extra]
    modules = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]
    tensors = [("token_embd.weight", [hidden, len(tokens)], weight_type), ("output_norm.weight", [hidden], "F32"),
               *((f"blk.0.{norm}.weight", [hidden], "F32") for norm in ("attn_norm", "ffn_norm")),
               *((f"blk.0.{module}.weight", [hidden, hidden], weight_type) for module in modules), *extra_tensors]
    return gguf(pairs, tensors)


def types_gguf() -> bytes:
    """One row of each type, as the modules of layers that nobody asks for."""
    return gguf([("general.architecture", STRING, "llama"), ("llama.block_count", U32, 1), ("llama.context_length", U32, 64),
                 ("llama.embedding_length", U32, 256), ("llama.feed_forward_length", U32, 256),
                 ("llama.attention.head_count", U32, 2), ("llama.attention.layer_norm_rms_epsilon", F32, 1e-5)],
                [(f"blk.{i}.ffn_up.weight", [256, 1], name) for i, name in enumerate(TYPES)])


def gemma3_gguf() -> bytes:
    hidden = 32
    pairs = [("general.architecture", STRING, "gemma3"), ("gemma3.block_count", U32, 1), ("gemma3.context_length", U32, 64),
             ("gemma3.embedding_length", U32, hidden), ("gemma3.feed_forward_length", U32, hidden),
             ("gemma3.attention.head_count", U32, 2), ("gemma3.attention.layer_norm_rms_epsilon", F32, 1e-6),
             ("gemma3.attention.sliding_window", U32, 16), ("gemma3.rope.freq_base", F32, 1e6),
             ("tokenizer.ggml.model", STRING, "llama")]
    norms = ["attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"]
    modules = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]
    return gguf(pairs, [("token_embd.weight", [hidden, 4], "Q5_0"), ("output_norm.weight", [hidden], "F32"),
                        *((f"blk.0.{norm}.weight", [hidden], "F32") for norm in norms),
                        *((f"blk.0.{norm}.weight", [hidden // 2], "F32") for norm in ("attn_q_norm", "attn_k_norm")),
                        *((f"blk.0.{module}.weight", [hidden, hidden], "Q5_1") for module in modules)])


def gguf_seeds() -> dict[str, bytes]:
    more = [("llama.rope.scaling.type", STRING, "linear"), ("llama.rope.scaling.factor", F32, 2.0),
            ("tokenizer.ggml.add_bos_token", BOOL, True), ("tokenizer.ggml.unknown_token_id", U64, 2),
            ("tokenizer.chat_template", STRING, "{{ messages[0].content }}"),
            ("tokenizer.chat_template.tool_use", STRING, "{% for m in messages %}{{ m.role }}{% endfor %}"),
            ("general.alignment", U32, 32)]
    return {"smallest": gguf([("general.architecture", STRING, "llama")], [("w", [3, 2], "F32")]),
            "llama-q4_0": llama_gguf("Q4_0"),
            "llama-q8_0": llama_gguf("Q8_0", more),
            "llama-f16": llama_gguf("F16", [], [("rope_freqs.weight", [2], "F32"), ("output.weight", [8, 6], "BF16")], hidden=8),
            "bias": llama_gguf("Q4_1", [], [("blk.0.attn_q.bias", [32], "F32"), ("blk.0.ffn_gate.bias", [32, 1], "F16")]),
            "types": types_gguf(),
            "gemma3": gemma3_gguf(),
            "split": gguf([("split.no", U32, 0), ("split.count", U32, 2), ("split.tensors.count", I32, 1)], []),
            "tokenizer": gguf([("general.architecture", STRING, "llama"), ("tokenizer.huggingface.json", STRING, "{}")], [])}


def gguf_tokenizer_seeds() -> dict[str, bytes]:
    tokens, merges = "<|end|>\na\nb\nab\nabc\n\u0120\nc\n\u0120a", "a b\nab c\n\u0120 a"
    names = ["llama-bpe", "qwen2", "qwen35", "gpt-4o", "tekken", "deepseek-v3", "kimi-k2", "command-r", "gpt-2",
             "deepseek-coder", "falcon", "default"]
    return {name: parts("abc a1234<|end|> it's \u4e2d\u6587\r\n", name, tokens, "31111141", merges) for name in names}


# ---- safetensors

def safetensors(tensors: dict[str, tuple[str, list[int], int]], metadata: bool = False) -> bytes:
    """tensors: name → (dtype, shape, bytes)."""
    header, at = ({"__metadata__": {"format": "pt"}} if metadata else {}), 0
    for name, (dtype, shape, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + bytes(at)


def safetensors_seeds() -> dict[str, bytes]:
    config = {"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 1, "intermediate_size": 32,
              "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 4, "rms_norm_eps": 1e-5,
              "eos_token_id": [1, 2], "tie_word_embeddings": False}
    rope = {"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
                             "original_max_position_embeddings": 8192}, "layer_types": ["sliding_attention"],
            "sliding_window": 16, "partial_rotary_factor": 0.5}
    quantized = config | {"quantization": {"group_size": 32, "bits": 4, "lm_head": {"group_size": 64, "bits": 8},
                                           "model.norm": False}}
    tokenizer = {"eos_token": {"content": "</s>"}, "bos_token": "<s>", "add_bos_token": True,
                 "chat_template": [{"name": "default", "template": "{{ messages }}"}]}
    dense = {"model.embed_tokens.weight": ("BF16", [4, 32], 256), "model.norm.weight": ("F32", [32], 128),
             "model.layers.0.self_attn.q_proj.weight": ("F16", [32, 32], 2048)}
    affine = {"model.embed_tokens.weight": ("U32", [4, 4], 64), "model.embed_tokens.scales": ("BF16", [4, 1], 8),
              "model.embed_tokens.biases": ("BF16", [4, 1], 8), "empty": ("I8", [0], 0)}
    float8 = config | {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
    squares = {"lm_head.weight": ("F8_E4M3", [4, 32], 128), "lm_head.weight_scale_inv": ("F32", [1, 1], 4)}
    small = {name: config | {"quantization": {"mode": name, "bits": bits, "group_size": group}}
             for name, bits, group in (("mxfp4", 4, 32), ("mxfp8", 8, 32), ("nvfp4", 4, 16))}
    gemma3 = {"model_type": "gemma3", "text_config": {
        "hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 32, "num_attention_heads": 2, "num_key_value_heads": 1,
        "head_dim": 16, "vocab_size": 4, "sliding_window": 8, "sliding_window_pattern": 2, "rope_scaling": {
            "rope_type": "linear", "factor": 8}}}
    return {"float8": parts(json.dumps(float8), "", safetensors(squares)),
            **{name: parts(json.dumps(small[name]), "", safetensors(
                {"lm_head.weight": ("U32", [4, words], 16 * words), "lm_head.scales": ("U8", [4, scales], 4 * scales)}))
               for name, words, scales in (("mxfp4", 4, 1), ("mxfp8", 8, 1), ("nvfp4", 4, 2))},
            "gemma3": parts(json.dumps(gemma3), "", safetensors(
                {"language_model.model.embed_tokens.weight": ("BF16", [4, 32], 256),
                 "language_model.model.layers.0.self_attn.q_norm.weight": ("BF16", [16], 32)})),
            "dense": parts(json.dumps(config | rope), json.dumps(tokenizer), safetensors(dense, metadata=True)),
            "affine": parts(json.dumps(quantized), "{}", safetensors(affine)),
            "no-config": parts("{}", "", safetensors({})),
            "linear": parts(json.dumps(config | {"rope_parameters": {"type": "linear", "factor": 2, "rope_theta": 500000.0}}),
                            "", safetensors({"x": ("F64", [1], 8)}))}


# ---- tokenizer.json

def bpe(**changes) -> dict:
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "\u0120": 3}, "merges": [["a", "b"]]}
    document = {"version": "1.0", "truncation": None, "padding": None, "normalizer": {"type": "NFC"},
                "added_tokens": [{"id": 4, "content": "<|end|>", "single_word": False, "lstrip": False, "rstrip": False,
                                  "normalized": False, "special": True}],
                "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
                "post_processor": None, "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                                                    "use_regex": True}, "model": model}
    return document | changes


def tokenizer_json_seeds() -> dict[str, bytes]:
    sentence_piece = bpe(
        normalizer={"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"},
                                                        {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
        pre_tokenizer=None,
        decoder={"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                                                  {"type": "ByteFallback"}, {"type": "Fuse"},
                                                  {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        model={"type": "BPE", "unk_token": "<unk>", "byte_fallback": True, "fuse_unk": True,
               "vocab": {"<unk>": 0, "<0x41>": 1, "\u2581": 2, "a": 3, "\u2581a": 4}, "merges": ["\u2581 a"]})
    split = bpe(pre_tokenizer={"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": "\\p{N}{1,3}|\\s+(?!\\S)|\\s+"}, "behavior": "Isolated", "invert": False},
        {"type": "Digits", "individual_digits": True}, {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first"}]},
        truncation={"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0})
    unigram = bpe(model={"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a", -1.0], ["ab", -2.5]],
                         "byte_fallback": False}, decoder={"type": "Metaspace", "replacement": "\u2581"})
    words = bpe(model={"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                       "max_input_chars_per_word": 100, "vocab": {"[UNK]": 0, "a": 1, "##b": 2}},
                decoder={"type": "WordPiece", "prefix": "##", "cleanup": True},
                normalizer={"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                            "strip_accents": None, "lowercase": True}, pre_tokenizer={"type": "BertPreTokenizer"})
    documents = {"byte-level": bpe(), "sentence-piece": sentence_piece, "split": split, "unigram": unigram, "word-piece": words}
    return {name: parts("ab 12 \u00e9<|end|>", json.dumps(document)) for name, document in documents.items()}


# ---- chat template

VARIABLES = {"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"},
                          {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}],
             "add_generation_prompt": True, "bos_token": "<s>", "tools": []}
TEMPLATES = {
    "chatml": "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ 'x' }}{% endif %}"
              "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
              "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    "lists": "{%- set ns = namespace(l=[], n=0) %}{% for m in messages[::-1] %}{% set _ = ns.l.append(m) %}"
             "{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.l|tojson(indent=2) }}{{ ns.l.pop(0) }}{% set a, b = [1, 2] %}{{ a ~ b }}",
    "macros": "{% macro show(x, y='z') -%}{{ x|trim }}{{ caller() if caller }}{%- endmacro %}"
              "{% call show('a') %}b{% endcall %}{% raw %}{{ x }}{% endraw %}{# no #}{% generation %}g{% endgeneration %}",
    "strings": "{{ bos_token.split('s')[0].strip().upper() }}{{ '%s-%03d %.2f' % ('a', 5, 1.5) }}{{ 'a b c'.rsplit(' ', 1) }}"
               "{{ messages|map(attribute='role')|join(',') }}{{ '{\"a\": [1]}'|fromjson }}{{ 'x'|indent(4) }}",
    "errors": "{% if messages is sequence and tools is not none %}{{ raise_exception('no tools') }}{% endif %}",
    "dates": "{{ strftime_now('%d %b %Y') }}{{ messages|selectattr('role', 'equalto', 'user')|list|length }}{{ 7 // 2 ** 2 }}"}


def chat_template_seeds() -> dict[str, bytes]:
    return {name: parts(json.dumps(VARIABLES), text) for name, text in TEMPLATES.items()}


# ---- chat request

def chat_request_seeds() -> dict[str, bytes]:
    hello = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    sampled = hello | {"temperature": 0.5, "top_p": 1, "min_p": 0.1, "top_k": -1, "presence_penalty": -2, "frequency_penalty": 2,
                       "repetition_penalty": 1.1, "repetition_context_size": 20, "seed": -1, "stop": ["a", ""],
                       "logit_bias": {"5": -100}, "logprobs": True, "top_logprobs": 3, "max_completion_tokens": 5.0,
                       "stream": True, "stream_options": {"include_usage": True}, "n": 1, "user": None}
    parted = {"model": "m", "messages": [
        {"role": "developer", "content": [{"type": "text", "text": "a"}, "b", {"type": "refusal", "refusal": "c"}]},
        {"role": "assistant", "content": None, "reasoning_content": "r", "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
            {"id": "2", "custom": {"name": "g", "input": "x"}}], "function_call": {"name": "h", "arguments": "{}"}},
        {"role": "function", "name": "h", "content": "4"}, {"role": "tool", "tool_call_id": "1", "content": ""}]}
    thinking = hello | {"reasoning": {"effort": "low", "enabled": True}, "chat_template_kwargs": {"enable_thinking": False, "x": [1]},
                        "reasoning_effort": "none", "response_format": {"type": "text"}, "modalities": ["text"], "tools": [],
                        "tool_choice": "auto", "parallel_tool_calls": True}
    bodies = {"hello": hello, "sampled": sampled, "parted": parted, "thinking": thinking}
    return {name: json.dumps(body, ensure_ascii=False).encode() for name, body in bodies.items()}


# ---- frames

def cbor(value) -> bytes:
    def head(major: int, count: int) -> bytes:
        for limit, code, form in ((24, count, ">"), (1 << 8, 24, ">B"), (1 << 16, 25, ">H"), (1 << 32, 26, ">I"), (1 << 64, 27, ">Q")):
            if count < limit:
                return bytes([major << 5 | code]) + (struct.pack(form, count) if form != ">" else b"")
        raise ValueError(count)
    if value is None or isinstance(value, bool):
        return {None: b"\xf6", True: b"\xf5", False: b"\xf4"}[value]
    if isinstance(value, float):
        return b"\xfb" + struct.pack(">d", value)
    if isinstance(value, int):
        return head(0, value) if value >= 0 else head(1, -1 - value)
    if isinstance(value, str):
        return head(3, len(value.encode())) + value.encode()
    if isinstance(value, list):
        return head(4, len(value)) + b"".join(map(cbor, value))
    return head(5, len(value)) + b"".join(cbor(k) + cbor(v) for k, v in value.items())


def frames(step: int, *messages) -> bytes:
    bodies = [cbor(message) for message in messages]
    return bytes([step]) + b"".join(struct.pack("<I", len(body)) + body for body in bodies)


def task_frame_seeds() -> dict[str, bytes]:
    request = {"model": "m", "messages": [{"role": "user", "content": "hi", "tool_calls": [{"id": "1", "name": "f", "arguments": "{}"}]}],
               "max_output_tokens": 5, "sampling": {"temperature": 0.5, "top_k": 3, "seed": -7, "logit_bias": {"5": 1.5}},
               "stop": ["x"], "logprobs": True, "top_logprobs": 2, "enable_thinking": True, "template_kwargs": "{}", "stream": True}
    logprob = {"token": "a", "bytes": [97, 255], "logprob": -0.5}
    chunks = [{"PrefillProgress": {"processed_tokens": 0, "total_tokens": 9}},
              {"TokenChunk": {"text": "a", "is_thinking": True, "logprobs": [{"chosen": logprob, "top": [logprob]}]}},
              {"FinishChunk": {"reason": "stop", "stop_sequence": "x", "cancelled": False, "usage": {"prompt_tokens": 1},
                               "stats": {"prompt_tps": 1.5, "peak_memory_bytes": 1 << 40}}},
              {"ErrorChunk": {"error": {"code": "invalid_input", "message": "m", "subject": "s"}}}]
    return {"tasks": frames(0, {"Hello": {"version": 1}}, {"LoadModel": {"id": "1", "path": "p", "model": "m"}},
                            {"Cancel": {"id": "1"}}, {"Shutdown": {}}),
            "generate": frames(0, {"Generate": {"id": "1", "request": request}}),
            "reports": frames(3, {"RunnerStatus": {"state": "Failed", "error": {"code": "io", "message": "", "subject": ""}}},
                              {"LoadProgress": {"done_bytes": 1, "total_bytes": 2}},
                              {"LoadedModel": {"context_length": 4096, "weight_bytes": 1 << 33, "load_seconds": 1.5}}),
            "chunks": frames(7, *({"TaskChunk": {"id": "1", "chunk": chunk}} for chunk in chunks))}


def main() -> None:
    write("gguf", gguf_seeds())
    write("gguf_tokenizer", gguf_tokenizer_seeds())
    write("safetensors", safetensors_seeds())
    write("tokenizer_json", tokenizer_json_seeds())
    write("chat_template", chat_template_seeds())
    write("chat_request", chat_request_seeds())
    write("task_frame", task_frame_seeds())


if __name__ == "__main__":
    main()
