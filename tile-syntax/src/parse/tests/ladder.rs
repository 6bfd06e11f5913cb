//! The GEMV of the language page and the rungs of the GEMV ladder.

use super::*;

const GEMV: &str = r#"
/// y = W x: a warp per row, 16-byte loads, reduction by shuffles.
#[tile_kernel(instances(ROWS in [1, 2, 4, 8, 16]), require(K % (128 / T::BITS) == 0))]
pub fn gemv<T: Float, const ROWS: usize>(
    x: &Tensor<T, (K,)>,
    w: &Tensor<T, (N, K)>,
    y: &mut Tensor<T, (N,)>,
) {
    let vec = 128 / T::BITS;                              // immutable lets of constants are constants
    let [bn] = blocks([ceil_div(N, ROWS)]);               // gridDim / blockIdx
    let [tk, tn] = threads([32, ROWS]);                   // blockDim / threadIdx; x first: it varies within a warp
    let row = bn * ROWS + tn;

    let mut acc = 0.0f32;
    let mut xs = alloc_local::<T>([vec]);
    let mut ws = alloc_local::<T>([vec]);
    for bk in 0..ceil_div(K, 32 * vec) {
        for v in vectorized(0..vec) {                     // one 16-byte transaction, or a compile error
            xs[v] = x.masked([bk * 32 * vec + tk * vec + v]);          // 0 past the end
            ws[v] = w.masked([row, bk * 32 * vec + tk * vec + v]);
        }
        for v in unroll(0..vec) {
            acc += xs[v].cast::<f32>() * ws[v].cast::<f32>();
        }
    }
    let sum = thread_allreduce(Sum, acc, tk);             // over the threads that differ only in tk
    if tk == 0 && row < N { y[row] = sum.cast::<T>(); }
}
"#;

/// The rungs, bodies only: `A` is x, `B` is the matrix, `C` is y in the original.
const SIGNATURE: &str = "(a: &Tensor<T, (K,)>, b: &Tensor<T, (N, K)>, c: &mut Tensor<T, (N,)>)";

const NAIVE: &str = r#"
    let [bn] = blocks([ceil_div(N, BLOCK_N)]);
    let [tn] = threads([BLOCK_N]);
    let mut a_shared = alloc_shared::<T>([BLOCK_K]);
    let mut b_shared = alloc_shared::<T>([BLOCK_N, BLOCK_K]);
    let mut c_reg = alloc_local::<f32>([1]);
    clear(&mut c_reg);
    for bk in serial(0..ceil_div(K, BLOCK_K)) {
        if tn == 0 {
            for tk in 0..BLOCK_K { a_shared[tk] = a.masked([bk * BLOCK_K + tk]); }
        }
        for tk in serial(0..BLOCK_K) {
            b_shared[[tn, tk]] = b.masked([bn * BLOCK_N + tn, bk * BLOCK_K + tk]);
        }
        sync_threads();
        for tk in serial(0..BLOCK_K) {
            c_reg[0] += a_shared[tk].cast::<f32>() * b_shared[[tn, tk]].cast::<f32>();
        }
        sync_threads();
    }
    *c.masked_mut([bn * BLOCK_N + tn]) = c_reg[0].cast::<T>();
"#;

const SPLIT_K: &str = r#"
    let [bn] = blocks([ceil_div(N, BLOCK_N)]);
    let [tn, tk] = threads([BLOCK_N, BLOCK_K]);
    let mut a_local = alloc_local::<T>([1]);
    let mut b_local = alloc_local::<T>([1]);
    let mut c_accum = alloc_local::<f32>([1]);
    let mut c_shared = alloc_shared::<f32>([BLOCK_N]);
    if tk == 0 { c_shared[tn] = 0.0; }
    clear(&mut c_accum);
    for bk in serial(0..ceil_div(K, BLOCK_K)) {
        a_local[0] = a.masked([bk * BLOCK_K + tk]);
        b_local[0] = b.masked([bn * BLOCK_N + tn, bk * BLOCK_K + tk]);
        c_accum[0] += a_local[0].cast::<f32>() * b_local[0].cast::<f32>();
    }
    sync_threads();
    atomic_add(&mut c_shared[tn], c_accum[0]);
    sync_threads();
    if tk == 0 && bn * BLOCK_N + tn < N { c[bn * BLOCK_N + tn] = c_shared[tn].cast::<T>(); }
"#;

