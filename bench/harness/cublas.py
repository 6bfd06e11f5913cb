"""cuBLAS, as torch calls it."""
import torch

from .contender import Contender


def contenders(problem):
    torch.backends.cuda.matmul.allow_tf32 = problem.dtype == "tf32"
    if problem.op == "gemv":
        return [Contender("cublas", "torch.mv", lambda b: lambda: torch.mv(b["w"], b["x"], out=b["y"])),
                Contender("cublas", "torch.matmul",
                          lambda b: lambda: torch.matmul(b["x"][None], b["w"].T, out=b["y"][None]))]
    return [Contender("cublas", "torch.matmul", lambda t: lambda: torch.matmul(*problem.operands(t), out=t["c"]))]
