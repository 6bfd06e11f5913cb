//! Operations as C statements.

use super::atoms::{Helper, helper, hint};
use super::value::{ADDITIVE, address, bound, is_stored_past, is_stream, place, value, widened};
use super::{Emitter, bound_may_change, element_name, is_silent, type_name, warp_mask};
use crate::ir::{AtomicOp, Dtype, ShuffleKind, VoteKind};
use crate::lowered::*;

/// Writes a line of formatted text.
macro_rules! line {
    ($emitter:expr, $($text:tt)*) => {{
        let text = format!($($text)*);
        $emitter.write_line(&text)
    }};
}

impl Emitter<'_> {
    pub(super) fn operations(&mut self, ops: &[Op]) {
        for op in ops {
            if !is_silent(&op.kind) {
                self.line_directive(op);
                self.operation(op);
            }
        }
    }

    fn line_directive(&mut self, op: &Op) {
        let Some(span) = self.program.spans.get(op.span) else { return };
        let file = &self.program.source.text_of(*span).file;
        if self.line_info && (span.text, span.line) != self.line && span.line != 0 && !file.is_empty() {
            self.line = (span.text, span.line);
            let file = file.escape_default().to_string();
            self.text.push_str(&format!("#line {} \"{file}\"\n", span.line));
        }
    }

    fn name(&self, reg: RegId) -> &str {
        &self.program.regs[reg].name
    }

    fn value(&self, id: ValueId) -> String {
        value(self.program, id)
    }

    fn operation(&mut self, op: &Op) {
        let program = self.program;
        match &op.kind {
            OpKind::Let { reg, value: None } => line!(self, "{} {};", self.type_of(*reg), self.name(*reg)),
            OpKind::Let { reg, value: Some(value) } => {
                let constness = if program.regs[*reg].mutable { "" } else { "const " };
                line!(self, "{constness}{} {} = {};", self.type_of(*reg), self.name(*reg), self.value(*value));
            }
            OpKind::Set { reg, value } => line!(self, "{} = {};", self.name(*reg), self.value(*value)),
            OpKind::Local { local } => {
                let array = &program.locals[*local];
                line!(self, "__align__(16) {} {}[{}];", element_name(array.dtype), array.name, array.len);
            }
            OpKind::Store { memory, value } => {
                let value = self.value(*value);
                let text = match is_stored_past(program, memory.space) {
                    true => format!("store_stream({}, {value});", address(program, memory)),
                    false => format!("{} = {value};", place(program, memory)),
                };
                self.guarded(memory, &text);
            }
            OpKind::VectorLoad { local, start, memory, width } => {
                let helper = format!("load{}", width * program.locals[*local].dtype.bytes());
                let stream = if is_stream(program, memory.space) { "_stream" } else { "" };
                let arguments = [self.part(*local, *start), address(program, memory)];
                line!(self, "{}", self.called_if(memory, &(helper + stream), &arguments));
            }
            OpKind::VectorStore { memory, local, start, width } => {
                let bytes = width * program.locals[*local].dtype.bytes();
                let stream = if is_stored_past(program, memory.space) { "_stream" } else { "" };
                let (to, from) = (address(program, memory), self.part(*local, *start));
                self.guarded(memory, &format!("store{bytes}{stream}({to}, {from});"));
            }
            OpKind::AsyncCopy { to, from, width } => {
                let bytes = width * program.dtype(to.space).map_or(4, Dtype::bytes);
                let copy = self.called_if(
                    from,
                    &format!("async_copy{bytes}"),
                    &[address(program, to), address(program, from)],
                );
                self.guarded(to, &copy);
            }
            OpKind::AsyncCommit => self.call("async_commit", &[]),
            OpKind::AsyncWait { pending } => self.call(&format!("async_wait<{pending}>"), &[]),
            OpKind::AsyncArrive { barrier } => self.call("async_arrive", &[self.barrier(*barrier)]),
            OpKind::If { cond, then, otherwise } => {
                line!(self, "if ({}) {{", self.value(*cond));
                self.nested(then);
                if otherwise.iter().any(|op| !is_silent(&op.kind)) {
                    self.write_line("} else {");
                    self.nested(otherwise);
                }
                self.write_line("}");
            }
            OpKind::For { reg, start, end, step, unroll, body } => {
                let name = self.name(*reg).to_string();
                // The end stands right of `<`, where a conditional expression needs parentheses.
                let [mut end_text, mut step_text] = [bound(program, *end, ADDITIVE), self.value(*step)];
                for (limit, text, suffix) in [(end, &mut end_text, "end"), (step, &mut step_text, "step")] {
                    if bound_may_change(program, *limit) {
                        let ty = type_name(program.values[*limit].ty);
                        line!(self, "const {ty} {name}_{suffix} = {};", self.value(*limit));
                        *text = format!("{name}_{suffix}");
                    }
                }
                match unroll {
                    Unroll::Auto => {}
                    Unroll::Full => self.write_line("#pragma unroll"),
                    Unroll::By(factor) => line!(self, "#pragma unroll {factor}"),
                }
                let advance = if step_text == "1" { format!("++{name}") } else { format!("{name} += {step_text}") };
                let (ty, start) = (self.type_of(*reg), self.value(*start));
                line!(self, "for ({ty} {name} = {start}; {name} < {end_text}; {advance}) {{");
                self.nested(body);
                self.write_line("}");
            }
            OpKind::Barrier => self.call("__syncthreads", &[]),
            OpKind::WarpBarrier => self.call("__syncwarp", &[warp_mask(program)]),
            OpKind::Wait => self.write_line("asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");"),
            OpKind::LaunchDependents => {
                self.write_line("asm volatile(\"griddepcontrol.launch_dependents;\" ::: \"memory\");");
            }
            OpKind::Shuffle { reg, kind, value, lane } => {
                let function = match kind {
                    ShuffleKind::Xor => "shuffle_xor",
                    ShuffleKind::Down => "shuffle_down",
                    ShuffleKind::Up => "shuffle_up",
                    ShuffleKind::Lane => "shuffle_lane",
                };
                let (mask, value, lane) = (warp_mask(program), self.value(*value), self.value(*lane));
                self.constant(*reg, &format!("{function}({mask}, {value}, {lane})"));
            }
            OpKind::Vote { reg, kind, pred } => {
                let function = match kind {
                    VoteKind::Ballot => "__ballot_sync",
                    VoteKind::Any => "__any_sync",
                    VoteKind::All => "__all_sync",
                };
                self.constant(*reg, &format!("{function}({}, {})", warp_mask(program), self.value(*pred)));
            }
            OpKind::Atomic { op, memory, value, old, ordered } => {
                let function = match op {
                    AtomicOp::Add if *ordered => "atomic_add_ordered",
                    AtomicOp::Add => "atomicAdd",
                    AtomicOp::Max => "atomicMax",
                    AtomicOp::Min => "atomicMin",
                };
                let call = format!("{function}({}, {})", address(program, memory), self.value(*value));
                match (old, memory.guard) {
                    (None, _) => self.guarded(memory, &format!("{call};")),
                    (Some(reg), None) => self.constant(*reg, &call),
                    (Some(reg), Some(guard)) => {
                        self.constant(*reg, &format!("{} ? {call} : 0", self.value(guard.cond)))
                    }
                }
            }
            OpKind::LoadMatrix { local, start, memory, count, transposed } => {
                let helper = format!("load_matrix_x{count}{}", suffix(*transposed));
                self.call(&helper, &[self.part(*local, *start), self.row(memory)]);
            }
            OpKind::StoreMatrix { memory, local, start, count, transposed } => {
                let helper = format!("store_matrix_x{count}{}", suffix(*transposed));
                self.call(&helper, &[self.row(memory), self.part(*local, *start)]);
            }
            OpKind::TransposeMatrix { reg, value } => {
                self.constant(*reg, &format!("transpose_matrix({})", self.value(*value)));
            }
            OpKind::Mma { acc, a, b, .. } => {
                self.call_made(&op.kind, &[acc, a, b].map(|(local, start)| self.part(*local, *start)));
            }
            OpKind::BarrierInit { barrier, arrivals } => {
                self.call("barrier_init", &[self.barrier(*barrier), arrivals.to_string()]);
            }
            OpKind::FenceBarrierInit => self.call("fence_barrier_init", &[]),
            OpKind::BarrierArrive { barrier, cta: None } => self.call("barrier_arrive", &[self.barrier(*barrier)]),
            OpKind::BarrierArrive { barrier, cta: Some(cta) } => {
                self.call("barrier_arrive_in", &[self.barrier(*barrier), self.value(*cta)]);
            }
            OpKind::BarrierExpect { barrier, bytes } => {
                self.call("barrier_expect", &[self.barrier(*barrier), self.value(*bytes)]);
            }
            OpKind::BarrierWait { barrier, parity } => {
                self.call("barrier_wait", &[self.barrier(*barrier), self.value(*parity)]);
            }
            OpKind::TensorLoad { map, coordinates, shared, offset, barrier, multicast, evict } => {
                let mut arguments = vec![self.shared_at(*shared, *offset), self.map(*map), self.barrier(*barrier)];
                arguments.extend(coordinates.iter().chain(multicast).map(|c| self.value(*c)));
                arguments.extend(evict.map(hint));
                self.call_made(&op.kind, &arguments);
            }
            OpKind::TensorStore { map, coordinates, shared, offset, evict, .. } => {
                let mut arguments = vec![self.map(*map), self.shared_at(*shared, *offset)];
                arguments.extend(coordinates.iter().map(|c| self.value(*c)));
                arguments.extend(evict.map(hint));
                self.call_made(&op.kind, &arguments);
            }
            OpKind::BulkLoad { memory, shared, offset, bytes, barrier, evict } => {
                let (to, from) = (self.shared_at(*shared, *offset), address(program, memory));
                let mut arguments = vec![to, from, self.value(*bytes), self.barrier(*barrier)];
                arguments.extend(evict.map(hint));
                self.call(if evict.is_some() { "bulk_load_hint" } else { "bulk_load" }, &arguments);
            }
            OpKind::ClusterStore { memory, block, local, start, width, barrier } => {
                let helper = format!("cluster_store{}", width * program.locals[*local].dtype.bytes());
                let (to, from) = (self.row(memory), self.part(*local, *start));
                self.call(&helper, &[to, self.value(*block), from, self.barrier(*barrier)]);
            }
            OpKind::BulkCommit => self.call("bulk_commit", &[]),
            OpKind::BulkWait { pending, read: false } => self.call(&format!("bulk_wait<{pending}>"), &[]),
            OpKind::BulkWait { pending, read: true } => self.call(&format!("bulk_wait_read<{pending}>"), &[]),
            OpKind::FenceProxyAsync => self.call("fence_proxy_async", &[]),
            OpKind::PrefetchMap { map } => self.call("tensor_prefetch", &[self.map(*map)]),
            OpKind::NamedBarrier { id, threads, arrive } => {
                let how = if *arrive { "arrive" } else { "sync" };
                self.call(&format!("named_barrier_{how}<{id}, {threads}>"), &[]);
            }
            OpKind::ClusterBarrier { relaxed: false } => self.call("cluster_barrier", &[]),
            OpKind::ClusterBarrier { relaxed: true } => self.call("cluster_barrier_relaxed", &[]),
            OpKind::ClusterArrive => self.call("cluster_arrive", &[]),
            OpKind::ClusterWait => self.call("cluster_wait", &[]),
            OpKind::SetRegisters { count, increase } => {
                let how = if *increase { "raise" } else { "lower" };
                self.call(&format!("tile_{how}_registers<{count}>"), &[]);
            }
            OpKind::WgmmaFence => self.call("wgmma_fence", &[]),
            OpKind::Wgmma { acc, start, a, b, accumulate, .. } => {
                let left = match a {
                    WgmmaOperand::Descriptor(a) => self.value(*a),
                    WgmmaOperand::Registers(local, start) => self.part(*local, *start),
                };
                let arguments = [self.part(*acc, *start), left, self.value(*b), self.value(*accumulate)];
                self.call_made(&op.kind, &arguments);
            }
            OpKind::WgmmaCommit => self.call("wgmma_commit", &[]),
            OpKind::WgmmaWait { pending } => self.call(&format!("wgmma_wait<{pending}>"), &[]),
            OpKind::Pin { local } => {
                let array = &program.locals[*local];
                // Registers of the compiler's words are integers.
                let helper = if array.dtype.is_float() { "tile_pin_f" } else { "tile_pin_r" };
                self.call(helper, std::slice::from_ref(&array.name));
            }
            OpKind::Order => self.write_line("asm volatile(\"\" ::: \"memory\");"),
            // The elements of a loop are the device's to order.
            OpKind::Elements(_) | OpKind::Shared { .. } => {}
            OpKind::Print { message, args } => line!(self, "{}", self.say(*message, args)),
            OpKind::Assert { cond, message } => {
                line!(self, "if (!({})) {}", self.value(*cond), self.say(*message, &[]));
            }
        }
    }

    /// `helper(arguments);`
    fn call(&mut self, helper: &str, arguments: &[String]) {
        line!(self, "{helper}({});", arguments.join(", "));
    }

    /// A call of the helper that is made for an operation's operands.
    fn call_made(&mut self, kind: &OpKind, arguments: &[String]) {
        let name = helper(kind).map_or_else(String::new, Helper::name);
        self.call(&name, arguments);
    }

    /// `helper(arguments);`, or `helper_if(cond, arguments);` where what is read is guarded.
    fn called_if(&self, read: &Memory, helper: &str, arguments: &[String]) -> String {
        let arguments = arguments.join(", ");
        match read.guard {
            None => format!("{helper}({arguments});"),
            Some(guard) => format!("{helper}_if({}, {arguments});", self.value(guard.cond)),
        }
    }

    /// `const type reg = text;`
    fn constant(&mut self, reg: RegId, text: &str) {
        line!(self, "const {} {} = {text};", self.type_of(reg), self.name(reg));
    }

    fn type_of(&self, reg: RegId) -> &'static str {
        type_name(self.program.regs[reg].ty)
    }

    /// `&array[start]`
    fn part(&self, local: LocalId, start: ValueId) -> String {
        format!("&{}[{}]", self.program.locals[local].name, self.value(start))
    }

    /// The 32-bit address of a shared array's element.
    fn shared_at(&self, shared: SharedId, offset: ValueId) -> String {
        format!("shared_at({}, {})", self.program.shared[shared].name, self.value(offset))
    }

    fn barrier(&self, barrier: BarrierRef) -> String {
        format!("shared_at({}, {})", self.program.barriers[barrier.array].name, self.value(barrier.index))
    }

    fn map(&self, map: MapId) -> String {
        format!("&{}", self.program.tensor_maps[map].name)
    }

    /// The address of a lane's row.
    fn row(&self, memory: &Memory) -> String {
        match memory.space {
            Space::Shared(shared) => self.shared_at(shared, memory.offset),
            Space::Global(_) | Space::Local(_) => format!("shared_at({}, 0)", address(self.program, memory)),
        }
    }

    /// A message's record in the device's log: the arguments as words of 64 bits.
    fn say(&self, message: MessageId, args: &[ValueId]) -> String {
        let program = self.program;
        let name = |kind| program.params.iter().find(|p| p.kind == kind).map_or("0", |p| p.name.as_str());
        let mut text = format!(
            "tile_say({}, {}, {}u",
            name(ParameterKind::Log),
            name(ParameterKind::LogFunction),
            message.as_u32()
        );
        for &arg in args.iter().take(MESSAGE_ARGS) {
            text += ", ";
            text += &match program.values[arg].ty {
                ValueType::Element(dtype) if dtype.is_float() => format!("__float_as_uint({})", widened(program, arg)),
                ValueType::Element(dtype) if !dtype.is_signed() => self.value(arg),
                ValueType::Element(_) | ValueType::Index | ValueType::Wide => {
                    format!("(unsigned long long)(long long)({})", self.value(arg))
                }
            };
        }
        text + ");"
    }

    fn guarded(&mut self, memory: &Memory, text: &str) {
        match memory.guard {
            None => self.write_line(text),
            Some(guard) => line!(self, "if ({}) {text}", self.value(guard.cond)),
        }
    }

    fn nested(&mut self, body: &[Op]) {
        self.depth += 1;
        self.operations(body);
        self.depth -= 1;
    }
}

fn suffix(transposed: bool) -> &'static str {
    if transposed { "_transposed" } else { "" }
}
