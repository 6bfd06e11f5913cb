//! Helpers that come in many shapes: the products of the tensor cores and the copies of TMA. The table is the
//! instruction set's; a program gets the helpers it uses.

use crate::ir::Dtype;
use crate::ir::Evict;
use crate::lowered::visit::each;
use crate::lowered::{MmaAtom, OpKind, Program, WgmmaOperand};
use std::collections::BTreeSet;

/// A helper that is written on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Helper {
    /// A product of a warpgroup.
    Wgmma(Wgmma),
    /// A product of a warp on 16-bit floats of this type.
    Mma(Dtype),
    /// A product of a warp on tf32.
    MmaTf32,
    /// A box from global to shared memory.
    TensorLoad { rank: usize, multicast: bool, hint: bool },
    /// A box from shared to global memory, stored or added.
    TensorStore { rank: usize, adds: bool, hint: bool },
}

/// A form of `wgmma.mma_async` with an f32 accumulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wgmma {
    /// Columns: 8, 16, .. 256.
    pub n: u32,
    /// f16, bf16, or f32 for tf32.
    pub dtype: Dtype,
    /// Whether the left operand is in registers.
    pub registers: bool,
    /// Whether a and b have m and n innermost.
    pub transposed: [bool; 2],
}

impl Helper {
    /// The name it is called by.
    pub(super) fn name(self) -> String {
        match self {
            Helper::Wgmma(form) => form.name(),
            Helper::Mma(dtype) => format!("mma_m16n8k16_{dtype}"),
            Helper::MmaTf32 => "mma_m16n8k8_tf32".into(),
            Helper::TensorLoad { rank, multicast, hint } => {
                let multicast = if multicast { "_multicast" } else { "" };
                format!("tensor_load_{rank}d{multicast}{}", if hint { "_hint" } else { "" })
            }
            Helper::TensorStore { rank, adds, hint } => {
                let what = if adds { "add" } else { "store" };
                format!("tensor_{what}_{rank}d{}", if hint { "_hint" } else { "" })
            }
        }
    }

    /// Its definition, a line.
    fn definition(self) -> String {
        match self {
            Helper::Wgmma(form) => form.definition(),
            Helper::Mma(dtype) => {
                mma(&self.name(), &format!("m16n8k16.row.col.f32.{dtype}.{dtype}.f32"), ["unsigned"; 2])
            }
            // The fragment of either f32 operand may be floats or their bits.
            Helper::MmaTf32 => ["unsigned", "float"]
                .map(|a| {
                    ["unsigned", "float"]
                        .map(|b| mma(&self.name(), "m16n8k8.row.col.f32.tf32.tf32.f32", [a, b]))
                        .concat()
                })
                .concat(),
            Helper::TensorLoad { rank, multicast, hint } => self.tensor_load(rank, multicast, hint),
            Helper::TensorStore { rank, adds, hint } => self.tensor_store(rank, adds, hint),
        }
    }

    fn tensor_load(self, rank: usize, multicast: bool, hint: bool) -> String {
        let mut all = Operands::default();
        let (to, map) = (all.next("unsigned", "to", 'r'), all.next("const TensorMap*", "map", 'l'));
        let (barrier, places) = (all.next("unsigned", "barrier", 'r'), all.coordinates(rank));
        let (mut form, mut rest) = (String::new(), String::new());
        if multicast {
            form += ".multicast::cluster";
            rest += &format!(", {}", all.next("unsigned short", "blocks", 'h'));
        }
        if hint {
            form += ".L2::cache_hint";
            rest += &format!(", {}", all.next("unsigned long long", "hint", 'l'));
        }
        let to = format!("shared::cluster.global.mbarrier::complete_tx::bytes{form} [{to}]");
        all.helper(
            &self.name(),
            &format!("cp.async.bulk.tensor.{rank}d.{to}, [{map}, {{{places}}}], [{barrier}]{rest};"),
        )
    }

    fn tensor_store(self, rank: usize, adds: bool, hint: bool) -> String {
        let mut all = Operands::default();
        let (map, from) = (all.next("const TensorMap*", "map", 'l'), all.next("unsigned", "from", 'r'));
        let places = all.coordinates(rank);
        let (kind, op) = if adds { ("cp.reduce.async", ".add") } else { ("cp.async", "") };
        let (mut form, mut rest) = ("", String::new());
        if hint {
            form = ".L2::cache_hint";
            rest = format!(", {}", all.next("unsigned long long", "hint", 'l'));
        }
        let how = format!("global.shared::cta{op}.bulk_group{form}");
        all.helper(&self.name(), &format!("{kind}.bulk.tensor.{rank}d.{how} [{map}, {{{places}}}], [{from}]{rest};"))
    }
}

/// The parameters of a helper, each an operand of its instruction.
#[derive(Default)]
struct Operands {
    parameters: Vec<String>,
    operands: Vec<String>,
}

impl Operands {
    /// The place of the next one in the instruction.
    fn next(&mut self, ty: &str, name: &str, register: char) -> String {
        self.parameters.push(format!("{ty} {name}"));
        self.operands.push(format!("\"{register}\"({name})"));
        format!("%{}", self.operands.len() - 1)
    }

    fn coordinates(&mut self, rank: usize) -> String {
        let places: Vec<String> = (0..rank).map(|axis| self.next("int", &format!("c{axis}"), 'r')).collect();
        places.join(", ")
    }

