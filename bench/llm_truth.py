"""The logits of tile-llm beside those of transformers, for the same weights and tokens.

    tile-llm write-random tiny /tmp/tiny
    tile-llm logits --model /tmp/tiny --device reference --tokens 1,2,3 --out /tmp/logits.json
    python bench/llm_truth.py /tmp/tiny /tmp/logits.json --tokens 1,2,3

With --program PATH the script asks tile-llm for the logits itself, for random tokens, of which the first --prompt are run
together and the others one at a time. Needs torch and transformers. The truth is transformers in float64 on the CPU, in float32
with --torch-device cuda.

It fails where ours differ from the truth by more than --most, relative to the largest logit; with --ratio R where at any
position ours are further from the truth than R times transformers in bfloat16, in the root of the mean square over the
vocabulary. In either case it fails where ours name another likeliest token at a position whose first two logits lie further
apart than twice the largest error of transformers in bfloat16 there.

    tile-llm write-random qwen3-8b /tmp/8b --layers 4
    python bench/llm_truth.py /tmp/8b --program tile-llm --length 150 --prompt 100 --torch-device cuda --ratio 1.5
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM


def logits_of(folder: str, tokens: list[int], dtype: torch.dtype, device: str) -> torch.Tensor:
    """transformers' logits, [tokens, vocab], with attention in its plainest form."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager").to(device)
    with torch.no_grad():
        return model(torch.tensor([tokens], device=device)).logits[0].double().cpu()


def ours_by(program: str, folder: str, tokens: list[int], prompt: int) -> torch.Tensor:
    """The logits that tile-llm writes."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "logits.safetensors"
        named = ",".join(map(str, tokens))
        command = [program, "logits", "--model", folder, "--tokens", named, "--prompt", str(prompt), "--out", str(out)]
        subprocess.run(command, check=True)
        return load_file(out)["logits"].double()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="config.json and model.safetensors")
    parser.add_argument("logits", nargs="?", help="the JSON file that `tile-llm logits` wrote for --tokens")
    parser.add_argument("--tokens", help="the tokens, separated by commas")
    parser.add_argument("--program", help="tile-llm, to be run by this script")
    parser.add_argument("--length", type=int, default=100, help="random tokens, without --tokens")
    parser.add_argument("--prompt", type=int, help="how many of the tokens are run together: all if not told")
    parser.add_argument("--torch-device", default="cpu", help="where transformers run")
    parser.add_argument("--most", type=float, help="the largest difference allowed, over the largest logit; 2e-5 without --ratio")
    parser.add_argument("--ratio", type=float, help="how much further off than transformers in bfloat16 ours may be")
    args = parser.parse_args()
    if bool(args.logits) == bool(args.program) or (args.logits and not args.tokens):
        parser.error("either a file of logits and --tokens, or --program")
    most = 2e-5 if args.most is None and args.ratio is None else args.most

    vocab = json.loads((Path(args.folder) / "config.json").read_text())["vocab_size"]
    draw = random.Random(0)
    drawn = [draw.randrange(vocab) for _ in range(args.length)]
    tokens = [int(token) for token in args.tokens.split(",")] if args.tokens else drawn
    if args.program:
        ours = ours_by(args.program, args.folder, tokens, args.prompt or len(tokens))
    else:
        ours = torch.tensor(json.loads(Path(args.logits).read_text()), dtype=torch.float64)

    on_cpu = args.torch_device == "cpu"
    truth = logits_of(args.folder, tokens, torch.float64 if on_cpu else torch.float32, args.torch_device)
    if ours.shape != truth.shape:
        sys.exit(f"ours have shape {list(ours.shape)}, transformers' {list(truth.shape)}")
    scale = truth.abs().max()

    def off(other: torch.Tensor) -> float:
        return float((other - truth).abs().max() / scale)

    def report(name: str, other: torch.Tensor) -> torch.Tensor:
        agree = int((other.argmax(-1) == truth.argmax(-1)).sum())
        print(f"  {name:<22} largest {off(other):.2e}, the likeliest token at {agree} positions")
        return (other - truth).square().mean(-1).sqrt()

    print(f"{args.folder}: {len(tokens)} positions, largest logit {float(scale):.3f}; differences over it")
    found = report("ours", ours)
    if on_cpu:
        report("transformers float32", logits_of(args.folder, tokens, torch.float32, args.torch_device))
    bf16 = logits_of(args.folder, tokens, torch.bfloat16, args.torch_device)
    other = report("transformers bfloat16", bf16)
    ratio = found / other
    print(f"  ours / transformers bfloat16, root mean square: median {float(ratio.median()):.2f}, at worst {float(ratio.max()):.2f}")
    # Positions whose likeliest token no error of that size changes.
    first, second = truth.topk(2, -1).values.unbind(-1)
    clear = first - second > 2 * (bf16 - truth).abs().amax(-1)
    equal = ours.argmax(-1) == truth.argmax(-1)
    print(f"  the likeliest token is clear at {int(clear.sum())} positions, and ours at {int((clear & equal).sum())} of them")
    if bool((clear & ~equal).any()):
        sys.exit("ours name another token where transformers in bfloat16 could not")
    if most is not None and not off(ours) <= most:
        sys.exit(f"ours differ by more than {most}")
    if args.ratio is not None and not float(ratio.max()) <= args.ratio:
        sys.exit(f"ours are more than {args.ratio} times as far off as transformers in bfloat16")


if __name__ == "__main__":
    main()
