#!/usr/bin/env -S build/venv/bin/python
"""Makes tests/golden/logits: tiny random checkpoints as mlx-lm's converter writes them, and their logits.

The reference is mlx-lm's model on the CPU in f32, over weights dequantised in f32 with scales and biases cast to
f32. A golden.json holds, per position, the 32 largest logits, log-sum-exp, the largest magnitude and four projections
on random signs (see sign()). The two real models are dequantised by the `gguf` package.

    build/venv/bin/python tests/golden/make_logits.py             # all tiny checkpoints
    build/venv/bin/python tests/golden/make_logits.py NAME …      # these tiny checkpoints
    build/venv/bin/python tests/golden/make_logits.py --starter build/release/exo STARTER.gguf
    build/venv/bin/python tests/golden/make_logits.py --second build/release/exo GEMMA3.gguf
"""

import json
import shutil
import sys
from pathlib import Path

import mlx.core as mx
import numpy as np
from mlx.utils import tree_map_with_path
from mlx_lm.models import gemma3_text, llama
from mlx_lm.utils import quantize_model, save_config, save_model
from reference_models import load_second, load_starter, reference_logits, tokenize

HERE = Path(__file__).parent / "logits"
TOP, PROJECTIONS, TOKENS = 32, 4, 12

BASE = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 96,
    "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "vocab_size": 100,
    "max_position_embeddings": 64, "rope_theta": 10000.0, "tie_word_embeddings": True,
}
WIDE = BASE | {"hidden_size": 128, "intermediate_size": 128, "head_dim": 16, "num_hidden_layers": 1}
GEMMA3 = {
    "model_type": "gemma3_text", "hidden_size": 64, "num_hidden_layers": 4, "intermediate_size": 96,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "rms_norm_eps": 1e-6, "vocab_size": 100,
    "max_position_embeddings": 64, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0,
    "query_pre_attn_scalar": 24.0, "sliding_window": 5, "sliding_window_pattern": 3,
}
MODELS = {"llama": llama, "gemma3_text": gemma3_text}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}


def mixed(path, module):
    """Overrides as mixed-precision recipes write them: q and k differ from v, gate from up."""
    for part, choice in {
        "embed_tokens": {"bits": 8, "group_size": 64},
        "q_proj": {"bits": 6, "group_size": 32},
        "k_proj": False,
        "gate_proj": {"bits": 3, "group_size": 64},
        "down_proj": {"bits": 5, "group_size": 32},
    }.items():
        if part in path:
            return choice
    return True


def cases():
    """name -> (config, dtype, quantisation, shards)"""
    result = {}
    for bits in (2, 3, 4, 5, 6, 8):
        for group in (32, 64, 128):
            dtype = {32: mx.bfloat16, 64: mx.float16, 128: mx.bfloat16}[group]
            result[f"affine{bits}_group{group}"] = (WIDE, dtype, {"bits": bits, "group_size": group}, 1)
    for name, dtype in (("bf16", mx.bfloat16), ("f16", mx.float16), ("f32", mx.float32)):
        layers = 2 if dtype == mx.bfloat16 else 1
        result[name] = (BASE | {"num_hidden_layers": layers}, dtype, None, 1)
    four = {"bits": 4, "group_size": 32}
    result["mixed"] = (BASE, mx.bfloat16, four | {"quant_predicate": mixed}, 1)
    result["llama3_rope"] = (BASE | {"rope_scaling": LLAMA3}, mx.bfloat16, four, 1)
    result["linear_rope"] = (BASE | {"rope_scaling": {"type": "linear", "factor": 2.0}}, mx.bfloat16, four, 1)
    result["traditional_rope"] = (BASE | {"rope_traditional": True}, mx.bfloat16, four, 1)
    result["untied"] = (BASE | {"tie_word_embeddings": False}, mx.bfloat16, four, 1)
    result["biases"] = (BASE | {"attention_bias": True, "mlp_bias": True}, mx.bfloat16, four, 1)
    result["sharded"] = (BASE, mx.bfloat16, four, 3)
    window = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 5}
    result["window"] = (BASE | window, mx.bfloat16, four, 1)
    for mode in ("mxfp4", "mxfp8", "nvfp4"):
        result[mode] = (WIDE, mx.bfloat16, {"mode": mode, "bits": None, "group_size": None}, 1)
    result["gemma3"] = (GEMMA3, mx.bfloat16, None, 1)
    result["gemma3_affine"] = (GEMMA3, mx.bfloat16, four, 1)
    linear = {"rope_scaling": {"rope_type": "linear", "factor": 8.0}}
    result["gemma3_linear_rope"] = (GEMMA3 | linear, mx.bfloat16, four, 1)
    result["gemma3_wide_window"] = (GEMMA3 | {"sliding_window": 12}, mx.float16, four, 1)
    return result


def empty_model(config):
    module = MODELS[config["model_type"]]
    return module.Model(module.ModelArgs.from_dict(config))


def random_model(config, dtype, seed):
    """Weights of the size that keeps activations near 1, norms near 1, biases near 0."""
    rng = np.random.default_rng(seed)
    model = empty_model(config)
    norm = 0 if config["model_type"] == "gemma3_text" else 1  # Gemma adds one to its norms

    def weight(path, old):
        if "norm" in path:
            value = norm + 0.2 * rng.standard_normal(old.shape)
        elif path.endswith(".bias"):
            value = 0.3 * rng.standard_normal(old.shape)
        else:
            value = 1.2 * rng.standard_normal(old.shape) / np.sqrt(old.shape[-1])
        return mx.array(value.astype(np.float32)).astype(dtype)

    model.update(tree_map_with_path(weight, model.parameters()))
    return model


