"""The logits of tile-llm beside those of transformers, for the same weights and tokens.

    tile-llm write-random tiny /tmp/tiny
    tile-llm logits --model /tmp/tiny --tokens 1,2,3 --out /tmp/logits.json
    python bench/llm_truth.py /tmp/tiny /tmp/logits.json --tokens 1,2,3

With --program PATH the script asks tile-llm for the logits itself, for random tokens. Needs torch and transformers; runs on
the CPU. The truth is transformers in float64; it prints the largest difference from it, of ours and of transformers in
float32 and bfloat16, each over the largest logit, and fails where ours is more than --most.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM


def logits_of(folder: str, tokens: list[int], dtype: torch.dtype) -> torch.Tensor:
    """transformers' logits, [tokens, vocab], with attention in its plainest form."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager")
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0].double()


def ours_by(program: str, folder: str, tokens: list[int]) -> torch.Tensor:
    """The logits that tile-llm writes."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "logits.json"
        named = ",".join(map(str, tokens))
        subprocess.run([program, "logits", "--model", folder, "--tokens", named, "--out", str(out)], check=True)
        return torch.tensor(json.loads(out.read_text()), dtype=torch.float64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="config.json and model.safetensors")
    parser.add_argument("logits", nargs="?", help="the file that `tile-llm logits` wrote for --tokens")
    parser.add_argument("--tokens", help="the tokens, separated by commas")
    parser.add_argument("--program", help="tile-llm, to be run by this script")
    parser.add_argument("--length", type=int, default=100, help="random tokens, without --tokens")
    parser.add_argument("--most", type=float, default=2e-5, help="the largest difference allowed, over the largest logit")
    args = parser.parse_args()
    if bool(args.logits) == bool(args.program) or (args.logits and not args.tokens):
        parser.error("either a file of logits and --tokens, or --program")

    vocab = json.loads((Path(args.folder) / "config.json").read_text())["vocab_size"]
    draw = random.Random(0)
    drawn = [draw.randrange(vocab) for _ in range(args.length)]
    tokens = [int(token) for token in args.tokens.split(",")] if args.tokens else drawn
    if args.program:
        ours = ours_by(args.program, args.folder, tokens)
    else:
        ours = torch.tensor(json.loads(Path(args.logits).read_text()), dtype=torch.float64)

    truth = logits_of(args.folder, tokens, torch.float64)
    if ours.shape != truth.shape:
        sys.exit(f"ours have shape {list(ours.shape)}, transformers' {list(truth.shape)}")
    scale = truth.abs().max()

    def off(other: torch.Tensor) -> float:
        return float((other - truth).abs().max() / scale)

    agree = (ours.argmax(-1) == truth.argmax(-1)).sum()
    print(f"{args.folder}: {len(tokens)} positions, largest logit {float(scale):.3f}")
    print(f"  ours                  {off(ours):.2e}, the likeliest token at {int(agree)} positions")
    for name, dtype in [("float32", torch.float32), ("bfloat16", torch.bfloat16)]:
        print(f"  transformers {name:<8} {off(logits_of(args.folder, tokens, dtype)):.2e}")
    if not off(ours) <= args.most:
        sys.exit(f"ours differ by more than {args.most}")


if __name__ == "__main__":
    main()
