"""Makes tests/golden/greedy.json: the peer's greedy text of 20 prompts, and how far its logits are from f32.

usage: build/venv/bin/python tests/golden/make_greedy.py MODEL.gguf

For each prompt the peer (llama.cpp through llama-cpp-python) generates 64 tokens greedily. Along that text the same model runs
in f32 (mlx-lm's llama on the weights that the `gguf` package dequantises). Written per token: the peer's id, the gap between its
two best logits, and the peer's deviation from f32 there: the largest |its gap − f32's gap| between its best id and either its
second or f32's best. Where the gap is larger than the deviation, any correct engine chooses the peer's token.
"""

import json
import pathlib
import sys

import numpy as np
from llama_cpp import Llama

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from reference_models import load_starter, reference_logits  # noqa: E402

TOKENS = 64
QUESTIONS = [
    "What is the capital of France?",
    "Explain why the sky is blue in two sentences.",
    "Write a haiku about autumn rain.",
    "List three uses of a paper clip.",
    "Translate 'good morning' into Spanish, German and Italian.",
    "Write a Python function that reverses a string.",
    "What is 17 plus 25? Explain step by step.",
    "Who wrote Romeo and Juliet, and when?",
    "Give me a recipe for pancakes.",
    "Summarise the water cycle for a child.",
    "What are the primary colours?",
    "Write a short story about a robot who learns to paint.",
    "How does a bicycle stay upright?",
    "Name five animals that live in the ocean.",
    "What is the difference between weather and climate?",
    "Write an email that asks for a day off.",
    "Explain recursion with an example.",
    "What should I pack for a weekend in the mountains?",
    "Why do leaves change colour in autumn?",
    "Tell me a joke about a cat and a keyboard.",
]


def peer_run(peer, ids):
    """The peer's greedy continuation: its logits per step."""
    peer.reset()
    peer.eval(ids)
    out = []
    for _ in range(TOKENS):
        logits = np.array(peer.scores[peer.n_tokens - 1], dtype=np.float64)
        out.append(logits)
        peer.eval([int(np.argmax(logits))])
    return out


def gap_and_deviation(peer, reference):
    """Of one step, from both logits f64[vocabulary]."""
    best, second = np.argsort(-peer, kind="stable")[:2]
    rivals = {int(second), int(np.argmax(reference))} - {int(best)}
    deviation = max(abs((peer[best] - peer[rival]) - (reference[best] - reference[rival])) for rival in rivals)
    return float(peer[best] - peer[second]), float(deviation)


def main():
    path = sys.argv[1]
    peer = Llama(path, n_ctx=512, n_threads=2, verbose=False, logits_all=True)
    reference = load_starter(path)
    runs = []
    for question in QUESTIONS:
        text = f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
        ids = peer.tokenize(text.encode(), add_bos=False, special=True)
        steps = peer_run(peer, ids)
        chosen = [int(np.argmax(step)) for step in steps]
        logits = reference_logits(reference, ids + chosen[:-1])[len(ids) - 1 :]
        measured = [gap_and_deviation(step, np.array(row, dtype=np.float64)) for step, row in zip(steps, logits, strict=True)]
        runs.append({
            "prompt": question,
            "prompt_ids": ids,
            "ids": chosen,
            "gaps": [round(gap, 4) for gap, _ in measured],
            "deviations": [round(deviation, 4) for _, deviation in measured],
        })
        print(f"{question!r}: deviation up to {max(deviation for _, deviation in measured):.4f}", flush=True)
    target = pathlib.Path(__file__).with_name("greedy.json")
    with target.open("w") as file:
        file.write("[\n" + ",\n".join(json.dumps(run) for run in runs) + "\n]\n")


if __name__ == "__main__":
    main()
