//! Operations that go on while the thread does, the barriers and fences that order them, and the tensor cores' products.

use super::Parser;
use super::operation::Part;
use crate::ir::*;
use crate::lowered::*;
use crate::text::parse::cursor::Parsed;
use crate::text::parse::lex::TokenKind;

const EVICTIONS: [(&str, Evict); 3] = [("First", Evict::First), ("Normal", Evict::Normal), ("Last", Evict::Last)];

impl<'t> Parser<'t> {
    /// An operation that begins with this word.
    pub(super) fn transfer(&mut self, word: &str) -> Parsed<OpKind> {
        let place = self.cursor.place();
        self.cursor.next();
        match word {
            "async" => self.async_operation(),
            "barrier" => self.block_barrier(),
            "wait" => {
                self.cursor.expect_word("for")?;
                let barrier = self.barrier()?;
                self.cursor.expect_word("parity")?;
                Ok(OpKind::BarrierWait { barrier, parity: self.value()? })
            }
            "init" => {
                let barrier = self.barrier()?;
                self.cursor.expect_word("for")?;
                let arrivals = self.cursor.integer_of()?;
                self.cursor.expect_word("arrivals")?;
                Ok(OpKind::BarrierInit { barrier, arrivals })
            }
            "arrive" => self.arrive(),
            "tensor" => {
                let adds = self.cursor.eat_word("add");
                if !adds {
                    self.cursor.expect_word("store")?;
                }
                let (shared, offset) = self.shared_element()?;
                self.cursor.expect_word("to")?;
                let (map, coordinates) = self.box_of_tensor()?;
                let evict = self.evict()?;
                Ok(OpKind::TensorStore { map, coordinates, shared, offset, adds, evict })
            }
            "cluster" => self.cluster_store(),
            "bulk" => {
                self.cursor.expect_word("wait")?;
                let read = self.cursor.eat_word("read");
                Ok(OpKind::BulkWait { pending: self.cursor.integer_of()?, read })
            }
            "prefetch" => Ok(OpKind::PrefetchMap { map: self.map()? }),
            "raise" | "lower" => {
                self.cursor.expect_words(&["registers", "to"])?;
                Ok(OpKind::SetRegisters { count: self.cursor.integer_of()?, increase: word == "raise" })
            }
            "wgmma" => {
                self.cursor.expect_word("wait")?;
                Ok(OpKind::WgmmaWait { pending: self.cursor.integer_of()? })
            }
            "pin" => Ok(OpKind::Pin { local: self.local()? }),
            _ => Err(self.cursor.error_at(place, format!("there is no operation `{word}`"))),
        }
    }

    fn async_operation(&mut self) -> Parsed<OpKind> {
        if self.cursor.eat_word("wait") {
            self.cursor.expect(",")?;
            let pending = self.cursor.integer_of()?;
            self.cursor.expect_word("pending")?;
            return Ok(OpKind::AsyncWait { pending });
        }
        if self.cursor.eat_words(&["arrive", "at"]) {
            return Ok(OpKind::AsyncArrive { barrier: self.barrier()? });
        }
        self.cursor.expect_word("copy")?;
        let place = self.cursor.place();
        let (from, count) = self.memory(true)?;
        self.cursor.expect_word("to")?;
        let (to, width) = self.memory(true)?;
        self.as_many(place, count, width)?;
        Ok(OpKind::AsyncCopy { to, from, width })
    }

    /// `barrier`, `barrier 1 of 64 threads, arrive only`; the first word has been read.
    fn block_barrier(&mut self) -> Parsed<OpKind> {
        if !matches!(self.cursor.peek(), TokenKind::Int(..)) {
            return Ok(OpKind::Barrier);
        }
        let id = self.cursor.integer_of()?;
        self.cursor.expect_word("of")?;
        let threads = self.cursor.integer_of()?;
        self.cursor.expect_word("threads")?;
        let arrive = self.cursor.eat(",");
        if arrive {
            self.cursor.expect_words(&["arrive", "only"])?;
        }
        Ok(OpKind::NamedBarrier { id, threads, arrive })
    }

    /// `full[slot]`
    fn barrier(&mut self) -> Parsed<BarrierRef> {
        let array = self.known("array of barriers", |names| &names.barriers)?;
        self.cursor.expect("[")?;
        let index = self.value()?;
        self.cursor.expect("]")?;
        Ok(BarrierRef { array, index })
    }

    fn arrive(&mut self) -> Parsed<OpKind> {
        self.cursor.expect_word("at")?;
        let barrier = self.barrier()?;
        if self.cursor.eat_words(&["and", "expect"]) {
            let bytes = self.value()?;
            self.cursor.expect_word("bytes")?;
            return Ok(OpKind::BarrierExpect { barrier, bytes });
        }
        let cta = if self.cursor.eat_words(&["of", "block"]) { Some(self.value()?) } else { None };
        Ok(OpKind::BarrierArrive { barrier, cta })
    }

