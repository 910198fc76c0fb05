"""Makes tests/golden/tokens: 2,200 texts (JSON strings, one a line) and the ids that the peer gives them.

usage: build/venv/bin/python tests/golden/make_tokens.py STARTER.gguf SECOND.gguf

The peer is llama.cpp's tokenizer of each model through llama-cpp-python; no special tokens are added, special text is parsed.
No text holds U+2581, which is an added token of Gemma 3 in its own tokenizer.json and not in the peer.
"""

import json
import pathlib
import random
import sys

from llama_cpp import Llama

# Code, emoji with joiners and flags, several scripts, combining marks, runs of white space, look-alikes of special tokens.
PIECES = [
    'def f(x):\n    return x**2  # sq\n',
    '\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466\U0001f3f3\ufe0f\u200d\U0001f308\U0001f1e9\U0001f1ea\U0001f1ef\U0001f1f5',
    '\u6f22\u5b57\u304b\u306a\u4ea4\u3058\u308a\u6587\u3002\u4e2d\u6587\u6d4b\u8bd5\uff0c\ud55c\uad6d\uc5b4',
    '\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645',
    '\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd \u05e2\u05b2\u05dc\u05b5\u05d9\u05db\u05b6\u05dd',
    '\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e \u0915\u094d\u0937\u093f',
    '\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01',
    'e\u0301a\u0308n\u0303',
    '     ',
    '\n\n\n\n',
    '\t\t\t',
    '\r\n\r\n',
    '1234567890',
    '0000 12 345',
    '<|im_start|>',
    '<|im_end|>',
    '<|endoftext|>',
    '<|im_start',
    '|im_end|>',
    '<think>',
    "it'S we'LL \u017f '\u017f I'm 've 'RE",
    ' ',
    '  a',
    'a  ',
    '\xa0\u2003',
    '\u200b\ufeff',
    '\ufb01 \xc5',
    '!?\u2026\u2014\xab\xbb',
    '$1,234.56',
    'https://a.b/c?d=e&f',
    '\\u0041 \\n',
    'x=y;{z}[]',
    '\u03a9\u03bc\u03ad\u03b3\u03b1 \u041f\u0440\u0438\u0432\u0435\u0442',
    '\U0001d518\U0001d52b\U0001d526 \U00010348',
    '\x00\x01\x7f',
    '\u2177\xb2\xbd',
    '\u0300\u0301',
    '<repo_name><file_sep>',
    "'",
    '""',
    '<start_of_turn>user',
    '<end_of_turn>',
    '<bos><eos><pad><unk>',
    '<start_of_turn',
    '<0x0A>',
    '<table><tr><td>1</td></tr></table>',
    '<h1></h1> <b>',
    '<unused17>[multimodal]',
    '        return self',
    '\n\t\t\tif x:\n\t\t\t\ty\n',
    ' ' * 33,
    '\n' * 35,
    '\t' * 32,
    '\U000e0041\U0010fffd\u2fff\ue000',
]
WORDS = (
    "the of and To in a IS that for it was ON are as with his they I at be This have from or one had by word but not what all were "
    "we when your can said"
).split()
RANGES = [(32, 0x2FF), (0x370, 0x1FFF), (0x2000, 0xD7FF), (0x1F300, 0x1FAFF)]


def texts(count):
    r = random.Random(7)
    out = list(PIECES)
    while len(out) < count:
        parts = r.randint(1, 6)
        text = "".join(
            r.choice(PIECES) if r.random() < 0.6 else r.choice([" ", "  ", "\n", ""]) + r.choice(WORDS) for _ in range(parts)
        )
        if r.random() < 0.15:
            text += r.choice(" \n\t\r") * r.randint(1, 40)
        if r.random() < 0.15:
            text += "".join(chr(r.choice([r.randint(*span) for span in RANGES])) for _ in range(r.randint(1, 8)))
        out.append(text)
    return out


def main():
    folder = pathlib.Path(__file__).with_name("tokens")
    corpus = [text for text in texts(2200) if "\u2581" not in text]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(text, ensure_ascii=False) + "\n" for text in corpus))
    for name, path in zip(("starter", "second"), sys.argv[1:3], strict=True):
        peer = Llama(model_path=path, vocab_only=True, verbose=False)
        with (folder / f"{name}.jsonl").open("w") as ids:
            for text in corpus:
                ids.write(json.dumps(peer.tokenize(text.encode(), add_bos=False, special=True), separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
