//! What a kernel asks of its callers: a problem that was drawn is made one that it serves.

use super::problem::{Problem, Table};
use super::source::Source;
use tile_ir::ir::{BinaryOp, ExprId, ExprKind, Kernel};
use tile_ir::sim::numeric;

/// What a kernel asks of its callers that no `require` says: counters and partial results as many as there are blocks, no more
/// columns than a block has, places that are in what they index. What it needs to do anything: a range that is not empty. And
/// extents that a `require` makes of others, which a draw would seldom hit.
pub fn fit(source: &Source, kernel: &Kernel, instance: usize, problem: &mut Problem) {
    let consts = &kernel.instances[instance].consts;
    own(source, &Constants { kernel, consts }, problem);
    derived(kernel, consts, problem);
}

/// The constants of an instance by name.
struct Constants<'a> {
    kernel: &'a Kernel,
    consts: &'a [i64],
}

impl Constants<'_> {
    fn get(&self, name: &str) -> i64 {
        let place = self.kernel.consts.values().position(|c| c.name == name);
        place.and_then(|at| self.consts.get(at)).copied().unwrap_or(1).max(1)
    }

    fn is_set(&self, name: &str) -> bool {
        let place = self.kernel.consts.values().position(|c| c.name == name);
        place.and_then(|at| self.consts.get(at)).is_some_and(|value| *value != 0)
    }
}

/// What single kernels ask.
fn own(source: &Source, constants: &Constants<'_>, problem: &mut Problem) {
    let constant = |name: &str| constants.get(name);
    let dim = |name: &str| problem.dim(name);
    let ceil = |value: i64, by: i64| (value + by - 1) / by;
    let scalar = |name: &str| problem.scalars.get(name).copied().unwrap_or(0);
    let (mut scalars, mut tables) = (vec![], vec![]);
    let dims = match source.id.rsplit("::").next().unwrap_or_default() {
        "split_k" => vec![("TM", ceil(dim("M"), 32)), ("TN", ceil(dim("N"), 32))],
        "stay" => vec![("B", ceil(dim("M"), constant("BM")))],
        "product" => vec![("S", ceil(dim("M"), 64)), ("T", ceil(dim("N"), constant("BN")))],
        "rows_and_columns" => vec![("B", ceil(dim("M"), 32)), ("N", dim("N").min(64))],
        "scalars" => {
            scalars.extend([("first", 0), ("last", 4)]);
            vec![]
        }
        "strided" => {
            scalars.push(("step", 3));
            vec![]
        }
        "roots" => vec![("B", ceil(dim("N"), 64))],
        "embedding_rows" => {
            tables.push(("tokens", Table::Below(dim("V"))));
            vec![]
        }
        "gather_rows" => {
            tables.push(("places", Table::Below(dim("R"))));
            vec![]
        }
        "rotate_half" => {
            tables.push(("positions", Table::Below(dim("P"))));
            vec![]
        }
        "sum_segments" => {
            tables.push(("offsets", Table::Cuts(dim("N"))));
            vec![]
        }
        "top_k_rows" => {
            let n = dim("N").min(32 * constant("PER"));
            vec![("N", n), ("K", dim("K").min(n))]
        }
        "chunk_sums" | "scan_chunks" => {
            let tiles = scalar("tiles").max(1);
            scalars.push(("tiles", tiles));
            vec![("C", ceil(dim("N"), 1024 * tiles))]
        }
        // A row has up to 32 blocks of 1,024 threads.
        "argmax_rows" | "sample_rows" => vec![("S", dim("S").min(20))],
        "gemm_slots" => {
            scalars.push(("slots", 1 + scalar("slots") % constant("S")));
            vec![]
        }
        "gemm_partial" | "gemm_partial_copied" => vec![("S", 1 + dim("S") % 5)],
        "add_partial" => vec![("S", 1 + dim("S") % 20)],
        // A tile of few rows and columns has many parts, so that there are not more blocks than there is room for.
        "gemm_parts" => {
            let tiles = ceil(dim("M"), constant("BM")) * ceil(dim("N"), constant("BN"));
            scalars.push(("slots", 1 + scalar("slots") % (1056 / tiles).clamp(1, 8)));
            vec![]
        }
        "gemv_lines" => {
            scalars.extend([("start", scalar("start") % constant("VEC")), ("before", scalar("before") % 2)]);
            vec![("M", ceil(dim("N") * dim("K"), constant("VEC")) + 2)]
        }
        "gemv_ring" => {
            scalars.push(("rows", 1 + scalar("rows") % constant("MOST")));
            vec![]
        }
        "gemv_norm_stream" => vec![("N", if constants.is_set("GLU") { 2 * dim("R") } else { dim("R") })],
        "append_heads" => {
            let (s, page, vec) = (dim("S").min(40), 1 + dim("PAGE") % 16, constant("VEC"));
            let pages = ceil(s, page) + 1;
            let half = (dim("HALF") / vec).clamp(1, constant("LANES") * constant("VECS")) * vec;
            // Two tokens in one slot would race.
            tables.extend([("positions", Table::Below(dim("P"))), ("slots", Table::Distinct(pages * page))]);
            let (h, hk) = (1 + dim("H") % 5, 1 + dim("HK") % 3);
            vec![("S", s), ("PAGE", page), ("PAGES", pages), ("HALF", half), ("H", h), ("HK", hk)]
        }
        "causal_attention" => {
            let (hk, m) = (1 + dim("HK") % 2, dim("M").min(200));
            vec![("HK", hk), ("H", hk * (1 + dim("H") % 2)), ("M", m), ("N", m + scalar("past"))]
        }
        // Windows of 0 to 160 keys on either side: they begin and end inside of tiles of keys.
        "forward_options" => {
            let (hk, group) = (1 + dim("HK") % 2, 1 + dim("H") % 2);
            scalars.extend([("group", group), ("left", 40 * scalar("left")), ("right", 40 * scalar("right"))]);
            // More than one step of keys, which a draw of little work would seldom have.
            let n = constant("BN") * (1 + dim("N") % 2) + dim("N") % 40;
            let (b, m) = (1 + dim("B") % 2, dim("M").min(300));
            vec![("HK", hk), ("H", hk * group), ("B", b), ("M", m), ("N", n)]
        }
        "packed" => {
            let (hk, group, s, k) = (1 + dim("HK") % 2, 1 + dim("H") % 2, dim("S").min(300), dim("K").min(300));
            scalars.extend([("group", group), ("left", 40 * scalar("left")), ("right", 40 * scalar("right"))]);
            // Two halvings leave one of up to four sequences.
            scalars.extend([("sequences", 1 + scalar("sequences") % 4), ("halvings", 2)]);
            tables.extend([("first_query", Table::Cuts(s)), ("first_key", Table::Cuts(k))]);
            vec![("HK", hk), ("H", hk * group), ("S", s), ("K", k)]
        }
        "prefill" => {
            let (hk, s, page) = (dim("HK").min(2), dim("S").min(300), constant("BN") * (1 + dim("PAGE") % 2));
            let past = 20 * scalar("past");
            let (width, l) = (hk * constant("D") * (1 + dim("W") % 2), ceil(past + s, page));
            scalars.push(("past", past));
            tables.push(("pages", Table::Below(l + 1)));
            let h = hk * constant("GROUP") * (1 + dim("H") % 2);
            vec![("HK", hk), ("H", h), ("S", s), ("W", width), ("PAGE", page), ("L", l), ("P", l + 1)]
        }
        "decode" | "append_decode" => {
            let (hk, b, l) = (dim("HK").min(2), dim("B").min(2), 2);
            let (h, s) = (hk * (1 + dim("H") % 4), dim("S").min(6));
            let (page, p) = (constant("WARPS") * constant("BN") * (1 + dim("PAGE") % 2), b * l + 1);
            scalars.push(("tiles", ceil(s * h / hk, 16)));
            tables.extend([("first", Table::Cuts(s)), ("lengths", Table::Below(l * page + 1))]);
            // Two sequences that append to one page would race.
            tables.push(("pages", Table::Distinct(p)));
            vec![("HK", hk), ("H", h), ("B", b), ("S", s), ("PAGE", page), ("L", l), ("P", p)]
        }
        _ => vec![],
    };
    let owned = |(name, value): (&str, i64)| (name.to_owned(), value);
    problem.dims.extend(dims.into_iter().map(owned));
    problem.scalars.extend(scalars.into_iter().map(owned));
    problem.tables.extend(tables.into_iter().map(|(name, table)| (name.to_owned(), table)));
}

