"""TileLang, and TileOPs' GEMV written in it. Every configuration of every shape costs seconds of compiling, so few are
entered. Importing this module fails where TileLang is not installed (`bench/peers_bundle.sh`)."""
import tilelang
import tilelang.language as T

from .contender import Contender

DTYPES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32"}


def tl_gemv(N, K, dt, BN, RT):
    """TileLang's own splitk_gemv_vectorized_tvm with the warp along K."""
    TK = 8

    @tilelang.jit
    def f(bn_, rt_):
        @T.prim_func
        def main(A: T.Tensor((K,), dt), B: T.Tensor((N, K), dt), C: T.Tensor((N,), dt)):
            with T.Kernel(T.ceildiv(N, BN), threads=(RT, BN)) as bn:
                tk = T.get_thread_binding(0)
                tn = T.get_thread_binding(1)
                Al = T.alloc_local((TK,), dt)
                Bl = T.alloc_local((TK,), dt)
                acc = T.alloc_local((1,), "float")
                T.clear(acc)
                for bk in T.serial(T.ceildiv(K, RT * TK)):
                    for k in T.vectorized(TK):
                        Al[k] = A[bk * RT * TK + tk * TK + k]
                        Bl[k] = B[bn * BN + tn, bk * RT * TK + tk * TK + k]
                    for k in T.serial(TK):
                        acc[0] += Al[k].astype("float") * Bl[k].astype("float")
                red = T.alloc_local((1,), "float")
                with T.attr(T.comm_reducer(lambda x, y: x + y, [T.cast(0, "float")]), "reduce_scope",
                            T.reinterpret(T.uint64(0), dtype="handle")):
                    T.evaluate(T.tvm_thread_allreduce(T.uint32(1), acc[0], True, red[0], tk, dtype="handle"))
                C[bn * BN + tn] = red[0]
        return main
    return f(BN, RT)


def tl_gemv_pipe(N, K, dt, BN, RT, NS):
    """TileOPs' pipelined GEMV (cp.async through shared memory)."""
    TK = 8
    BK = RT * TK

    @tilelang.jit
    def f(bn_, rt_, ns_):
        @T.prim_func
        def main(a: T.Tensor((K,), dt), b: T.Tensor((N, K), dt), c: T.Tensor((N,), dt)):
            with T.Kernel(T.ceildiv(N, BN), threads=(RT, BN)) as bn:
                tk = T.get_thread_binding(0)
                tn = T.get_thread_binding(1)
                acc = T.alloc_local((1,), "float")
                T.clear(acc)
                bs = T.alloc_shared((BN, BK), dt)
                al = T.alloc_local((TK,), dt)
                for bk in T.Pipelined(T.ceildiv(K, BK), num_stages=NS):
                    T.copy(b[bn * BN, bk * BK], bs, disable_tma=True)
                    for k in T.vectorized(TK):
                        al[k] = a[bk * BK + tk * TK + k]
                    for k in T.serial(TK):
                        acc[0] += al[k].astype("float") * bs[tn, tk * TK + k].astype("float")
                red = T.alloc_local((1,), "float")
                with T.attr(T.comm_reducer(lambda x, y: x + y, [T.cast(0, "float")]), "reduce_scope",
                            T.reinterpret(T.uint64(0), dtype="handle")):
                    T.evaluate(T.tvm_thread_allreduce(T.uint32(1), acc[0], True, red[0], tk, dtype="handle"))
                c[bn * BN + tn] = red[0]
        return main
    return f(BN, RT, NS)


def tl_gemm(M, N, K, dt, BM, BN, BK, st, th, persistent):
    sms = 132

    @tilelang.jit
    def f(m_, n_, k_, bm_, bn_, bk_, st_, th_, p_):
        @T.prim_func
        def plain(A: T.Tensor((M, K), dt), B: T.Tensor((N, K), dt), C: T.Tensor((M, N), dt)):
            with T.Kernel(T.ceildiv(N, BN), T.ceildiv(M, BM), threads=th) as (bx, by):
                As = T.alloc_shared((BM, BK), dt)
                Bs = T.alloc_shared((BN, BK), dt)
                Cl = T.alloc_fragment((BM, BN), "float")
                Cs = T.alloc_shared((BM, BN), dt)
                T.use_swizzle(panel_size=10)
                T.clear(Cl)
                for k in T.Pipelined(T.ceildiv(K, BK), num_stages=st):
                    T.copy(A[by * BM, k * BK], As)
                    T.copy(B[bx * BN, k * BK], Bs)
                    T.gemm(As, Bs, Cl, transpose_B=True)
                T.copy(Cl, Cs)
                T.copy(Cs, C[by * BM, bx * BN])

        @T.prim_func
        def pers(A: T.Tensor((M, K), dt), B: T.Tensor((N, K), dt), C: T.Tensor((M, N), dt)):
            with T.Kernel(sms, threads=th) as bid:
                As = T.alloc_shared((BM, BK), dt)
                Bs = T.alloc_shared((BN, BK), dt)
                Cl = T.alloc_fragment((BM, BN), "float")
                Cs = T.alloc_shared((BM, BN), dt)
                for bx, by in T.Persistent([T.ceildiv(M, BM), T.ceildiv(N, BN)], sms, bid):
                    T.clear(Cl)
                    for k in T.Pipelined(T.ceildiv(K, BK), num_stages=st):
                        T.copy(A[bx * BM, k * BK], As)
                        T.copy(B[by * BN, k * BK], Bs)
                        T.gemm(As, Bs, Cl, transpose_B=True)
                    T.copy(Cl, Cs)
                    T.copy(Cs, C[bx * BM, by * BN])
        return pers if persistent else plain
    return f(M, N, K, BM, BN, BK, st, th, persistent)


def lazily(build):
    """The kernel of a configuration, compiled when it is first prepared and shared by the buffer sets."""
    made = []

    def kernel():
        if not made:
            made.append(build())
        return made[0]

    return kernel


def contenders(problem):
    dtype = DTYPES[problem.dtype]
    found = []

    def enter(peer, label, build, names):
        kernel = lazily(build)

        def prepare(t):
            compiled, operands = kernel(), [t[n] for n in names]
            return lambda: compiled(*operands)

        found.append(Contender(peer, label, prepare))

    if problem.op == "gemv":
        n, k = problem.n, problem.k
        for bn in (1, 2, 4):
            enter("tilelang", str((bn, 32)), lambda bn=bn: tl_gemv(n, k, dtype, bn, 32), "xwy")
        for bn, stages in ((1, 3), (2, 3), (8, 2)):
            enter("tileops", str((bn, 32, stages)), lambda c=(bn, 32, stages): tl_gemv_pipe(n, k, dtype, *c), "xwy")
    else:
        m, n, k = problem.m, problem.n, problem.k
        if m >= 1024:
            configs = [(128, 256, 64, 3, 256, False), (256, 128, 64, 3, 256, False), (128, 128, 64, 4, 256, False),
                       (128, 256, 64, 3, 256, True)]
        else:
            configs = [(64, 128, 64, 4, 128, False), (64, 64, 128, 4, 128, False)]
        for config in configs:
            enter("tilelang", str(config), lambda c=config: tl_gemm(m, n, k, dtype, *c), "abc")
    return found
