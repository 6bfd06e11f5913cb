//! A warp-specialised kernel's partitions and channels as text.

use super::{Alternate, Channel, Load, Plan, Product, Ring, Split, Transport};
use crate::ir::*;
use crate::lower::channel::Rows;
use crate::lower::hopper::operand::Left;
use crate::lower::schedule::listed;

impl Plan {
    /// What the schedule is called.
    pub(in crate::lower) fn title(&self) -> &'static str {
        match self.split {
            Split::Warpgroups => "warp specialisation",
            Split::Threads(_) => "bulk pipeline",
        }
    }

    /// A line for each partition, channel, loop that loads, tile that stays and product.
    pub(in crate::lower) fn lines(&self, kernel: &BoundKernel) -> Vec<String> {
        let turns = if self.groups > 1 { ", each on a tile of its own" } else { "" };
        let partitions = match self.split {
            Split::Warpgroups => format!("a producer and {} warpgroups of consumers{turns}", self.warpgroups()),
            Split::Threads(threads) => format!("a producer warp and the author's {threads} threads"),
        };
        let mut lines = vec![format!("partitions: {partitions}")];
        if let Some(registers) = &self.registers {
            let (producer, consumer) = (registers.producer, registers.consumer);
            lines.push(format!("registers: {producer} a thread of the producer, {consumer} a thread of the consumers"));
        }
        lines.extend(self.channels.iter().enumerate().map(|(number, channel)| self.channel(kernel, number, channel)));
        lines.extend(self.rings.iter().map(|ring| ring.line(kernel)));
        lines.extend(self.loads().filter_map(|load| rows(kernel, load)));
        for (once, load) in self.once.iter().flat_map(|once| once.loads.iter().map(move |load| (once, load))) {
            let what = if once.stays { "stays" } else { "late" };
            let (buffer, tensor) = (name(kernel, load.buffer), &kernel.params[load.tensor].name);
            lines.push(format!("{what}: {buffer} of `{tensor}` by TMA, once"));
        }
        if !self.own.is_empty() {
            let own = listed(self.own.iter().map(|b| name(kernel, *b)));
            let stores = if self.own_stores.is_empty() { "" } else { ", stored by TMA" };
            lines.push(format!("the consumers' own: {own}, with {} barriers{stores}", self.barriers.len()));
        }
        lines.extend(self.products.values().map(|product| product.line(kernel)));
        for (acc, _) in self.folded.values() {
            lines.push(format!("{} is zeroed by its first product", name(kernel, *acc)));
        }
        lines
    }

    fn channel(&self, kernel: &BoundKernel, number: usize, channel: &Channel) -> String {
        let Channel { buffers, slots, once, bytes, shared } = channel;
        let axes = listed(shared.iter().map(|sharing| sharing.axes()));
        let rows =
            self.loads().any(|load| buffers.contains(&load.buffer) && matches!(load.transport, Transport::Rows(_)));
        let by = match shared.is_empty() {
            true if rows => "by bulk copies".to_owned(),
            true => "by TMA".to_owned(),
            false => format!("by multicast TMA along {axes}"),
        };
        let once = if *once { ", one for every iteration" } else { "" };
        let read = buffers.iter().filter(|b| self.read.contains(b));
        let read = listed(read.map(|b| name(kernel, *b)));
        let read = if read.is_empty() { read } else { format!("; threads read {read}") };
        let buffers = listed(buffers.iter().map(|b| name(kernel, *b)));
        format!("channel {number}: {buffers}, {slots} slots of {bytes} bytes {by}{once}{read}")
    }
}

/// A load of rows; boxes are as large as their array.
fn rows(kernel: &BoundKernel, load: &Load) -> Option<String> {
    let Transport::Rows(Rows { rows, columns, .. }) = &load.transport else { return None };
    let (buffer, tensor) = (name(kernel, load.buffer), &kernel.params[load.tensor].name);
    Some(format!("load: {buffer} of `{tensor}`, {rows} rows of {columns} {}", load.dtype))
}

impl Ring {
    fn line(&self, kernel: &BoundKernel) -> String {
        let kind = if self.at.stages.is_some() { "pipelined loop" } else { "loop" };
        let fills = listed(self.fills.iter().map(|(channel, _)| channel.to_string()));
        let mut line = format!("{kind} over `{}`: fills channel {fills}", kernel.vars[self.at.var].name);
        if self.meets {
            line += "; the consumers meet in every iteration";
        }
        if self.written_out {
            line += "; the consumers' side is written out";
        }
        let acc = |stmt: StmtId| {
            let StmtKind::Tile(TileOp::Gemm { acc, .. }) = &kernel.stmts[stmt].kind else { return String::new() };
            name(kernel, *acc)
        };
        match &self.alternate {
            Some(Alternate::By(product)) => {
                line += &format!("; the product into {} is issued an iteration ahead of the work on it", acc(*product));
            }
            Some(Alternate::No(product, why)) => {
                line += &format!("; the product into {} waits for the work on the one before: {why}", acc(*product));
            }
            None => {}
        }
        if let Some(shift) = &self.shift {
            let (first, second) = (acc(shift.first), acc(shift.second));
            line += &format!("; the product into {first} is issued an iteration ahead of that into {second}");
        }
        line
    }
}

impl Product {
    fn line(&self, kernel: &BoundKernel) -> String {
        let Product { a, b, acc, dtype, grid, blocks, n, rows, clear, .. } = self;
        let left = match a.1 {
            Left::Shared(_) => "from shared memory",
            Left::Registers => "from registers",
            Left::Loaded(_) => "from registers, loaded word by word",
        };
        let [acc, a, b] = [*acc, a.0, b.0].map(|buffer| name(kernel, buffer));
        let to = if *clear { "=" } else { "+=" };
        let rows = if *rows < super::BLOCK_ROWS { format!(", {rows} of 64 rows") } else { String::new() };
        format!(
            "product: {acc} {to} {a} {b} of {dtype} by wgmma of 64 x {n}{rows}, {blocks} a warpgroup of {} x {}, {a} {left}",
            grid.rows, grid.cols
        )
    }
}

fn name(kernel: &BoundKernel, buffer: BufferId) -> String {
    format!("`{}`", kernel.buffers[buffer].name)
}