/// Extents that are made of others: `Extent<{ 2 * K }>`, `require(E == S + 1)`.
fn derived(kernel: &Kernel, consts: &[i64], problem: &mut Problem) {
    for require in &kernel.requires {
        if let ExprKind::Binary(BinaryOp::Eq, left, right) = kernel.exprs[require.cond].kind
            && let ExprKind::Dim(dim) = kernel.exprs[left].kind
            && let Some(value) = value(kernel, consts, problem, right)
        {
            problem.dims.insert(kernel.dims[dim].name.clone(), value.max(1));
        }
    }
}

/// An expression of dims, constants and scalars; None of anything else.
fn value(kernel: &Kernel, consts: &[i64], problem: &Problem, expr: ExprId) -> Option<i64> {
    match &kernel.exprs[expr].kind {
        ExprKind::Int(value) => Some(*value),
        ExprKind::Dim(dim) => Some(problem.dim(&kernel.dims[*dim].name)),
        ExprKind::Const(constant) => consts.get(kernel.consts.keys().position(|other| other == *constant)?).copied(),
        ExprKind::Scalar(param) => problem.scalars.get(&kernel.params[*param].name).copied(),
        ExprKind::Binary(op, a, b) => {
            let (a, b) = (value(kernel, consts, problem, *a)?, value(kernel, consts, problem, *b)?);
            numeric::index_binary(*op, a, b)
        }
        _ => None,
    }
}
