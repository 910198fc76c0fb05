"""The two real models in f32: mlx-lm on the weights that the `gguf` package dequantises; and their token ids."""

import json
import subprocess

import mlx.core as mx
import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize
from mlx_lm.models import gemma3_text, llama

NAMES = {
    "token_embd": "model.embed_tokens", "output_norm": "model.norm",
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}
GEMMA_NAMES = NAMES | {
    "ffn_norm": "pre_feedforward_layernorm", "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
    "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
}


def _weights(reader, names, change):
    """The file's tensors in f32 under Hugging Face names; change(name of the part, values) -> values."""
    weights = {}
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        *layer, part = tensor.name.removesuffix(".weight").removeprefix("blk.").split(".")
        name = f"model.layers.{layer[0]}.{names[part]}" if layer else names[part]
        weights[f"{name}.weight"] = mx.array(change(part, values))
    return weights


def _loaded(module, config, weights):
    model = module.Model(module.ModelArgs.from_dict(config))
    model.load_weights(list(model.sanitize(weights).items()), strict=True)
    mx.eval(model.parameters())
    return model


def load_starter(path):
    """The starter model of the GGUF file at `path`: its q and k rows are put back in Hugging Face order."""
    reader = GGUFReader(path)

    def field(key):
        return reader.fields[f"llama.{key}"].contents()

    heads, kv_heads = field("attention.head_count"), field("attention.head_count_kv")

    def reorder(part, values):
        count = {"attn_q": heads, "attn_k": kv_heads}.get(part)
        if count is None:
            return values
        # Per head, GGUF row 2i+s is row s·D/2+i.
        return values.reshape(count, -1, 2, values.shape[1]).swapaxes(1, 2).reshape(values.shape)

    weights = _weights(reader, NAMES, reorder)
    return _loaded(llama, {
        "model_type": "llama", "hidden_size": field("embedding_length"), "num_hidden_layers": field("block_count"),
        "intermediate_size": field("feed_forward_length"), "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "rms_norm_eps": field("attention.layer_norm_rms_epsilon"),
        "vocab_size": weights["model.embed_tokens.weight"].shape[0], "rope_theta": field("rope.freq_base"),
        "max_position_embeddings": field("context_length"), "tie_word_embeddings": "lm_head.weight" not in weights,
    }, weights)


def load_second(path):
    """Gemma 3 270M of the GGUF file at `path`: norms hold 1 + w there, and mlx-lm adds the one itself."""
    reader = GGUFReader(path)

    def field(key, default=None):
        key = f"gemma3.{key}"
        return reader.fields[key].contents() if key in reader.fields else default

    weights = _weights(reader, GEMMA_NAMES, lambda part, values: values - 1 if part.endswith("norm") else values)
    return _loaded(gemma3_text, {
        "model_type": "gemma3_text", "hidden_size": field("embedding_length"),
        "num_hidden_layers": field("block_count"), "intermediate_size": field("feed_forward_length"),
        "num_attention_heads": field("attention.head_count"), "num_key_value_heads": field("attention.head_count_kv"),
        "head_dim": field("attention.key_length"), "rms_norm_eps": field("attention.layer_norm_rms_epsilon"),
        "rope_theta": field("rope.freq_base"), "rope_local_base_freq": field("rope.freq_base_swa", 10000.0),
        "query_pre_attn_scalar": field("attention.key_length"), "sliding_window": field("attention.sliding_window"),
        "sliding_window_pattern": field("attention.sliding_window_pattern", 6),
        "vocab_size": weights["model.embed_tokens.weight"].shape[0],
    }, weights)


def reference_logits(model, ids):
    """f32[len(ids), vocabulary]."""
    return np.array(model(mx.array([ids]))[0].astype(mx.float32))


def tokenize(exo, model, text):
    """The ids of `text`, as the program at `exo` gives them; other tests compare those with the peer's."""
    output = subprocess.run([exo, "tokenize", model, text, "--json"], check=True, capture_output=True).stdout
    return json.loads(output)[0]
