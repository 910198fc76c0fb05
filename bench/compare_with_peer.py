"""exo against llama.cpp on one GGUF file: decode, prefill, and the time from the start of loading to the first token.

The two take turns (exo, peer, exo, peer, …), each measurement in a process of its own, and the best of the rounds counts,
so that a busy machine or a warm processor favours neither. Called by bench/compare.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STARTER = ROOT / "build/models/SmolLM2-135M-Instruct.Q4_1.gguf"
HIGHER_IS_BETTER = ("decode_tokens_per_s", "prefill_tokens_per_s")
LOWER_IS_BETTER = ("load_s", "first_token_s")


def measure_exo(options, threads):
    command = [ROOT / "build/release/exo", "bench", options.model, "--here", "--repeats", "1", "--threads", threads,
               "--prompt", options.prompt, "--generate", options.generate]
    output = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout
    return json.loads(output)


def measure_peer(options, threads):
    command = [sys.executable, __file__, options.model, "--peer", "--threads", threads, "--prompt", options.prompt,
               "--generate", options.generate]
    # A library's choice of kernels that is set for this machine must not slow the peer down.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OPENBLAS_")}
    output = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True, env=environment).stdout
    return json.loads(output.splitlines()[-1])


def peer_main(options):
    """One round of the peer, in this process; prints JSON."""
    from llama_cpp import Llama

    threads = int(options.threads)
    started = time.perf_counter()
    llama = Llama(options.model, n_ctx=options.prompt + options.generate + 8, n_threads=threads,
                  n_threads_batch=threads, n_batch=512, verbose=False)
    loaded = time.perf_counter()
    ids = [1000 + i for i in range(options.prompt)]
    llama.eval(ids)
    first = time.perf_counter()
    llama.reset()
    again = time.perf_counter()
    llama.eval(ids)
    fed = time.perf_counter()
    for i in range(options.generate):
        llama.eval([500 + i])
    done = time.perf_counter()
    print(json.dumps({
        "threads": threads, "load_s": loaded - started, "first_token_s": first - started,
        "prefill_tokens_per_s": options.prompt / (fed - again), "decode_tokens_per_s": options.generate / (done - fed),
    }))


def best(rounds):
    result = {"threads": rounds[0]["threads"]}
    for key in HIGHER_IS_BETTER:
        result[key] = max(entry[key] for entry in rounds)
    for key in LOWER_IS_BETTER:
        result[key] = min(entry[key] for entry in rounds)
    return result


def spread(rounds, key):
    """(max − min) / max over the rounds."""
    values = [entry[key] for entry in rounds]
    return (max(values) - min(values)) / max(values)


def compare(options):
    results = []
    for threads in map(int, options.threads.split(",")):
        exo_rounds, peer_rounds = [], []
        for turn in range(options.rounds):
            print(f"threads {threads}, round {turn + 1} of {options.rounds}", file=sys.stderr)
            exo_rounds.append(measure_exo(options, threads))
            peer_rounds.append(measure_peer(options, threads))
        exo, peer = best(exo_rounds), best(peer_rounds)
        ratios = {key: exo[key] / peer[key] for key in HIGHER_IS_BETTER + LOWER_IS_BETTER}
        spreads = {"exo": {key: spread(exo_rounds, key) for key in ratios},
                   "peer": {key: spread(peer_rounds, key) for key in ratios}}
        exo["bandwidth_share"] = max(entry["bandwidth_share"] for entry in exo_rounds)
        exo["peak_anonymous_bytes"] = max(entry["peak_anonymous_bytes"] for entry in exo_rounds)
        results.append({"threads": threads, "exo": exo, "peer": peer, "ratios": ratios, "spread": spreads})
    return results


def print_table(results, options):
    names = {"decode_tokens_per_s": "decode, tok/s", "prefill_tokens_per_s": f"prefill of {options.prompt}, tok/s",
             "load_s": "load, s", "first_token_s": "load to first token, s"}
    print(f"{'threads':>7}  {'':28} {'exo':>9} {'peer':>9} {'exo/peer':>9}   spread exo, peer")
    for result in results:
        for key, name in names.items():
            print(f"{result['threads']:>7}  {name:28} {result['exo'][key]:9.3f} {result['peer'][key]:9.3f}"
                  f" {result['ratios'][key]:9.2f}   {result['spread']['exo'][key]:4.0%}, {result['spread']['peer'][key]:4.0%}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default=str(STARTER), help="a GGUF file (default: the starter model)")
    parser.add_argument("--threads", default="1,2", help="thread counts (default 1,2)")
    parser.add_argument("--prompt", type=int, default=512, help="tokens of the prompt (default 512)")
    parser.add_argument("--generate", type=int, default=64, help="tokens to generate (default 64)")
    parser.add_argument("--rounds", type=int, default=5, help="turns, of which the best counts (default 5)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        peer_main(options)
        return
    results = compare(options)
    if options.json:
        print(json.dumps(results, indent=2))
    else:
        print_table(results, options)


if __name__ == "__main__":
    main()
