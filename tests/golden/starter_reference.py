"""The starter model in f32: mlx-lm's llama on the weights that the `gguf` package dequantises."""

import mlx.core as mx
import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize
from mlx_lm.models.llama import Model, ModelArgs

NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def _hugging_face_name(name):
    parts = name.removesuffix(".weight").split(".")
    if parts[0] == "blk":
        return f"model.layers.{parts[1]}.{NAMES[parts[2]]}.weight"
    return f"{NAMES[parts[0]]}.weight"


def _unpermute(rows, heads):
    """The Hugging Face order of q and k rows: per head, GGUF row 2i+s is row s·D/2+i."""
    shape = rows.shape
    return rows.reshape(heads, shape[0] // heads // 2, 2, *shape[1:]).swapaxes(1, 2).reshape(shape)


def load_starter(path):
    """The llama Model of the GGUF file at `path`, every parameter in f32."""
    reader = GGUFReader(path)

    def field(key):
        return reader.fields[key].contents()

    heads, kv_heads = field("llama.attention.head_count"), field("llama.attention.head_count_kv")
    weights = {}
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if ".attn_q." in tensor.name:
            values = _unpermute(values, heads)
        if ".attn_k." in tensor.name:
            values = _unpermute(values, kv_heads)
        weights[_hugging_face_name(tensor.name)] = mx.array(values)
    model = Model(ModelArgs(
        model_type="llama",
        hidden_size=field("llama.embedding_length"),
        num_hidden_layers=field("llama.block_count"),
        intermediate_size=field("llama.feed_forward_length"),
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        rms_norm_eps=field("llama.attention.layer_norm_rms_epsilon"),
        vocab_size=weights["model.embed_tokens.weight"].shape[0],
        rope_theta=field("llama.rope.freq_base"),
        max_position_embeddings=field("llama.context_length"),
        tie_word_embeddings="lm_head.weight" not in weights,
    ))
    model.load_weights(list(weights.items()))
    mx.eval(model.parameters())
    return model


def reference_logits(model, ids):
    """f32[len(ids), vocabulary]."""
    return np.array(model(mx.array([ids]))[0].astype(mx.float32))
