//! Tiles: copies, fills, products and reductions over an axis.

use super::{Block, Done, Machine, Side, Storage};
use crate::programs::tree::*;
use crate::programs::value::{self, Refusal, Value};

impl Machine<'_> {
    pub(super) fn side(&self, tile: &Tile, block: &Block) -> Result<Side, Refusal> {
        let thread = &block.threads[0];
        let eval = |e: &Expr| self.eval(e, thread, Some(&block.shared))?.index();
        Ok(match tile {
            Tile::Whole(name) => {
                let extents = self.storage(name, thread, Some(&block.shared))?.extents.clone();
                (name.clone(), vec![0; extents.len()], Some(extents))
            }
            Tile::Transposed(name) => {
                let extents = self.storage(name, thread, Some(&block.shared))?.extents.iter().rev().copied().collect();
                (name.clone(), vec![0, 0], Some(extents))
            }
            Tile::At(name, at) => (name.clone(), at.iter().map(eval).collect::<Result<_, _>>()?, None),
            Tile::Span(name, spans) => {
                let ends = spans.iter().map(|(a, b)| Ok((eval(a)?, eval(b)?))).collect::<Result<Vec<_>, Refusal>>()?;
                let extents = ends.iter().map(|(a, b)| b - a).collect();
                (name.clone(), ends.iter().map(|(a, _)| *a).collect(), Some(extents))
            }
        })
    }

    pub(super) fn copy(&mut self, from: &Tile, to: &Tile, block: &mut Block) -> Done {
        // Arrays of a thread are filled by each thread, at its own place.
        if let Tile::Whole(name) = to
            && block.threads[0].locals.contains_key(name)
        {
            return Err("copies to local arrays are not generated".into());
        }
        let transposed = matches!(from, Tile::Transposed(_));
        let (source, first, own) = self.side(from, block)?;
        let (target, start, other) = self.side(to, block)?;
        let extents = own.or(other).ok_or("a copy has no extents")?;
        let ty = self.storage(&target, &block.threads[0], Some(&block.shared))?.ty;
        each(&extents, &mut |tile| {
            let at = |first: &[i64]| -> Vec<i64> {
                // Leading axes that the other side lacks have one element.
                let missing = first.len().saturating_sub(tile.len());
                let inside = std::iter::repeat_n(0, missing).chain(tile.iter().copied());
                first.iter().zip(inside).map(|(a, b)| a + b).collect()
            };
            let read = if transposed { vec![tile[1], tile[0]] } else { at(&first) };
            let storage = self.storage(&source, &block.threads[0], Some(&block.shared))?;
            let element = storage.place(&read).map_or(Value::literal(storage.ty, 0.0), |place| storage.data[place]);
            let element = match element {
                Value::Nothing => Value::Nothing,
                element => element.cast(ty)?,
            };
            let Block { shared, threads } = &mut *block;
            self.store(&target, &at(&start), element, true, &mut threads[0], shared)
        })
    }

    pub(super) fn fill(&mut self, array: &str, value: Option<&Expr>, block: &mut Block) -> Done {
        let ty = self.storage(array, &block.threads[0], Some(&block.shared))?.ty;
        for number in 0..block.threads.len() {
            let value = match value {
                Some(value) => self.eval(value, &block.threads[number], Some(&block.shared))?.cast(ty)?,
                None => Value::literal(ty, 0.0),
            };
            match block.shared.get_mut(array) {
                Some(storage) => storage.data.fill(value),
                None => {
                    if let Some(local) = block.threads[number].locals.get_mut(array) {
                        local.data.fill(value);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Every index of these extents, the last axis fastest.
pub(super) fn each(extents: &[i64], f: &mut dyn FnMut(&[i64]) -> Done) -> Done {
    let count: i64 = extents.iter().product();
    let mut at = vec![0; extents.len()];
    for number in 0..count.max(0) {
        let mut rest = number;
        for (i, extent) in at.iter_mut().zip(extents).rev() {
            *i = rest % extent;
            rest /= extent;
        }
        f(&at)?;
    }
    Ok(())
}

/// `acc += a b`, every sum from 0 on in order of K.
pub(super) fn gemm(a: &(String, bool), b: &(String, bool), acc: &str, clear: bool, block: &mut Block) -> Done {
    let missing = || "there is no such tile".to_owned();
    let (left, right) = (block.shared.get(&a.0).ok_or_else(missing)?, block.shared.get(&b.0).ok_or_else(missing)?);
    let matrix = |storage: &Storage| -> Result<Vec<f32>, Refusal> {
        let number = |v: &Value| match v {
            Value::Float(_, x) => Ok(*x),
            other => Err(format!("{other:?} is multiplied")),
        };
        storage.data.iter().map(number).collect()
    };
    let (x, y) = (matrix(left)?, matrix(right)?);
    let (left_row, right_row) = (left.extents[1] as usize, right.extents[1] as usize);
    let depth = left.extents[if a.1 { 0 } else { 1 }] as usize;
    let sum = block.shared.get(acc).ok_or_else(missing)?;
    let (rows, columns, ty) = (sum.extents[0] as usize, sum.extents[1] as usize, sum.ty);
    let mut data = sum.data.clone();
    for i in 0..rows {
        for j in 0..columns {
            let mut total = match (clear, data[i * columns + j]) {
                (true, _) => 0.0,
                (false, Value::Float(_, start)) => start,
                (false, other) => return Err(format!("{other:?} is an accumulator")),
            };
            for k in 0..depth {
                let l = if a.1 { x[k * left_row + i] } else { x[i * left_row + k] };
                let r = if b.1 { y[j * right_row + k] } else { y[k * right_row + j] };
                total += l * r;
            }
            data[i * columns + j] = value::float(ty, total);
        }
    }
    if let Some(sum) = block.shared.get_mut(acc) {
        sum.data = data;
    }
    Ok(())
}

pub(super) fn reduce(how: Combine, from: &str, to: &str, axis: usize, block: &mut Block) -> Done {
    let missing = || "there is no such tile".to_owned();
    let source = block.shared.get(from).ok_or_else(missing)?;
    let (rows, columns) = (source.extents[0], source.extents[1]);
    let (kept, gone) = if axis == 1 { (rows, columns) } else { (columns, rows) };
    let mut results = Vec::new();
    for keep in 0..kept {
        let element = |other: i64| {
            let (i, j) = if axis == 1 { (keep, other) } else { (other, keep) };
            source.data[(i * columns + j) as usize]
        };
        results.push((1..gone).try_fold(element(0), |a, other| value::binary(how.op(), a, element(other)))?);
    }
    let target = block.shared.get_mut(to).ok_or_else(missing)?;
    for (place, result) in target.data.iter_mut().zip(results) {
        *place = result.cast(target.ty)?;
    }
    Ok(())
}
