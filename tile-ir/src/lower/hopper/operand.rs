//! Left operands in registers: what a consumer multiplies without its leaving the thread that computed it, and what `wgmma` does not read
//! from shared memory as it lies there, which each lane loads word by word (tf32 along M).
//!
//! A fragment that lies as a sum is the operand ([`crate::layout::left`]), once its elements are packed two by two. The words
//! are an array of their own, so that the fragment may be written while nothing else waits; they belong to the product from
//! its issue to the wait that covers it. Every product from registers is therefore waited for before its iteration goes on,
//! and the words are pinned before the fence and after the wait: the compiler may compute them neither later nor again.

use super::super::uses::statements;
use super::super::*;
use super::plan::{BLOCK_ROWS, Planner, Product, WARP, accumulator};
use super::roles::Roles;
use crate::layout::{
    Formula, Fragment, Index, Major, MatrixAccess, MmaInput, Operand, Step, WgmmaOperand as MatrixOperand, WordAccess,
};

/// Where the left operand of a product is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Left {
    /// In shared memory.
    Shared(MatrixOperand),
    /// In registers: a fragment that lies as a sum.
    Registers,
    /// In shared memory as M lies, of tf32: lanes load it into registers before each product ([`Operand::by_words`]).
    Loaded(Operand),
}

impl Planner<'_> {
    /// The layout of a fragment as a left operand.
    pub(super) fn left_fragment(&self, a: &MatrixRef, consumers: u32) -> Result<Fragment, String> {
        let kernel = self.kernel;
        let (name, dtype) = (&kernel.buffers[a.buffer].name, kernel.buffer_dtype(a.buffer));
        let [rows, depth] = kernel.buffer_extents(a.buffer)[..] else {
            return Err(format!("the fragment `{name}` is not a matrix"));
        };
        if !dtype.is_half() {
            return Err(format!("wgmma takes f16 and bf16 from registers, not {dtype}"));
        }
        let step = MmaInput::Half.k();
        if !depth.is_multiple_of(step) {
            return Err(format!("{depth} along K of the fragment `{name}` are not a multiple of {step}"));
        }
        let layout = accumulator(rows, depth, consumers).map_err(|e| format!("the fragment `{name}`: {e}"))?;
        match layout.is_whole() {
            true => Ok(layout),
            false => Err(format!("the fragment `{name}` has {rows} rows: wgmma takes 64 of them from registers")),
        }
    }

    /// The copies of whole shared arrays into fragments that `ldmatrix` makes. The arrays get the layout that it reads without
    /// conflicts: that of an operand.
    pub(super) fn loaded_fragments(&self, operands: &mut BTreeMap<BufferId, Operand>) -> BTreeSet<StmtId> {
        let kernel = self.kernel;
        let mut all = BTreeSet::new();
        for stmt in statements(kernel, &kernel.body) {
            if let StmtKind::Tile(TileOp::Copy { src, dst, .. }) = &kernel.stmts[stmt].kind
                && let (Place::Buffer(from), Place::Buffer(to)) = (src.place, dst.place)
                && (kernel.buffers[from].scope, kernel.buffers[to].scope) == (Scope::Shared, Scope::Fragment)
                && let Some(operand) = self.loaded_fragment(from, to, src)
            {
                all.insert(stmt);
                operands.entry(from).or_insert(operand);
            }
        }
        all
    }

    /// The layout of an array that a fragment is loaded from by `ldmatrix`, which moves whole tiles of 16-bit elements.
    fn loaded_fragment(&self, from: BufferId, to: BufferId, src: &TileRef) -> Option<Operand> {
        let kernel = self.kernel;
        let dtype = kernel.buffer_dtype(from);
        let whole = src.start.is_empty() && kernel.buffer_extents(from) == kernel.buffer_extents(to);
        let tile = self.tile(from).ok().filter(|tile| tile.whole_chunks("ldmatrix").is_ok())?;
        (whole && dtype.is_half() && kernel.buffer_dtype(to) == dtype).then_some(Operand { tile, major: Major::K })
    }
}

impl<'a> Lowering<'a> {
    /// The words of a product's left operand, all steps along K: `[64-row block][step][word]`. None where `wgmma` reads it from shared
    /// memory.
    pub(super) fn left_words(&mut self, roles: &Roles, product: &Product) -> Option<LocalId> {
        if let (buffer, Left::Loaded(operand)) = product.a {
            return self.load_left_words(roles, product, (buffer, &operand));
        }
        let local = self.declare_left_words(product)?;
        self.pack_left_words(product, local);
        Some(local)
    }