const REDUCE_THREADS: &str = r#"
    let tile_k = ceil_div(BLOCK_K, REDUCE);
    let [bn] = blocks([ceil_div(N, BLOCK_N)]);
    let [tn, tk] = threads([BLOCK_N, REDUCE]);
    let mut a_local = alloc_local::<T>([tile_k]);
    let mut b_local = alloc_local::<T>([tile_k]);
    let mut c_shared = alloc_shared::<f32>([BLOCK_N]);
    let mut c_accum = 0.0f32;
    if tk == 0 { c_shared[tn] = 0.0; }
    for bk in 0..ceil_div(K, BLOCK_K) {
        for k in serial(0..tile_k) {
            a_local[k] = a.masked([bk * BLOCK_K + tk * tile_k + k]);
            b_local[k] = b.masked([bn * BLOCK_N + tn, bk * BLOCK_K + tk * tile_k + k]);
        }
        for k in serial(0..tile_k) { c_accum += a_local[k].cast::<f32>() * b_local[k].cast::<f32>(); }
    }
    sync_threads();
    atomic_add(&mut c_shared[tn], c_accum);
    sync_threads();
    if tk == 0 && bn * BLOCK_N + tn < N { c[bn * BLOCK_N + tn] = c_shared[tn].cast::<T>(); }
"#;

/// The vectorised rung; the coalesced one differs in the order of the thread axes.
fn vectorised(threads: &str) -> String {
    format!(
        r#"
    let tile_k = 128 / T::BITS;
    let block_k = REDUCE * tile_k;
    let [bn] = blocks([ceil_div(N, BLOCK_N)]);
    {threads}
    let mut a_local = alloc_local::<T>([tile_k]);
    let mut b_local = alloc_local::<T>([tile_k]);
    let mut c_shared = alloc_shared::<f32>([BLOCK_N]);
    let mut c_accum = 0.0f32;
    if tk == 0 {{ c_shared[tn] = 0.0; }}
    for bk in 0..ceil_div(K, block_k) {{
        for k in vectorized(0..tile_k) {{
            a_local[k] = a.masked([bk * block_k + tk * tile_k + k]);
            b_local[k] = b.masked([bn * BLOCK_N + tn, bk * block_k + tk * tile_k + k]);
        }}
        for k in unroll(0..tile_k) {{ c_accum += a_local[k].cast::<f32>() * b_local[k].cast::<f32>(); }}
    }}
    sync_threads();
    atomic_add(&mut c_shared[tn], c_accum);
    sync_threads();
    if tk == 0 && bn * BLOCK_N + tn < N {{ c[bn * BLOCK_N + tn] = c_shared[tn].cast::<T>(); }}
"#
    )
}

const ALLREDUCE: &str = r#"
    let tile_k = 128 / T::BITS;
    let block_k = REDUCE * tile_k;
    let [bn] = blocks([ceil_div(N, BLOCK_N)]);
    let [tn, tk] = threads([BLOCK_N, REDUCE]);
    let mut a_local = alloc_local::<T>([tile_k]);
    let mut b_local = alloc_local::<T>([tile_k]);
    let mut c_accum = alloc_local::<f32>([1]);
    clear(&mut c_accum);
    for bk in 0..ceil_div(K, block_k) {
        for k in vectorized(0..tile_k) {
            a_local[k] = a.masked([bk * block_k + tk * tile_k + k]);
            b_local[k] = b.masked([bn * BLOCK_N + tn, bk * block_k + tk * tile_k + k]);
        }
        for k in unroll(0..tile_k) { c_accum[0] += a_local[k].cast::<f32>() * b_local[k].cast::<f32>(); }
    }
    let c_reduced = thread_allreduce(Sum, c_accum[0], tk);
    if tk == 0 && bn * BLOCK_N + tn < N { c[bn * BLOCK_N + tn] = c_reduced.cast::<T>(); }
"#;

/// Shared `x`: loaded once a block by a tile copy.
const SHARED_X: &str = r#"
    let tile_k = 128 / T::BITS;
    let block_k = REDUCE * tile_k;
    let [bn] = blocks([ceil_div(N, BLOCK_N)]);
    let [tk, tn] = threads([REDUCE, BLOCK_N]);
    let mut a_shared = alloc_shared::<T>([block_k]);
    let mut b_local = alloc_local::<T>([tile_k]);
    let mut c_accum = 0.0f32;
    for bk in 0..ceil_div(K, block_k) {
        copy(a.at([bk * block_k]), &mut a_shared);
        for k in vectorized(0..tile_k) {
            b_local[k] = b.masked([bn * BLOCK_N + tn, bk * block_k + tk * tile_k + k]);
        }
        for k in unroll(0..tile_k) { c_accum += a_shared[tk * tile_k + k].cast::<f32>() * b_local[k].cast::<f32>(); }
    }
    let c_reduced = thread_allreduce(Sum, c_accum, tk);
    if tk == 0 && bn * BLOCK_N + tn < N { c[bn * BLOCK_N + tn] = c_reduced.cast::<T>(); }
"#;

fn rung(consts: &str, instances: &str, body: &str) -> Kernel {
    valid(&format!("#[tile_kernel(instances({instances}))]\nfn rung<T: Float, {consts}>{SIGNATURE} {{{body}}}"))
}