    fn helper(&self, name: &str, instruction: &str) -> String {
        let (parameters, operands) = (self.parameters.join(", "), self.operands.join(", "));
        format!(
            "TILE_INLINE void {name}({parameters}) {{ asm volatile(\"{instruction}\" :: {operands} : \"memory\"); }}\n"
        )
    }
}

impl Wgmma {
    fn name(self) -> String {
        let Wgmma { n, dtype, registers, transposed } = self;
        let (operands, _) = operands(dtype);
        let source = if registers { "rs" } else { "ss" };
        let [a, b] = transposed.map(|t| if t { "t" } else { "n" });
        format!("wgmma_{source}_n{n}_{operands}_{a}{b}")
    }

    fn definition(self) -> String {
        let Wgmma { n, dtype, registers, transposed } = self;
        let [a, b] = transposed.map(u8::from);
        let (operands, k) = operands(dtype);
        let count = n / 2;
        let accumulators = numbered(0, count as usize);
        let outputs: Vec<String> = (0..count).map(|i| format!("\"+f\"(d[{i}])")).collect();
        // A descriptor is one operand, a fragment four.
        let (left, left_places, left_operand, b_place) = if registers {
            let places = numbered(count as usize, 4);
            let (left, word) =
                if dtype.is_half() { ("const unsigned* a", "unsigned") } else { ("const float* a", "float") };
            (left, format!("{{{places}}}"), words("a", word, 4), count + 4)
        } else {
            ("unsigned long long a", format!("%{count}"), "\"l\"(a)".to_owned(), count + 1)
        };
        // Which operands may be transposed: of 16-bit types both in shared memory, the right one alone beside registers; no others.
        let flags = match (dtype.is_half(), registers) {
            (false, _) => String::new(),
            (true, true) => format!(", {b}"),
            (true, false) => format!(", {a}, {b}"),
        };
        let scale = b_place + 1;
        format!(
            "TILE_INLINE void {}(float* d, {left}, unsigned long long b, int accumulate) {{ asm volatile(\"{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{scale}, 0;\\nwgmma.mma_async.sync.aligned.m64n{n}k{k}.f32.{operands}.{operands} {{{accumulators}}}, {left_places}, %{b_place}, p, 1, 1{flags};\\n}}\\n\" : {} : {left_operand}, \"l\"(b), \"r\"(accumulate)); }}\n",
            self.name(),
            outputs.join(", ")
        )
    }
}

/// What PTX calls the operands of a product, and how many along K an instruction takes. What the language has no products of is
/// named as the author does: no instruction has that name, and NVRTC says so.
fn operands(dtype: Dtype) -> (&'static str, u32) {
    dtype.info().matrix.map_or((dtype.name(), 0), |matrix| (matrix.name, matrix.depth))
}

/// The first `count` elements of an array of `unsigned`, or of `float`, whose bits are taken, as operands of an instruction.
fn words(array: &str, word: &str, count: u32) -> String {
    let one = |i| match word {
        "float" => format!("\"r\"(__float_as_uint({array}[{i}]))"),
        _ => format!("\"r\"({array}[{i}])"),
    };
    (0..count).map(one).collect::<Vec<_>>().join(", ")
}

fn mma(name: &str, form: &str, types: [&str; 2]) -> String {
    format!(
        "TILE_INLINE void {name}(float* d, const {}* a, const {}* b) {{ asm volatile(\"mma.sync.aligned.{form} {{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};\" : \"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), \"+f\"(d[3]) : {}, {}); }}\n",
        types[0],
        types[1],
        words("a", types[0], MmaAtom::A),
        words("b", types[1], MmaAtom::B)
    )
}

/// The cache hint of the second-level cache. Source: CUTLASS, `TMA::CacheHintSm90`.
pub(super) fn hint(evict: Evict) -> String {
    let bits = match evict {
        Evict::Normal => "0x1000000000000000ull",
        Evict::First => "0x12f0000000000000ull",
        Evict::Last => "0x14f0000000000000ull",
    };
    bits.to_owned()
}

/// The definitions of the helpers that a program uses, in order of the table.
pub(super) fn definitions(program: &Program) -> String {
    let mut used = BTreeSet::new();
    each(&program.body, &mut |op| used.extend(helper(&op.kind)));
    used.into_iter().map(Helper::definition).collect()
}

/// The function that an operation is printed as a call of, where it is made for its operands.
pub(super) fn helper(kind: &OpKind) -> Option<Helper> {
    if let OpKind::Wgmma { n, dtype, a, transposed, .. } = kind {
        let registers = matches!(a, WgmmaOperand::Registers(..));
        return Some(Helper::Wgmma(Wgmma { n: *n, dtype: *dtype, registers, transposed: *transposed }));
    }
    if let OpKind::Mma { atom, .. } = kind {
        return Some(match *atom {
            MmaAtom::M16n8k16 { dtype } => Helper::Mma(dtype),
            MmaAtom::M16n8k8Tf32 => Helper::MmaTf32,
        });
    }
    if let OpKind::TensorLoad { coordinates, multicast, evict, .. } = kind {
        let (rank, multicast, hint) = (coordinates.len(), multicast.is_some(), evict.is_some());
        return Some(Helper::TensorLoad { rank, multicast, hint });
    }
    let OpKind::TensorStore { coordinates, adds, evict, .. } = kind else { return None };
    Some(Helper::TensorStore { rank: coordinates.len(), adds: *adds, hint: evict.is_some() })
}

/// `%first, %(first + 1), ..`
fn numbered(first: usize, count: usize) -> String {
    (first..first + count).map(|i| format!("%{i}")).collect::<Vec<_>>().join(", ")
}