    /// `s[offset]` of a shared array.
    fn shared_element(&mut self) -> Parsed<(SharedId, ValueId)> {
        let shared = self.shared()?;
        self.cursor.expect("[")?;
        let offset = self.value()?;
        self.cursor.expect("]")?;
        Ok((shared, offset))
    }

    /// `x_map[k, m]`
    fn box_of_tensor(&mut self) -> Parsed<(MapId, Vec<ValueId>)> {
        let map = self.map()?;
        Ok((map, self.values_in("[", "]")?))
    }

    fn evict(&mut self) -> Parsed<Option<Evict>> {
        if !self.cursor.eat(",") {
            return Ok(None);
        }
        self.cursor.expect_word("evict")?;
        self.one_of("when it leaves the cache", &EVICTIONS).map(Some)
    }

    /// `x_map[k, m] on full[slot], to blocks 3, evict First`, behind `tensor load`.
    pub(super) fn tensor_load(&mut self, shared: SharedId, offset: ValueId) -> Parsed<OpKind> {
        let (map, coordinates) = self.box_of_tensor()?;
        self.cursor.expect_word("on")?;
        let barrier = self.barrier()?;
        let mut multicast = None;
        if self.cursor.is(",") && self.cursor.is_word_at(1, "to") {
            self.cursor.next();
            self.cursor.expect_words(&["to", "blocks"])?;
            multicast = Some(self.value()?);
        }
        let evict = self.evict()?;
        Ok(OpKind::TensorLoad { map, coordinates, shared, offset, barrier, multicast, evict })
    }

    /// `512 bytes of x[i] on full[slot], evict First`, behind `bulk load`.
    pub(super) fn bulk_load(&mut self, shared: SharedId, offset: ValueId) -> Parsed<OpKind> {
        let bytes = self.value()?;
        self.cursor.expect_words(&["bytes", "of"])?;
        let (memory, _) = self.memory(false)?;
        self.cursor.expect_word("on")?;
        let barrier = self.barrier()?;
        let evict = self.evict()?;
        Ok(OpKind::BulkLoad { memory, shared, offset, bytes, barrier, evict })
    }

    fn cluster_store(&mut self) -> Parsed<OpKind> {
        self.cursor.expect_word("store")?;
        let Part { local, start, count } = self.part()?;
        self.cursor.expect_word("to")?;
        let (memory, _) = self.memory(false)?;
        self.cursor.expect_words(&["of", "block"])?;
        let block = self.value()?;
        self.cursor.expect_words(&["on", "its"])?;
        let barrier = self.barrier()?;
        Ok(OpKind::ClusterStore { memory, block, local, start, width: count, barrier })
    }

    /// `mma m16n8k16 f16 a[0; 4], b[0; 2]`, behind `+=`.
    pub(super) fn product(&mut self, place: usize, acc: Part) -> Parsed<OpKind> {
        self.cursor.expect_word("mma")?;
        let atom = if self.cursor.eat_word("m16n8k16") {
            MmaAtom::M16n8k16 { dtype: self.dtype()? }
        } else {
            self.cursor.expect_words(&["m16n8k8", "tf32"])?;
            MmaAtom::M16n8k8Tf32
        };
        self.as_many(place, acc.count, MmaAtom::ACC)?;
        let a = self.part_of(MmaAtom::A)?;
        self.cursor.expect(",")?;
        let b = self.part_of(MmaAtom::B)?;
        Ok(OpKind::Mma { atom, acc: (acc.local, acc.start), a, b })
    }

    /// `wgmma n128 of 8 rows f16 a transposed, b, accumulate if c`, behind `=`.
    pub(super) fn warpgroup_product(&mut self, place: usize, acc: Part) -> Parsed<OpKind> {
        self.cursor.expect_word("wgmma")?;
        let n = match *self.cursor.peek() {
            TokenKind::Name(name) => name.strip_prefix('n').and_then(|n| n.parse::<u32>().ok()),
            _ => None,
        };
        let n = n.ok_or_else(|| self.cursor.expected("the number of columns, as `n128`"))?;
        self.cursor.next();
        let mut rows = WGMMA_M;
        if self.cursor.eat_word("of") {
            rows = self.cursor.integer_of()?;
            self.cursor.expect_word("rows")?;
        }
        let dtype = self.dtype()?;
        let a = if self.cursor.is_word("registers") && self.is_name(1) {
            self.cursor.next();
            let (local, start) = self.part_of(4)?;
            WgmmaOperand::Registers(local, start)
        } else {
            WgmmaOperand::Descriptor(self.value()?)
        };
        let a_transposed = self.cursor.eat_word("transposed");
        self.cursor.expect(",")?;
        let b = self.value()?;
        let transposed = [a_transposed, self.cursor.eat_word("transposed")];
        self.cursor.expect(",")?;
        self.cursor.expect_words(&["accumulate", "if"])?;
        let accumulate = self.value()?;
        self.as_many(place, acc.count, n / 2)?;
        let (acc, start) = (acc.local, acc.start);
        Ok(OpKind::Wgmma { acc, start, n, rows, dtype, a, b, accumulate, transposed })
    }
}
