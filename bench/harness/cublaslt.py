"""cuBLASLt: every algorithm that its own heuristics propose, so that the race finds the best a user could get."""
import ctypes
import functools

import torch

from .contender import Contender

WORKSPACE = 64 << 20
REQUESTED = 32
CUDA_R = {"f32": 0, "tf32": 0, "f16": 2, "bf16": 14}
COMPUTE_32F, COMPUTE_32F_FAST_TF32 = 68, 77
OP_N, OP_T = 0, 1
DESC_TRANSA, DESC_TRANSB, DESC_EPILOGUE, DESC_BIAS_POINTER = 3, 4, 7, 8
LAYOUT_BATCH_COUNT, LAYOUT_STRIDED_BATCH_OFFSET = 5, 6
EPILOGUES = {"bias": 4, "relu": 6, "gelu": 36}
PREF_MAX_WORKSPACE_BYTES = 1


class Algorithm(ctypes.Structure):
    _fields_ = [("data", ctypes.c_uint64 * 8)]


class HeuristicResult(ctypes.Structure):
    _fields_ = [("algo", Algorithm), ("workspace", ctypes.c_size_t), ("state", ctypes.c_int),
                ("waves", ctypes.c_float), ("reserved", ctypes.c_int * 4)]


@functools.cache
def library():
    """cuBLASLt of the toolkit that torch was built for, which torch has loaded."""
    major = (torch.version.cuda or "13").split(".")[0]
    lt = ctypes.CDLL(f"libcublasLt.so.{major}")
    handle = ctypes.c_void_p()
    check(lt.cublasLtCreate(ctypes.byref(handle)), "cublasLtCreate")
    workspace = torch.empty(WORKSPACE, device="cuda", dtype=torch.uint8)
    return lt, handle, workspace


def check(status, what):
    if status:
        raise RuntimeError(f"{what}: cuBLAS status {status}")


def put(call, made, attribute, value):
    """Sets an attribute of a description or a layout."""
    check(call(made, attribute, ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value))), f"attribute {attribute}")


class Matmul:
    """C[M,N] = A B in row-major order, which is column-major C^T = B^T A^T. `layout`: whether a is stored as K x M, b as N x K (`t`);
    `pitches`: elements from row to row of a, b and c, where rows are apart; `batches`: how many matrices lie one behind the other;
    `epilogue`: `bias`, or `relu` or `gelu` of the sum with it. cuBLASLt adds a bias to every column of C^T, which is a row of C."""

    def __init__(self, m, n, k, dtype, layout="nt", pitches=None, batches=1, epilogue=None):
        lt, handle, _ = library()
        data = ctypes.c_int(CUDA_R[dtype])
        compute = COMPUTE_32F_FAST_TF32 if dtype == "tf32" else COMPUTE_32F
        self.desc = ctypes.c_void_p()
        check(lt.cublasLtMatmulDescCreate(ctypes.byref(self.desc), compute, CUDA_R["f32"]), "descriptor")
        a_shape, b_shape = (k, m) if layout[0] == "n" else (m, k), (n, k) if layout[1] == "n" else (k, n)
        lda, ldb, ldc = pitches or (a_shape[0], b_shape[0], n)
        for attribute, operation in ((DESC_TRANSA, OP_N if layout[1] == "n" else OP_T), (DESC_TRANSB, OP_N if layout[0] == "n" else OP_T)):
            put(lt.cublasLtMatmulDescSetAttribute, self.desc, attribute, ctypes.c_int32(operation))
        if epilogue:
            put(lt.cublasLtMatmulDescSetAttribute, self.desc, DESC_EPILOGUE, ctypes.c_int32(EPILOGUES[epilogue]))
        self.a, self.b, self.c = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        for made, (rows, columns), pitch in ((self.a, b_shape, ldb), (self.b, a_shape, lda), (self.c, (n, m), ldc)):
            check(lt.cublasLtMatrixLayoutCreate(ctypes.byref(made), data, ctypes.c_uint64(rows),
                                                ctypes.c_uint64(columns), ctypes.c_int64(pitch)), "layout")
            if batches > 1:
                put(lt.cublasLtMatrixLayoutSetAttribute, made, LAYOUT_BATCH_COUNT, ctypes.c_int32(batches))
                put(lt.cublasLtMatrixLayoutSetAttribute, made, LAYOUT_STRIDED_BATCH_OFFSET, ctypes.c_int64(rows * columns))
        preference = ctypes.c_void_p()
        check(lt.cublasLtMatmulPreferenceCreate(ctypes.byref(preference)), "preference")
        put(lt.cublasLtMatmulPreferenceSetAttribute, preference, PREF_MAX_WORKSPACE_BYTES, ctypes.c_size_t(WORKSPACE))
        results = (HeuristicResult * REQUESTED)()
        count = ctypes.c_int()
        check(lt.cublasLtMatmulAlgoGetHeuristic(handle, self.desc, self.a, self.b, self.c, self.c, preference,
                                                REQUESTED, results, ctypes.byref(count)), "heuristics")
        lt.cublasLtMatmulPreferenceDestroy(preference)
        self.results = [r for r in results[:count.value] if r.state == 0]

    def prepare(self, index, a, b, c, bias=None):
        lt, handle, workspace = library()
        alpha, beta = ctypes.c_float(1), ctypes.c_float(0)
        vp = ctypes.c_void_p
        pointers = [vp(t.data_ptr()) for t in (a, b, c)]
        algorithm, kept = self.results[index].algo, (a, b, c, bias, self.results)

        def call(kept=kept):
            if bias is not None:
                put(lt.cublasLtMatmulDescSetAttribute, self.desc, DESC_BIAS_POINTER, vp(bias.data_ptr()))
            pa, pb, pc = pointers
            check(lt.cublasLtMatmul(handle, self.desc, ctypes.byref(alpha), pb, self.a, pa, self.b, ctypes.byref(beta),
                                    pc, self.c, pc, self.c, ctypes.byref(algorithm), vp(workspace.data_ptr()),
                                    ctypes.c_size_t(WORKSPACE), vp(torch.cuda.current_stream().cuda_stream)),
                  "cublasLtMatmul")

        return call


def contenders(problem):
    if problem.op == "gemv":
        matmul = Matmul(1, problem.n, problem.k, problem.dtype)
        names = ("x", "w", "y")
    else:
        matmul = Matmul(problem.m, problem.n, problem.k, problem.dtype)
        names = ("a", "b", "c")
    return [Contender("cublaslt", f"heuristic {i}", lambda t, i=i: matmul.prepare(i, *(t[n] for n in names)), chosen=i == 0)
            for i in range(len(matmul.results))]
