//! Operations as C statements.

use super::value::{ADDITIVE, address, bound, is_stored_past, is_stream, place, value, widened};
use super::{Emitter, bound_may_change, element_name, is_silent, type_name, warp_mask};
use crate::ir::{AtomicOp, Dtype, ShuffleKind, VoteKind};
use crate::lowered::{MESSAGE_ARGS, Memory, MessageId, Op, OpKind, ParameterKind, RegId, Unroll, ValueId, ValueType};

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

    pub(super) fn value(&self, id: ValueId) -> String {
        value(self.program, id)
    }

    fn operation(&mut self, op: &Op) {
        let program = self.program;
        match &op.kind {
            OpKind::Let { reg, value } => {
                let register = &program.regs[*reg];
                let constness = if register.mutable || value.is_none() { "" } else { "const " };
                let ty = type_name(register.ty);
                let text = match value {
                    Some(value) => format!("{constness}{ty} {} = {};", register.name, self.value(*value)),
                    None => format!("{ty} {};", register.name),
                };
                self.write_line(&text);
            }
            OpKind::Set { reg, value } => {
                let text = format!("{} = {};", self.name(*reg), self.value(*value));
                self.write_line(&text);
            }
            OpKind::Local { local } => {
                let array = &program.locals[*local];
                let text = format!("__align__(16) {} {}[{}];", element_name(array.dtype), array.name, array.len);
                self.write_line(&text);
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
                let array = &program.locals[*local];
                let bytes = width * array.dtype.bytes();
                let to = format!("&{}[{}]", array.name, self.value(*start));
                let from = address(program, memory);
                let stream = if is_stream(program, memory.space) { "_stream" } else { "" };
                let text = match memory.guard {
                    None => format!("load{bytes}{stream}({to}, {from});"),
                    Some(guard) => format!("load{bytes}{stream}_if({}, {to}, {from});", self.value(guard.cond)),
                };
                self.write_line(&text);
            }
            OpKind::VectorStore { memory, local, start, width } => {
                let array = &program.locals[*local];
                let bytes = width * array.dtype.bytes();
                let from = format!("&{}[{}]", array.name, self.value(*start));
                let stream = if is_stored_past(program, memory.space) { "_stream" } else { "" };
                let text = format!("store{bytes}{stream}({}, {from});", address(program, memory));
                self.guarded(memory, &text);
            }
            OpKind::AsyncCopy { to, from, width } => {
                let bytes = width * program.dtype(to.space).map_or(4, Dtype::bytes);
                let (target, source) = (address(program, to), address(program, from));
                let text = match from.guard {
                    None => format!("async_copy{bytes}({target}, {source});"),
                    Some(guard) => format!("async_copy{bytes}_if({}, {target}, {source});", self.value(guard.cond)),
                };
                self.guarded(to, &text);
            }
            OpKind::AsyncCommit => self.write_line("async_commit();"),
            OpKind::AsyncWait { pending } => {
                let text = format!("async_wait<{pending}>();");
                self.write_line(&text);
            }
            OpKind::If { cond, then, otherwise } => {
                let head = format!("if ({}) {{", self.value(*cond));
                self.write_line(&head);
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
                        let hoisted = format!("{name}_{suffix}");
                        let ty = type_name(program.values[*limit].ty);
                        self.write_line(&format!("const {ty} {hoisted} = {};", self.value(*limit)));
                        *text = hoisted;
                    }
                }
                match unroll {
                    Unroll::Auto => {}
                    Unroll::Full => self.write_line("#pragma unroll"),
                    Unroll::By(factor) => self.write_line(&format!("#pragma unroll {factor}")),
                }
                let advance = if step_text == "1" { format!("++{name}") } else { format!("{name} += {step_text}") };
                let ty = type_name(program.regs[*reg].ty);
                let head = format!("for ({ty} {name} = {}; {name} < {end_text}; {advance}) {{", self.value(*start));
                self.write_line(&head);
                self.nested(body);
                self.write_line("}");
            }
            OpKind::Barrier => self.write_line("__syncthreads();"),
            OpKind::WarpBarrier => {
                let text = format!("__syncwarp({});", warp_mask(program));
                self.write_line(&text);
            }
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
                let arguments = format!("{}, {}, {}", warp_mask(program), self.value(*value), self.value(*lane));
                let ty = type_name(program.regs[*reg].ty);
                let text = format!("const {ty} {} = {function}({arguments});", self.name(*reg));
                self.write_line(&text);
            }
            OpKind::Vote { reg, kind, pred } => {
                let function = match kind {
                    VoteKind::Ballot => "__ballot_sync",
                    VoteKind::Any => "__any_sync",
                    VoteKind::All => "__all_sync",
                };
                let ty = type_name(program.regs[*reg].ty);
                let name = self.name(*reg);
                let text = format!("const {ty} {name} = {function}({}, {});", warp_mask(program), self.value(*pred));
                self.write_line(&text);
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
                    (Some(reg), guard) => {
                        let ty = type_name(program.regs[*reg].ty);
                        let name = self.name(*reg).to_string();
                        let value = match guard {
                            None => call,
                            Some(guard) => format!("{} ? {call} : 0", self.value(guard.cond)),
                        };
                        self.write_line(&format!("const {ty} {name} = {value};"));
                    }
                }
            }
            OpKind::LoadMatrix { local, start, memory, count, transposed } => {
                self.load_matrix(memory, (*local, *start), *count, *transposed);
            }
            OpKind::StoreMatrix { memory, local, start, count, transposed } => {
                self.store_matrix(memory, (*local, *start), *count, *transposed);
            }
            OpKind::Mma { atom, acc, a, b } => self.mma(*atom, [*acc, *a, *b]),
            OpKind::BarrierInit { barrier, arrivals } => {
                let arguments = [self.barrier(*barrier), arrivals.to_string()];
                self.call("barrier_init", &arguments);
            }
            OpKind::FenceBarrierInit => self.call("fence_barrier_init", &[]),
            OpKind::BarrierArrive { barrier, cta: None } => {
                let arguments = [self.barrier(*barrier)];
                self.call("barrier_arrive", &arguments);
            }
            OpKind::BarrierArrive { barrier, cta: Some(cta) } => {
                let arguments = [self.barrier(*barrier), self.value(*cta)];
                self.call("barrier_arrive_in", &arguments);
            }
            OpKind::BarrierExpect { barrier, bytes } => {
                let arguments = [self.barrier(*barrier), self.value(*bytes)];
                self.call("barrier_expect", &arguments);
            }
            OpKind::BarrierWait { barrier, parity } => {
                let arguments = [self.barrier(*barrier), self.value(*parity)];
                self.call("barrier_wait", &arguments);
            }
            OpKind::TensorLoad { map, coordinates, shared, offset, barrier, multicast, evict } => {
                self.tensor_load(*map, coordinates, (*shared, *offset), *barrier, *multicast, *evict);
            }
            OpKind::TensorStore { map, coordinates, shared, offset, adds, evict } => {
                self.tensor_store(*map, coordinates, (*shared, *offset), *adds, *evict);
            }
            OpKind::BulkLoad { memory, shared, offset, bytes, barrier, evict } => {
                self.bulk_load(memory, (*shared, *offset), *bytes, *barrier, *evict);
            }
            OpKind::ClusterStore { memory, block, local, start, width, barrier } => {
                self.cluster_store(memory, *block, (*local, *start), *width, *barrier);
            }
            OpKind::BulkCommit => self.call("bulk_commit", &[]),
            OpKind::BulkWait { pending, read: false } => self.call(&format!("bulk_wait<{pending}>"), &[]),
            OpKind::BulkWait { pending, read: true } => self.call(&format!("bulk_wait_read<{pending}>"), &[]),
            OpKind::FenceProxyAsync => self.call("fence_proxy_async", &[]),
            OpKind::PrefetchMap { map } => {
                let arguments = [format!("&{}", program.tensor_maps[*map].name)];
                self.call("tensor_prefetch", &arguments);
            }
            OpKind::NamedBarrier { id, threads, arrive } => {
                let how = if *arrive { "arrive" } else { "sync" };
                self.call(&format!("named_barrier_{how}<{id}, {threads}>"), &[]);
            }
            OpKind::ClusterBarrier { relaxed: false } => self.call("cluster_barrier", &[]),
            OpKind::ClusterBarrier { relaxed: true } => self.call("cluster_barrier_relaxed", &[]),
            OpKind::SetRegisters { count, increase } => {
                let how = if *increase { "raise" } else { "lower" };
                self.call(&format!("tile_{how}_registers<{count}>"), &[]);
            }
            OpKind::WgmmaFence => self.call("wgmma_fence", &[]),
            OpKind::Wgmma { acc, start, n, rows: _, dtype, a, b, accumulate, transposed } => {
                self.wgmma((*acc, *start), (*n, *dtype, *transposed), (a, *b), *accumulate);
            }
            OpKind::WgmmaCommit => self.call("wgmma_commit", &[]),
            OpKind::WgmmaWait { pending } => self.call(&format!("wgmma_wait<{pending}>"), &[]),
            OpKind::Pin { local } => self.pin(*local),
            // The elements of a loop are the device's to order.
            OpKind::Elements(_) => {}
            OpKind::Order => self.write_line("asm volatile(\"\" ::: \"memory\");"),
            OpKind::Shared { .. } => {}
            OpKind::Print { message, args } => {
                let text = self.say(*message, args);
                self.write_line(&text);
            }
            OpKind::Assert { cond, message } => {
                let text = format!("if (!({})) {}", self.value(*cond), self.say(*message, &[]));
                self.write_line(&text);
            }
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
            Some(guard) => {
                let text = format!("if ({}) {text}", self.value(guard.cond));
                self.write_line(&text);
            }
        }
    }

    fn nested(&mut self, body: &[Op]) {
        self.depth += 1;
        self.operations(body);
        self.depth -= 1;
    }
}
