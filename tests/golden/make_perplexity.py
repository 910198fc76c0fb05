#!/usr/bin/env -S build/venv/bin/python
"""Makes tests/golden/perplexity.json: mlx-lm's perplexity of long_text.txt for the two real models.

Both run on the CPU in f32 on the weights that the `gguf` package dequantises. As `exo perplexity` does, the text is cut
into windows of 512 tokens, each read by itself, the second model's with its first token (BOS) in front, and every token
of a window but the first is scored. The ids are those of `exo tokenize`, which other tests compare with the peer's.

    build/venv/bin/python tests/golden/make_perplexity.py build/release/exo STARTER.gguf GEMMA3.gguf
"""

import json
import sys
import zlib
from pathlib import Path

import mlx.core as mx
import numpy as np
from reference_models import load_second, load_starter, reference_logits, tokenize

HERE = Path(__file__).parent
WINDOW = 512


def losses(model, ids):
    """-ln p of every token but the first."""
    logits = reference_logits(model, ids)[:-1]
    largest = logits.max(1)
    total = np.log(np.exp(logits - largest[:, None]).sum(1, dtype=np.float64)) + largest
    return total - logits[np.arange(len(ids) - 1), ids[1:]]


def perplexity(model, ids, first):
    own = WINDOW - len(first)
    windows = [first + ids[begin:begin + own] for begin in range(0, len(ids), own)]
    scored = np.concatenate([losses(model, window) for window in windows if len(window) > 1])
    return {"tokens": len(ids), "crc32": zlib.crc32(np.array(ids, dtype="<u4").tobytes()), "scored": len(scored),
            "negative_log_likelihood": round(float(scored.mean()), 7)}


def main(exo, starter, second):
    mx.set_default_device(mx.cpu)
    text = (HERE / "long_text.txt").read_text()
    result = {
        "starter": perplexity(load_starter(Path(starter)), tokenize(exo, starter, text), []),
        "second": perplexity(load_second(Path(second)), tokenize(exo, second, text), [2]),
    }
    (HERE / "perplexity.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