#[test]
fn the_gemv_of_the_language_page() {
    let kernel = valid(GEMV);
    assert_eq!(kernel.name, "gemv");
    assert_eq!(kernel.dims.values().map(|d| d.name.as_str()).collect::<Vec<_>>(), ["K", "N"]);
    assert_eq!(kernel.instances.len(), 15);
    assert_eq!(
        kernel.instances[0],
        Instance { dtypes: vec![Dtype::F16], consts: vec![1], dims: vec![], absent: vec![], class: Class::WIDEST }
    );
    assert_eq!(
        kernel.instances[6],
        Instance { dtypes: vec![Dtype::Bf16], consts: vec![2], dims: vec![], absent: vec![], class: Class::WIDEST }
    );
    assert_eq!(
        kernel.instances[14],
        Instance { dtypes: vec![Dtype::F32], consts: vec![16], dims: vec![], absent: vec![], class: Class::WIDEST }
    );
    assert_eq!(kernel.targets, Target::ALL);
    assert_eq!(kernel.requires[0].text, "K % (128 / T::BITS) == 0");
    assert_eq!(kernel.grid.len(), 1);
    assert_eq!(kernel.threads.len(), 2);
    assert_eq!(kernel.vars[kernel.threads[1].var].kind, VarKind::Thread(1));
    let expected = "\
let vec: usize = (128 / T::BITS)
let row: usize = ((bn * ROWS) + tn)
let mut acc: f32 = 0.0f32
Local xs: T[vec]
Local ws: T[vec]
for bk in 0..(K ceil_div (32 * vec)) by 1 serial
  for v in 0..vec by 1 vectorized
    xs[v] = x[((((bk * 32) * vec) + (tk * vec)) + v)]?
    ws[v] = w[row, ((((bk * 32) * vec) + (tk * vec)) + v)]?
  for v in 0..vec by 1 unroll
    acc = (acc + (f32(xs[v]) * f32(ws[v])))
sum = reduce Sum acc over tk
if ((tk == 0) && (row < N))
  y[row] = T(sum)
";
    assert_eq!(print(&kernel), expected);
}

#[test]
fn places_are_the_authors() {
    let kernel = valid(GEMV);
    let source = &kernel.source;
    assert_eq!(source.line(14).map(str::trim), Some("let mut acc = 0.0f32;"));
    assert!(
        source.line(4).is_some_and(|line| line.starts_with("pub fn gemv<T: Float, const ROWS: usize>(")),
        "{source:?}"
    );
    let row = kernel.vars.values().find(|v| v.name == "row").unwrap();
    let span = kernel.spans[row.span];
    assert_eq!((span.line, span.column, span.end_column), (12, 9, 12));
    let text = source.line(span.line).unwrap();
    assert_eq!(&text[span.column as usize - 1..span.end_column as usize - 1], "row");
    // The whole access, first to last token.
    let access = kernel.accesses.values().find(|a| a.masked && a.indices.len() == 2).unwrap();
    let span = kernel.spans[access.span];
    let text = source.line(span.line).unwrap();
    let text = &text[span.column as usize - 1..span.end_column as usize - 1];
    assert_eq!(text, "w.masked([row, bk * 32 * vec + tk * vec + v])");
}

#[test]
fn naive() {
    let kernel = rung("const BLOCK_N: usize, const BLOCK_K: usize", "(BLOCK_N, BLOCK_K) in [(128, 128)]", NAIVE);
    let text = print(&kernel);
    assert!(text.contains("fill c_reg f32::Zero\n"), "{text}");
    assert!(text.contains("  sync_threads\n  for tk in 0..BLOCK_K by 1 serial\n"), "{text}");
    assert!(text.contains("c_reg[0] = (c_reg[0] + (f32(a_shared[tk]) * f32(b_shared[tn, tk])))\n"), "{text}");
    assert!(text.ends_with("c[((bn * BLOCK_N) + tn)]? = T(c_reg[0])\n"), "{text}");
    assert_eq!(kernel.buffers.values().filter(|b| b.scope == Scope::Shared).count(), 2);
}

#[test]
fn split_k_with_shared_atomics() {
    let kernel =
        rung("const BLOCK_N: usize, const BLOCK_K: usize", "(BLOCK_N, BLOCK_K) in [(4, 32), (8, 64)]", SPLIT_K);
    let text = print(&kernel);
    assert!(text.contains("sync_threads\natomic Add c_shared[tn] c_accum[0]\nsync_threads\n"), "{text}");
    assert!(text.contains("if (tk == 0)\n  c_shared[tn] = 0.0f32\n"), "{text}");
    assert_eq!(kernel.instances[1].consts, [8, 64]);
}

