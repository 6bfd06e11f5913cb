"""Attention by exchanged texts of CUDA C, beside the library as it is, FlashAttention-3 and cuDNN, in one process: first right, then timed.

    python bench/attention_texts.py LIBRARY --nvrtc /usr/local/cuda/lib64/libnvrtc.so.13 --flash3 flash3.so \\
        --texts flat=target/flat --texts held=target/held --shapes 1x32x32x16384x64,4x16x16x4096x128c

What a change of the compiler or of a kernel is worth, before it is made: write the texts of all programs to a folder
(`TILE_NVRTC_REPORT=FOLDER cargo test --test nvrtc -- --ignored --exact compile::listing`), change the compiler or the files, write them to another
one. A text takes the place of the library's kernel of the same name; what the library left out of its kernel, an optional `sums`, is left out of the
text. Shapes are B x H x HK x S x D, `c` for causal. Each contender has a copy of the library of its own, with a libnvrtc (texts/shim.c,
built by gcc) that exchanges the text. A text that hangs is named after 30 seconds and takes no part. The method is that of harness/method.py.
"""
import argparse
import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend

import attention
from cookbook import Library
from harness.flash3 import Flash3
from harness.method import median, race, sets_for

CHANGE = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_char_p)
KEPT = []  # callbacks and texts, which C code points to


def exchanged(text, texts):
    """The text that takes the place of a kernel's; the same one where there is none of its name."""
    name = re.search(r"\n(tile_\w+)\(", text)
    found = name and texts.get(name.group(1).removesuffix("_no_sums"))
    if not found:
        return text
    signature = lambda of, name: of[(at := of.index("\n" + name + "(")):of.index("{\n", at)]
    found = found.replace(signature(found, name.group(1).removesuffix("_no_sums")), signature(text, name.group(1)))
    return re.sub(r"\n[^\n]* sums\[[^\n]*;", "", found) if name.group(1).endswith("_no_sums") else found


def library(args, folder, texts):
    """A copy of the library with an NVRTC of its own."""
    folder.mkdir(exist_ok=True)
    shim = folder / "libnvrtc.so.13"
    if not shim.exists():
        shutil.copy(args.library, folder / "library.so")
        source = Path(__file__).parent / "texts" / "shim.c"
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", shim, source, "-ldl"], check=True)
    os.environ |= {"TILE_NVRTC": str(shim), "TILE_CACHE_DIR": str(folder / "cache"), "SHIM_NVRTC": args.nvrtc}

    def change(text):
        KEPT.append(exchanged(text.decode(), texts).encode())
        return KEPT[-1]
    loaded, callback = ctypes.CDLL(str(shim)), CHANGE(change)
    KEPT.extend([loaded, callback])
    loaded.shim_set(callback)
    return Library(str(folder / "library.so"))


def launched(loaded, cases):
    """Compiles what the cases need, with the environment that the library was loaded in."""
    for case in cases:
        case.ours(loaded)(case.tensors("cuda"))
    torch.cuda.synchronize()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", help="libcookbook_for_python.so")
    parser.add_argument("--nvrtc", required=True, help="libnvrtc.so.13")
    parser.add_argument("--texts", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--shapes", required=True)
    parser.add_argument("--flash3")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out")
    parser.add_argument("--only-compile", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    args = parser.parse_args()
    cases = []
    for text in args.shapes.split(","):
        b, h, hk, s, d = map(int, text.removesuffix("c").split("x"))
        cases.append(attention.Case((b, h, hk, s, s, d), text.endswith("c")))
    folders = {"library": None, **dict(text.split("=", 1) for text in args.texts)}
    named = {}
    for name, folder in folders.items():
        files = Path(folder).glob("*.cu") if folder else []
        named[name] = {m.group(1): text for text in (f.read_text() for f in files) if (m := re.search(r"\n(tile_\w+)\(", text))}
    at = Path(args.folder or tempfile.mkdtemp())
    if args.only_compile:
        launched(library(args, at / args.only_compile, named[args.only_compile]), cases)
        os._exit(0)
    # In processes of their own: a text that hangs ends only itself.
    jobs = {name: subprocess.Popen([sys.executable, *sys.argv, "--folder", str(at), "--only-compile", name]) for name in named}
    libraries = {}
    for name, job in jobs.items():
        try:
            if job.wait(timeout=30):
                raise RuntimeError(f"status {job.returncode}")
            libraries[name] = library(args, at / name, named[name])
            launched(libraries[name], cases)
        except (subprocess.TimeoutExpired, RuntimeError) as problem:
            job.kill()
            print(f"{name} takes no part: {problem}", flush=True)
    flash3, rows = Flash3(args.flash3) if args.flash3 else None, []
    for case in cases:
        calls = {name: case.ours(loaded) for name, loaded in libraries.items()}
        if flash3 and case.shape[5] in (64, 128):
            calls["FA3"] = attention.flash3_call(flash3, case)
        cudnn = attention.torch_call(SDPBackend.CUDNN_ATTENTION, case.causal)
        calls["cuDNN"] = lambda t: cudnn(t["q"], t["k"], t["v"])
        size = sum(x.nbytes for x in case.tensors("cuda").values())
        sets, entries = [case.tensors("cuda") for _ in range(sets_for(size, 8))], {}
        for name, call in calls.items():
            try:
                attention.checked(call, case, sets[0])
            except ValueError as problem:
                print(f"{case.title}: {name} takes no part: {problem}", flush=True)
                continue
            entries[name] = attention.captured(call, sets)
        rates = {name: case.flops() / median(times) * 1e-6 for name, times in race(entries, args.rounds).items()}
        rows.append(dict(title=case.title, tflops=rates))
        print(f"| {case.title} | " + " | ".join(f"{name} {rate:.0f}" for name, rate in rates.items()) + " |", flush=True)
        del sets, entries
        torch.cuda.empty_cache()
        if args.out:
            Path(args.out).write_text(json.dumps(dict(device=torch.cuda.get_device_name(), command=sys.argv[1:], rows=rows), indent=1))


if __name__ == "__main__":
    main()
