//! What is known about symbols, and what follows from it: prove, refute, or postpone.
//!
//! Index expressions become polynomials ([`Poly`]) over symbols: dims, thread and block indices, loop variables, and
//! opaque terms such as quotients, each with constant bounds and defining inequalities. Knowledge is a set of
//! polynomials that are not negative. A query eliminates the latest symbol of a polynomial by every fact that bounds
//! it in the right direction, to a fixed depth and amount of work; integer coefficients are divided by their common
//! divisor after each step, which is what makes `k < K` with `k` and `K` multiples of 8 give `k + 7 < K`.
//!
//! Everything proven is true in every execution; nothing follows from an answer of `Unknown`.

mod arithmetic;
mod cond;
mod context;
mod interval;
mod poly;
mod query;
#[cfg(test)]
mod soundness;
mod witness;

pub use cond::Cond;
pub use context::{Context, Definition, Mark, Symbol, Varies};
pub use interval::Interval;
pub use poly::{Monomial, Poly, Sym, gcd};
pub use query::Answer;
