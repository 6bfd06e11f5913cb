//! A warp-specialised kernel's partitions and channels as text.

use super::{Channel, Plan, Product, Ring};
use crate::ir::*;
use crate::lower::hopper::operand::Left;
use crate::lower::schedule::listed;

impl Plan {
    /// A line for each partition, channel, loop that loads, tile that stays and product.
    pub(in crate::lower) fn lines(&self, kernel: &BoundKernel) -> Vec<String> {
        let turns = if self.groups > 1 { ", each on a tile of its own" } else { "" };
        let warpgroups = self.consumers * self.groups;
        let mut lines = vec![format!("partitions: a producer and {warpgroups} warpgroups of consumers{turns}")];
        if let Some(registers) = &self.registers {
            let (producer, consumer) = (registers.producer, registers.consumer);
            lines.push(format!("registers: {producer} a thread of the producer, {consumer} a thread of the consumers"));
        }
        lines.extend(self.channels.iter().enumerate().map(|(number, channel)| self.channel(kernel, number, channel)));
        lines.extend(self.rings.iter().map(|ring| ring.line(kernel)));
        for (what, load) in
            self.residents.iter().map(|r| ("stays", &r.load)).chain(self.late.iter().map(|l| ("late", &l.load)))
        {
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
        let Channel { buffers, slots, bytes, shared } = channel;
        let axes = listed(shared.iter().map(|sharing| sharing.axes()));
        let by = if shared.is_empty() { "by TMA".to_owned() } else { format!("by multicast TMA along {axes}") };
        let read = buffers.iter().filter(|b| self.read.contains(b));
        let read = listed(read.map(|b| name(kernel, *b)));
        let read = if read.is_empty() { read } else { format!("; threads read {read}") };
        let buffers = listed(buffers.iter().map(|b| name(kernel, *b)));
        format!("channel {number}: {buffers}, {slots} slots of {bytes} bytes {by}{read}")
    }
}

impl Ring {
    fn line(&self, kernel: &BoundKernel) -> String {
        let kind = if self.at.stages.is_some() { "pipelined loop" } else { "loop" };
        let fills = listed(self.fills.iter().map(|(channel, _)| channel.to_string()));
        let mut line = format!("{kind} over `{}`: fills channel {fills}", kernel.vars[self.at.var].name);
        if self.meets {
            line += "; the consumers meet in every iteration";
        }
        if let Some(shift) = &self.shift {
            let acc = |stmt: StmtId| {
                let StmtKind::Tile(TileOp::Gemm { acc, .. }) = &kernel.stmts[stmt].kind else { return String::new() };
                name(kernel, *acc)
            };
            let (first, second) = (acc(shift.first), acc(shift.second));
            line += &format!("; the product into {first} is issued an iteration ahead of that into {second}");
        }
        line
    }
}

impl Product {
    fn line(&self, kernel: &BoundKernel) -> String {
        let Product { a, b, acc, dtype, grid, blocks, n, rows, clear } = self;
        let left = match a.1 {
            Left::Shared(_) => "from shared memory",
            Left::Registers => "from registers",
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
