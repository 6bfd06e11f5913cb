//! Plain accesses that are neither proven in bounds nor guarded by the author: the compiler guards them, and a lint says
//! so while the author types, with the condition that would make the guard the author's own.
//!
//! An access that the author guards is proven by that guard, so what is left is what nobody thought of, or what only the
//! author can know: then `lints(TK0604 = "off")` says that it was thought of.

use super::Bound;
use super::finite;
use super::walk::Walk;
use crate::constraint::Poly;
use crate::diag::{Code, Diagnostic};
use crate::ir::{AccessId, BinaryOp, ExprId, ExprKind, Extent, ParamKind, Place};
use crate::text::written;

/// How the access that the walk is at is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Load,
    Store,
    /// An atomic or a counter: there is no masked form.
    Update,
}

/// Meets an access whose axes have these bounds: the lint, where one is neither proven nor an error.
pub(super) fn access(walk: &mut Walk<'_>, access: AccessId, used: Use, bounds: &[Bound], axes: &[(Poly, Poly)]) {
    let kernel = walk.kernel;
    let data = &kernel.accesses[access];
    if data.masked || bounds.contains(&Bound::Refuted) {
        return;
    }
    let (mut conditions, mut doubts) = (Vec::new(), Vec::new());
    let (mut open, mut of_launch) = (false, true);
    for (axis, (index, extent)) in axes.iter().enumerate().filter(|(axis, _)| bounds[*axis] == Bound::Unproven) {
        if walk.waits(index) || walk.waits(extent) {
            return;
        }
        let expr = data.indices[axis];
        let text = written(walk.kernel, expr);
        let below = extent.minus(index).and_then(|p| p.plus_constant(-1)).is_some_and(|p| holds(walk, &p));
        // What data says is too large, most likely, before it is negative.
        if !holds(walk, index) && (below || !walk.cx.is_data(index)) {
            doubts.push(format!("`{text}` may be negative"));
            conditions.extend(not_negative(walk, expr));
        }
        if !below {
            open = true;
            let extent = extent_text(walk, data.place, axis);
            doubts.push(format!("nothing says that `{text}` is below {extent}"));
            // `v as usize < N` would begin a list of generic arguments.
            let ends_in_type = text.rsplit_once(" as ").is_some_and(|(_, ty)| ty.chars().all(char::is_alphanumeric));
            let operand = if ends_in_type { format!("({text})") } else { text };
            conditions.push(format!("{operand} < {extent}"));
        }
        of_launch &= walk.is_launch(index) && walk.is_launch(extent);
    }
    if doubts.is_empty() {
        return;
    }
    let name = kernel.place_name(data.place);
    let (code, message) = match open {
        true => (Code::UNGUARDED, format!("nothing keeps this access inside `{name}`")),
        false => (Code::SIGN, format!("an index of `{name}` may be negative")),
    };
    let outside = match used {
        Use::Load => "outside, it reads 0",
        Use::Store => "outside, it stores nothing",
        Use::Update => "outside, it does nothing",
    };
    let condition = conditions.join(" && ");
    let indices: Vec<String> = data.indices.iter().map(|e| written(walk.kernel, *e)).collect();
    let indices = indices.join(", ");
    let masked = match used {
        _ if matches!(data.place, Place::Buffer(_)) => None,
        Use::Load => Some(format!("or read `{name}.masked([{indices}])`")),
        Use::Store => Some(format!("or store to `*{name}.masked_mut([{indices}])`")),
        Use::Update => None,
    };
    let mut help = match (conditions.is_empty(), of_launch) {
        (true, _) => "guard it with an `if` on its indices".to_owned(),
        (false, true) => format!("say what launches have: `require({condition})`"),
        (false, false) => format!("put `if {condition} {{ .. }}` around it"),
    };
    if let Some(masked) = masked {
        help = format!("{help}, {masked}");
    }
    if let Some((a, b)) = swapped(walk, axes) {
        let mut order: Vec<String> = data.indices.iter().map(|e| written(walk.kernel, *e)).collect();
        order.swap(a, b);
        help = format!(
            "is the order of the indices right? `{name}[[{}]]` is always inside; if it is, {help}",
            order.join(", ")
        );
    }
    let span = data.span;
    let diagnostic = Diagnostic::new(code, span, message)
        .at(format!("{}; the compiler adds a guard: {outside}", doubts.join(", and ")))
        .help(help)
        .note(format!("`lints({code} = \"off\")` where it cannot happen, for a reason that is not in the kernel"));
    walk.analysis.lints.push(diagnostic);
}

/// Whether `poly >= 0`, by all that an author would think of: more than what code is made of. An access that is inside by this
/// alone has a guard that is never needed, and no doubt is worth the author's time.
fn holds(walk: &Walk<'_>, poly: &Poly) -> bool {
    walk.cx.proves(poly) || finite::nonneg(walk, poly) || walk.cx.proves_patiently(poly)
}

/// Two axes whose indices are proven inside of each other's extents: most likely they stand in the wrong order, and a guard
/// would only hide it.
fn swapped(walk: &Walk<'_>, axes: &[(Poly, Poly)]) -> Option<(usize, usize)> {
    let inside = |index: &Poly, extent: &Poly| {
        let below = extent.minus(index).and_then(|p| p.plus_constant(-1));
        walk.cx.proves(index) && below.is_some_and(|p| walk.cx.proves(&p))
    };
    let mut pairs = (0..axes.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
    let fits = |(a, b): &(usize, usize)| inside(&axes[*b].0, &axes[*a].1) && inside(&axes[*a].0, &axes[*b].1);
    let others =
        |(a, b): &(usize, usize)| (0..axes.len()).all(|c| c == *a || c == *b || inside(&axes[c].0, &axes[c].1));
    pairs.find(|pair| fits(pair) && others(pair))
}

/// The condition under which an index is not negative.
fn not_negative(walk: &Walk<'_>, expr: ExprId) -> Option<String> {
    match walk.kernel.exprs[expr].kind {
        ExprKind::Binary(BinaryOp::Sub, a, b) => {
            Some(format!("{} >= {}", written(walk.kernel, a), written(walk.kernel, b)))
        }
        _ => None,
    }
}

/// The extent of an axis, as the author declared it.
fn extent_text(walk: &Walk<'_>, place: Place, axis: usize) -> String {
    let kernel = walk.kernel;
    let known = match place {
        Place::Tensor(param) => match &kernel.params[param].kind {
            ParamKind::Tensor { shape, .. } => shape.get(axis).map(|extent| match extent {
                Extent::Dim(dim) => kernel.dims[*dim].name.clone(),
                Extent::Fixed(e) => written(walk.kernel, *e),
            }),
            ParamKind::Scalar { .. } | ParamKind::Absent => None,
        },
        Place::Buffer(buffer) => kernel.buffer_extents(buffer).get(axis).map(u32::to_string),
    };
    known.unwrap_or_else(|| "its extent".to_owned())
}