#[test]
fn split_k_with_reduce_threads() {
    let consts = "const BLOCK_N: usize, const BLOCK_K: usize, const REDUCE: usize";
    let instances = "(BLOCK_N, REDUCE) in [(4, 32), (8, 16)], BLOCK_K = 128 where BLOCK_N * REDUCE <= 1024";
    let kernel = rung(consts, instances, REDUCE_THREADS);
    // Values in the order of the parameters, whatever the order of the lists.
    assert_eq!(kernel.instances[0].consts, [4, 128, 32]);
    let text = print(&kernel);
    assert!(text.starts_with("let tile_k: usize = (BLOCK_K ceil_div REDUCE)\nLocal a_local: T[tile_k]\n"), "{text}");
    assert!(text.contains("c_accum = (c_accum + "), "{text}");
}

#[test]
fn vectorised_in_both_thread_orders() {
    let consts = "const BLOCK_N: usize, const REDUCE: usize";
    let instances = "BLOCK_N in [2, 4], REDUCE in [8, 32]";
    let slow = rung(consts, instances, &vectorised("let [tn, tk] = threads([BLOCK_N, REDUCE]);"));
    let fast = rung(consts, instances, &vectorised("let [tk, tn] = threads([REDUCE, BLOCK_N]);"));
    assert_eq!(print(&slow), print(&fast));
    assert_eq!(slow.vars[slow.threads[0].var].name, "tn");
    assert_eq!(fast.vars[fast.threads[0].var].name, "tk");
    let tuples: Vec<_> = slow.instances[..4].iter().map(|i| i.consts.clone()).collect();
    assert_eq!(tuples, [[2, 8], [2, 32], [4, 8], [4, 32]]);
    assert!(print(&slow).contains("for k in 0..tile_k by 1 vectorized\n"));
}

#[test]
fn allreduce_and_shared_x() {
    let consts = "const BLOCK_N: usize, const REDUCE: usize";
    let text = print(&rung(consts, "(BLOCK_N, REDUCE) in [(2, 32)]", ALLREDUCE));
    assert!(text.contains("c_reduced = reduce Sum c_accum[0] over tk\n"), "{text}");
    let text = print(&rung(consts, "(BLOCK_N, REDUCE) in [(2, 32)]", SHARED_X));
    assert!(text.contains("copy a@[(bk * block_k)]x[] -> a_shared@[]x[]\n"), "{text}");
}

/// The kernels of a file of this workspace.
fn kernels_of(items: &[syn::Item], found: &mut Vec<Parsed>) {
    for item in items {
        match item {
            syn::Item::Mod(module) => kernels_of(module.content.as_ref().map_or(&[][..], |(_, items)| items), found),
            syn::Item::Fn(function) => {
                let mut function = function.clone();
                let Some(at) = function.attrs.iter().position(|a| a.path().is_ident("tile_kernel")) else { continue };
                let attribute = match function.attrs.remove(at).meta {
                    syn::Meta::List(list) => list.tokens,
                    _ => TokenStream::new(),
                };
                found.push(kernel(attribute, quote::quote!(#function)));
            }
            _ => {}
        }
    }
}

#[test]
fn the_workspaces_kernels_are_read() {
    for (file, count) in
        [("../src/ladder/kernels.rs", 7), ("../cookbook/src/softmax.rs", 1), ("../tests/wrong_kernels.rs", 14)]
    {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut found = vec![];
        kernels_of(&syn::parse_file(&text).unwrap().items, &mut found);
        assert!(found.len() >= count, "{file}: {}", found.len());
        for parsed in found {
            let said = parsed.diagnostics.iter().chain(&parsed.deferred);
            let said: Vec<String> = said.map(|d| d.compiler_text(&parsed.kernel)).collect();
            assert!(said.is_empty() && parsed.body_resolved, "{file}: {}: {}", parsed.kernel.name, said.join("\n"));
            // What is read can be bound: every name and type is in its place.
            for instance in &parsed.kernel.instances {
                let bound = tile_ir::lower::bind(&parsed.kernel, instance);
                assert!(bound.is_ok(), "{file}: {}: {:?}", parsed.kernel.name, bound.err());
            }
        }
    }
}

#[test]
fn an_expansion_is_quick_even_unoptimised() {
    // Here, as in a user's debug build, nothing is optimised; in rustc positions cost a little more.
    let tokens: TokenStream = GEMV.parse().unwrap();
    let (attribute, item) = split(tokens);
    let start = crate::repository::cpu();
    for _ in 0..20 {
        assert!(kernel(attribute.clone(), item.clone()).diagnostics.is_empty());
    }
    let each = (crate::repository::cpu() - start) / 20;
    assert!(each.as_millis() < 25, "reading the GEMV took {each:?}");
    println!("reading the GEMV takes {each:?}");
}