def dequantised(tensors, module, block):
    tensor, scales = tensors[f"{module}.weight"], tensors[f"{module}.scales"]
    if block.get("mode", "affine") != "affine":
        return mx.dequantize(tensor, scales, None, block["group_size"], block["bits"], mode=block["mode"],
                             dtype=mx.float32)
    scales, biases = scales.astype(mx.float32), tensors[f"{module}.biases"].astype(mx.float32)
    return mx.dequantize(tensor, scales, biases, block["group_size"], block["bits"])


def reference(config, tensors, blocks):
    """The model in f32. `blocks`: module -> its quantisation."""
    model = empty_model(config)
    weights = {}
    for name, tensor in tensors.items():
        module, _, kind = name.rpartition(".")
        if kind in ("scales", "biases"):
            continue
        if f"{module}.scales" in tensors and kind == "weight":
            weights[name] = dequantised(tensors, module, blocks(module))
        else:
            weights[name] = tensor.astype(mx.float32)
    model.load_weights(list(weights.items()), strict=True)
    return model


def sign(projection, token):
    """±1 by SplitMix64 of (projection << 32) + token, its top bit."""
    mask = (1 << 64) - 1
    z = ((projection << 32) + token + 1) * 0x9E3779B97F4A7C15 & mask
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & mask
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & mask
    return -1.0 if (z ^ (z >> 31)) >> 63 else 1.0


def golden(model, ids):
    logits = reference_logits(model, ids).astype(np.float64)
    vocab = logits.shape[1]
    signs = np.array([[sign(p, t) for t in range(vocab)] for p in range(PROJECTIONS)])
    positions = []
    for row in logits:
        top = np.argsort(-row, kind="stable")[:TOP]
        largest = row.max()
        positions.append({
            "top": top.tolist(), "logits": [round(float(row[t]), 5) for t in top],
            "log_sum_exp": round(float(largest + np.log(np.exp(row - largest).sum())), 5),
            "largest": round(float(np.abs(row).max()), 5),
            "projections": [round(float(p), 5) for p in signs @ row / np.sqrt(vocab)],
        })
    return {"ids": list(ids), "vocab_size": vocab, "positions": positions}


def write_golden(path, content):
    positions = ",\n".join(json.dumps(p, separators=(",", ":")) for p in content["positions"])
    path.write_text(f'{{"ids":{json.dumps(content["ids"])},"vocab_size":{content["vocab_size"]},'
                    f'"positions":[\n{positions}]}}\n')


def shard(directory, count):
    """model.safetensors cut into `count` files with their index."""
    whole = directory / "model.safetensors"
    tensors = dict(mx.load(str(whole)))
    names, index = sorted(tensors), {}
    for i in range(count):
        file = f"model-{i + 1:05d}-of-{count:05d}.safetensors"
        part = {name: tensors[name] for name in names[i::count]}
        mx.save_safetensors(str(directory / file), part, metadata={"format": "mlx"})
        index |= dict.fromkeys(part, file)
    size = sum(t.nbytes for t in tensors.values())
    text = json.dumps({"metadata": {"total_size": size}, "weight_map": dict(sorted(index.items()))}, indent=1)
    (directory / "model.safetensors.index.json").write_text(text)
    whole.unlink()


def make_tiny(name, config, dtype, quantisation, shards, seed):
    directory = HERE / name
    shutil.rmtree(directory, ignore_errors=True)
    model = random_model(config, dtype, seed)
    if quantisation:
        model, config = quantize_model(model, dict(config), quantisation["group_size"], quantisation["bits"],
                                       mode=quantisation.get("mode", "affine"),
                                       quant_predicate=quantisation.get("quant_predicate"))
    save_model(directory, model)
    save_config(dict(config), config_path=directory / "config.json")
    tensors = dict(mx.load(str(directory / "model.safetensors")))
    if shards > 1:
        shard(directory, shards)
    else:
        (directory / "model.safetensors.index.json").unlink()
    block = config.get("quantization", {})
    # An override is an object; anything else leaves the module the defaults.
    overrides = {key: value for key, value in block.items() if isinstance(value, dict)}
    base = {key: block.get(key) for key in ("group_size", "bits", "mode") if key in block}
    model = reference(config, tensors, lambda module: overrides.get(module, base))
    count = max(TOKENS, 2 * config.get("sliding_window", 0) + 2)  # beyond twice the window
    ids = np.random.default_rng(seed + 1000).integers(0, config["vocab_size"], count).tolist()
    write_golden(directory / "golden.json", golden(model, ids))


TEXT = ("A lighthouse keeper writes in her log: the wind turned at four, the glass fell, and by dusk the sea had gone "
        "the colour of slate. def area(r): return 3.14159 * r ** 2  # square metres. Im Jahr 1873 kostete das Öl 12,50 "
        "Mark; el faro, sin embargo, nunca se apagó. 灯台の光 — 20 seconds dark, 2 seconds bright.")


def make_starter(exo, path):
    write_golden(HERE / "starter.json", golden(load_starter(path), tokenize(exo, path, TEXT)[:96]))


def make_second(exo, path):
    ids = [2] + tokenize(exo, path, (HERE.parent / "text.txt").read_text())[:255]
    write_golden(HERE / "second.json", golden(load_second(path), ids))


def main(arguments):
    mx.set_default_device(mx.cpu)
    if arguments[:1] == ["--starter"]:
        make_starter(*arguments[1:])
    elif arguments[:1] == ["--second"]:
        make_second(*arguments[1:])
    else:
        for seed, (name, case) in enumerate(cases().items()):
            if not arguments or name in arguments:
                make_tiny(name, *case, seed)


if __name__ == "__main__":
    main(sys.argv[1:])