    /// Loads the words of a left operand of tf32 that lies along M: each lane its own rows and elements along K.
    fn load_left_words(
        &mut self,
        roles: &Roles,
        product: &Product,
        (buffer, operand): (BufferId, &Operand),
    ) -> Option<LocalId> {
        let (shared, sum) = (self.shared[buffer]?, self.fragments[product.acc]?.layout);
        let fragment = Fragment::wgmma_a(MmaInput::Tf32, product.blocks * BLOCK_ROWS, operand.k()).ok();
        let accesses: Option<Vec<WordAccess>> = fragment
            .and_then(|all| (0..all.words()).map(|word| WordAccess::new(&all, word, false).ok()).collect())
            .filter(|all: &Vec<WordAccess>| !all.is_empty());
        let Some(accesses) = accesses else {
            self.bug("words of a left operand that no lane loads");
            return None;
        };
        let size = operand.tile.dtype().bytes();
        let name = &self.kernel.buffers[buffer].name;
        let thread = self.compute_thread();
        let first = accesses.first()?;
        let offset = |access: &WordAccess, thread: Formula| word_offset(&sum, operand, access, thread).over(size);
        let of_first = self.formula([thread], |[thread]| offset(first, thread));
        let of_first = self.once(&format!("{name}_row"), of_first);
        let slot = self.slot_elements(roles, buffer, operand.tile.bytes() / size);
        let words = self.local(&format!("{name}_words"), Dtype::F32, accesses.len() as u32);
        for (word, access) in accesses.iter().enumerate() {
            let offset = match word_step(&sum, operand, [first, access]) {
                Some(step) => self.stepped_from(of_first, step, size),
                None => self.formula([thread], |[thread]| offset(access, thread)),
            };
            let value = self.get(shared, slot + offset);
            self.put(words, word as u32, value);
        }
        Some(words)
    }

    /// An array for the words of a product's left operand; none where that is in shared memory.
    pub(super) fn declare_left_words(&mut self, product: &Product) -> Option<LocalId> {
        let (buffer, Left::Registers) = product.a else { return None };
        let steps = self.fragments[buffer]?.layout.left_steps();
        Some(self.declare_left(buffer, product.blocks * steps * Fragment::LEFT_WORDS))
    }

    /// Packs what the fragment holds now.
    pub(super) fn pack_left_words(&mut self, product: &Product, local: LocalId) {
        let Some(held) = self.held_in(product.a.0) else { return };
        let steps = held.layout.left_steps();
        for block in 0..product.blocks {
            for step in 0..steps {
                for word in 0..Fragment::LEFT_WORDS {
                    let value = self.left_word(&held, block, step, word);
                    let offset = self.left_offset(product, block, step, word);
                    self.put(local, offset, value);
                }
            }
        }
    }

    /// Where a word is among those of [`Lowering::left_words`].
    pub(super) fn left_offset(&mut self, product: &Product, block: u32, step: u32, word: u32) -> ValueId {
        let number = (block * product.b.1.k_steps() + step) * Fragment::LEFT_WORDS + word;
        self.int(i64::from(number))
    }

    /// `copy(&a_s, &mut a)` from a slot, by `ldmatrix`: a word of a sum is a row of 16 bytes. Whether it was one.
    pub(super) fn load_from_slot(&mut self, roles: &Roles, from: BufferId, to: BufferId) -> bool {
        let (Some(held), Some(shared)) = (self.fragments[to], self.shared[from]) else { return false };
        let Some(&tile) = self.layouts.shared.get(&from) else { return false };
        let dtype = tile.dtype();
        let lane = self.once("lane", Special::Lane);
        let thread = self.compute_thread();
        let warp = self.formula([thread], |[thread]| thread.over(WARP));
        let warp = self.once("row_warp", warp);
        let base = self.slot_elements(roles, from, tile.bytes() / dtype.bytes());
        let name = format!("{}_loaded", self.kernel.buffers[to].name);
        let words = self.local(&name, Dtype::U32, 4);
        for quad in 0..held.layout.words() / 4 {
            let Ok(access) = MatrixAccess::new(&held.layout, quad * 4, 4, false) else {
                self.bug("words that ldmatrix does not load");
                continue;
            };
            let elements = self.formula([warp, lane], |[warp, lane]| {
                let (row, col) = held.layout.warp_origin(warp);
                access.offset(&tile, row, col, lane).over(dtype.bytes())
            });
            let (memory, start) = (self.at(shared, base + elements), self.int(0));
            self.op(OpKind::LoadMatrix { local: words, start, memory, count: 4, transposed: false });
            for element in 0..8u32 {
                let word = self.get(words, element / 2);
                let kind = ValueKind::Unpack(dtype, word, element % 2 == 1);
                let value = self.push(kind, ValueType::Element(dtype));
                self.put(held.local, quad * 8 + element, value);
            }
        }
        true
    }

    /// The first element of the slot of an array that the partition is at; 0 of an array that is no channel's.
    fn slot_elements(&mut self, roles: &Roles, buffer: BufferId, elements: u32) -> ValueId {
        let Some(channel) = roles.channel_of(buffer) else { return self.int(0) };
        let slot = self.slot(&channel.slots, None);
        self.once("slot_start", slot * elements)
    }
}

/// The byte offset in a slot of what a thread loads by an access, of the rows that it has of a sum.
fn word_offset<I: Index>(sum: &Fragment, operand: &Operand, access: &WordAccess, thread: I) -> I {
    let (row, _) = sum.warp_origin(thread.clone().over(WARP));
    access.offset(operand, row, I::constant(0), thread.modulo(WARP))
}

/// How every thread's offset by the second access follows from that by the first, if it does so by one step.
fn word_step(sum: &Fragment, operand: &Operand, [first, access]: [&WordAccess; 2]) -> Option<Step> {
    let ((mn, k), (first_mn, first_k)) = (access.position(0u32), first.position(0u32));
    let step = operand.tile.step(k.checked_sub(first_k)?, mn.checked_sub(first_mn)?)?;
    let fits =
        |thread| step.apply(word_offset(sum, operand, first, thread)) == word_offset(sum, operand, access, thread);
    (0..sum.threads()).all(fits).then_some(step)
}
