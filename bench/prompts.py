"""Prompts of a Qwen3-8B-shaped model: `tile-llm` and the same model compiled by PyTorch, in turn on one GPU.

    python bench/prompts.py target/release/tile-llm [--tokens 4096,16384] [--rounds 2] [--prompts 5] [--step-tokens 4096] [--out FILE.json]

Both have random weights, all 36 layers and bf16. PyTorch's is `torch.compile` of a layer, which all layers share, with cuDNN's or with FlashAttention's attention; a layer
begins with the addition that ends the one before, so that it is fused with the norm as it would be in one graph. In each round each model runs the prompt once, then
`--prompts` times one after the other, and the median counts: a whole prompt takes long enough for the power limit to matter, which a few layers alone would not meet.
`tile-llm bench` is a process of its own, which runs while this one has nothing to do.
"""
import argparse
import json
import re
import subprocess
import sys
import time
from statistics import median

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

WIDTH, HEADS, KEY_HEADS, HEAD, HIDDEN, VOCABULARY, LAYERS = 4096, 32, 8, 128, 12288, 151936, 36
BACKENDS = dict(cuDNN=SDPBackend.CUDNN_ATTENTION, flash=SDPBackend.FLASH_ATTENTION)


def norm(x, w):
    y = x.float()
    return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).bfloat16() * w


def rotated(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).bfloat16()


def layer(x, add, w, keys, values, cos, sin):
    """The stream behind the layer's first half, and what its second half adds to it."""
    x, n = x + add, x.shape[1]
    q, k, v = F.linear(norm(x, w["n1"]), w["qkv"]).split([HEADS * HEAD, KEY_HEADS * HEAD, KEY_HEADS * HEAD], -1)
    q = rotated(norm(q.view(1, n, HEADS, HEAD), w["qn"]).transpose(1, 2), cos, sin)
    k = rotated(norm(k.view(1, n, KEY_HEADS, HEAD), w["kn"]).transpose(1, 2), cos, sin)
    v = v.view(1, n, KEY_HEADS, HEAD).transpose(1, 2)
    keys.copy_(k)
    values.copy_(v)
    a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    x = x + F.linear(a.transpose(1, 2).reshape(1, n, HEADS * HEAD), w["o"])
    gate, up = F.linear(norm(x, w["n2"]), w["gu"]).chunk(2, -1)
    return x, F.linear(F.silu(gate) * up, w["down"])


class Model:
    def __init__(self, tokens, layers):
        random = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16) * 0.02
        ones = lambda n: torch.ones(n, device="cuda", dtype=torch.bfloat16)
        self.weights = [dict(n1=ones(WIDTH), n2=ones(WIDTH), qn=ones(HEAD), kn=ones(HEAD), qkv=random((HEADS + 2 * KEY_HEADS) * HEAD, WIDTH),
                             o=random(WIDTH, HEADS * HEAD), gu=random(2 * HIDDEN, WIDTH), down=random(WIDTH, HIDDEN)) for _ in range(layers)]
        self.cache = [[torch.zeros(1, KEY_HEADS, tokens, HEAD, device="cuda", dtype=torch.bfloat16) for _ in range(2)] for _ in range(layers)]
        self.norm, self.head, self.embedding = ones(WIDTH), random(VOCABULARY, WIDTH), random(VOCABULARY, WIDTH)
        angles = torch.arange(tokens, device="cuda")[:, None] / 1e6 ** (torch.arange(0, HEAD, 2, device="cuda") / HEAD)
        self.cos, self.sin = angles.cos(), angles.sin()

    def prompt(self, tokens, compiled):
        x = self.embedding[tokens]
        add = torch.zeros_like(x)
        for weights, cache in zip(self.weights, self.cache):
            x, add = compiled(x, add, weights, *cache, self.cos, self.sin)
        return F.linear(norm((x + add)[:, -1:], self.norm), self.head).argmax(-1)


def milliseconds(run, times):
    """The median of so many runs, each begun when the one before is done and its token is known."""
    run()
    found = []
    for _ in range(times):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        run()
        torch.cuda.synchronize()
        found.append((time.perf_counter() - begun) * 1e3)
    return median(found)


def ours(args, tokens):
    command = [args.program, "bench", "--random", "qwen3-8b", "--layers", args.layers, "--context", tokens, "--prompts", args.prompts, "--steps", 1, "--warm-up", 0,
               "--step-tokens", args.step_tokens]
    text = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout
    row = re.search(rf"^\| 1 \| {tokens} \| ([\d.]+) \|", text, re.M)
    return float(row.group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="tile-llm")
    parser.add_argument("--tokens", default="4096,16384")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--prompts", type=int, default=5)
    parser.add_argument("--step-tokens", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=LAYERS, help="fewer than the model has, for a trial")
    parser.add_argument("--out")
    args = parser.parse_args()
    about, rows = dict(torch=torch.__version__, device=torch.cuda.get_device_name(), command=sys.argv[1:]), []
    for tokens in map(int, args.tokens.split(",")):
        model, found = Model(tokens, args.layers), {}
        ids = torch.randint(0, VOCABULARY, (1, tokens), device="cuda")
        torch._dynamo.reset()
        compiled = {name: torch.compile(layer, fullgraph=True, dynamic=False) for name in BACKENDS}
        for _ in range(args.rounds):
            found.setdefault("ours", []).append(ours(args, tokens))
            for name, backend in BACKENDS.items():
                with torch.no_grad(), sdpa_kernel(backend):
                    found.setdefault(name, []).append(milliseconds(lambda: model.prompt(ids, compiled[name]), args.prompts))
        found["ours"].append(ours(args, tokens))
        best = min(median(found[name]) for name in BACKENDS)
        rows.append(dict(tokens=tokens, ms=found, ratio=best / median(found["ours"])))
        print(f"{tokens} tokens: " + "; ".join(f"{name} {', '.join(f'{x:.1f}' for x in times)} ms" for name, times in found.items()), flush=True)
        print(f"{tokens} tokens: the faster of PyTorch's two takes {rows[-1]['ratio']:.3f} times as long as ours", flush=True)
        del model
        torch.cuda.empty_cache()
        if args.out:
            with open(args.out, "w") as file:
                json.dump(dict(about, rows=rows), file, indent=1)


if __name__ == "__main__":
    main()
