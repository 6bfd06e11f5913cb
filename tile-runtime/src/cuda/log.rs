//! The device's log: what threads say by `device_print` and `device_assert`, read by the host whenever it has waited for the device.
//!
//! It is made for the first function that has a message: counters in the device's memory, where threads claim records, and records
//! of 128 bytes in host memory that the device can write, behind a head of the same size. `tile_say` of
//! `tile-ir/src/emit/cuda/prelude.cuh` writes them:
//!
//! | word of the counters | | word of a record | |
//! |---|---|---|---|
//! | 0 | records claimed | 0 | the claim's number plus 1, once the rest is written |
//! | 1 | messages that did not fit | 1, 2 | which function of the log's, which message of the program's |
//! | 2, 3 | the address of the records' head | 3..6, 6..9 | block, thread |
//! | 4 | the log's capacity, records | 16..32 | arguments, 64 bits each |
//!
//! Word 0 of the head says how many records the host has read: the others are still taken. Threads do not count in host memory, since a
//! million atomic operations there take a minute.

use super::context::CudaDevice;
use super::driver::Pointer;
use crate::error::{Assertion, Error};
use crate::lock::lock;
use std::ffi::c_void;
use std::sync::Mutex;
use tile_ir::diag::{Code, Diagnostic};
use tile_ir::ir::{Dtype, EntityRef, PrimaryMap, Source, Span, SpanId};
use tile_ir::lowered::{MESSAGE_ARGS, Message, MessageId, MessageKind, Program, ValueType};
use tile_ir::sim::{ScalarValue, printed_line};

/// Records of a log. Threads wait for nobody: what does not fit is counted.
const RECORDS: u32 = 8192;

/// Words of 4 bytes of a record, and of the head.
const WORDS: usize = 32;

/// `CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP`.
const HOST_ALLOC: u32 = 3;

/// The log of a device, for the life of the process.
pub(crate) struct Log {
    /// The counters, in the device's memory.
    counters: Pointer,
    /// The records, at the same address for host and device.
    words: *mut u32,
    state: Mutex<State>,
}

// SAFETY: the memory lives as long as the process, is read and written through volatile accesses, and by the host only under the
// lock.
unsafe impl Send for Log {}
// SAFETY: as above.
unsafe impl Sync for Log {}

#[derive(Default)]
struct State {
    /// Functions whose threads may say something, by number. They stay: a graph may launch one that nothing else remembers.
    functions: Vec<Says>,
    /// Records read.
    read: u32,
    /// Messages that did not fit, as far as that was said.
    dropped: u32,
}

/// What the threads of a function may say.
struct Says {
    kernel: String,
    messages: PrimaryMap<MessageId, Message>,
    spans: PrimaryMap<SpanId, Span>,
    source: Source,
}

/// A record, as it was read.
struct Record {
    function: u32,
    message: u32,
    block: [u32; 3],
    thread: [u32; 3],
    args: [u64; MESSAGE_ARGS],
}

impl Log {
    /// An empty log in memory of `device`'s driver.
    pub fn new(device: &CudaDevice) -> Result<Log, Error> {
        device.bind()?;
        let bytes = (RECORDS as usize + 1) * WORDS * 4;
        let mut memory: *mut c_void = std::ptr::null_mut();
        // SAFETY: `memory` outlives the call.
        let code = unsafe { (device.driver.mem_host_alloc)(&mut memory, bytes, HOST_ALLOC) };
        device.check("cuMemHostAlloc", code)?;
        let words = memory.cast::<u32>();
        // SAFETY: the memory has these bytes, and the device does not know of it yet.
        unsafe { words.write_bytes(0, bytes / 4) };
        let head = words as u64;
        let counters = device.keep(&[0, 0, head as u32, (head >> 32) as u32, RECORDS])?;
        Ok(Log { counters, words, state: Mutex::default() })
    }

    /// Its address on the device.
    pub fn address(&self) -> Pointer {
        self.counters
    }

    /// The number of a function whose threads may say what the program's messages are.
    pub fn register(&self, kernel: &str, program: &Program) -> u32 {
        let mut state = lock(&self.state);
        let says = Says {
            kernel: kernel.to_owned(),
            messages: program.messages.clone(),
            spans: program.spans.clone(),
            source: program.source.clone(),
        };
        state.functions.push(says);
        state.functions.len() as u32 - 1
    }

    /// Shows what was printed since the last call, in one piece on standard output, and says which assertion failed first.
    pub fn collect(&self, cuda: &CudaDevice) -> Result<(), Error> {
        let device = cuda.label.as_str();
        let mut state = lock(&self.state);
        let (mut text, mut failed, mut more) = (String::new(), None, 0);
        let before = state.read;
        while let Some(record) = self.next(state.read) {
            state.read = state.read.wrapping_add(1);
            self.publish(state.read);
            let Some(says) = state.functions.get(record.function as usize) else { continue };
            let Some(message) = says.messages.get(MessageId::new(record.message as usize)) else { continue };
            match message.kind {
                MessageKind::Print => text += &printed(says, message, &record),
                MessageKind::Assert if failed.is_none() => failed = Some(assertion(device, says, message, &record)),
                MessageKind::Assert => more += 1,
            }
        }
        // Nothing is dropped before the log is full.
        let full = state.read.wrapping_sub(before) >= RECORDS;
        let dropped = if full { cuda.word(self.counters + 4).unwrap_or(state.dropped) } else { state.dropped };
        if dropped != state.dropped {
            let count = dropped.wrapping_sub(state.dropped);
            text += &format!("({count} further lines and assertions of kernels on {device} are not shown)\n");
            state.dropped = dropped;
        }
        drop(state);
        if !text.is_empty() {
            print!("{text}");
        }
        failed.map_or(Ok(()), |first| Err(Error::Assert(Box::new(Assertion { more, ..first }))))
    }

    /// The record with this number, if it has been written.
    fn next(&self, number: u32) -> Option<Record> {
        let at = WORDS * (1 + (number % RECORDS) as usize);
        if self.read(at) != number.wrapping_add(1) {
            return None;
        }
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        let word = |i: usize| self.read(at + i);
        Some(Record {
            function: word(1),
            message: word(2),
            block: [word(3), word(4), word(5)],
            thread: [word(6), word(7), word(8)],
            args: std::array::from_fn(|i| u64::from(word(16 + 2 * i)) | u64::from(word(17 + 2 * i)) << 32),
        })
    }

    fn read(&self, at: usize) -> u32 {
        // SAFETY: callers pass words of the head and of records, which the memory has. The device may write the word at the same
        // time, whole.
        unsafe { self.words.add(at).read_volatile() }
    }

    /// Says how many records have been read.
    fn publish(&self, read: u32) {
        // SAFETY: the head's first word; the device only reads it.
        unsafe { self.words.write_volatile(read) }
    }
}

/// A line of `device_print`, with its place.
fn printed(says: &Says, message: &Message, record: &Record) -> String {
    let values: Vec<ScalarValue> = message.args.iter().zip(record.args).map(|(ty, bits)| value(*ty, bits)).collect();
    let text = printed_line(&message.text, &values);
    let (kernel, [block, thread]) = (&says.kernel, places(record));
    match location(says, message) {
        Some((file, line)) => format!("{kernel} at {file}:{line}, block {block}, thread {thread}: {text}\n"),
        None => format!("{kernel}, block {block}, thread {thread}: {text}\n"),
    }
}

fn assertion(device: &str, says: &Says, message: &Message, record: &Record) -> Assertion {
    let [block, thread] = places(record);
    let diagnostic = Diagnostic::new(Code::ASSERT, message.span, format!("assertion failed: {}", message.text))
        .at(format!("in block {block}, thread {thread}"));
    let (file, line) = location(says, message).unwrap_or_default();
    Assertion {
        device: device.to_owned(),
        kernel: says.kernel.clone(),
        message: message.text.clone(),
        file,
        line,
        block: record.block,
        thread: record.thread,
        report: diagnostic.render(&says.source, &says.spans),
        more: 0,
    }
}

/// The message's file and line.
fn location(says: &Says, message: &Message) -> Option<(String, u32)> {
    let span = says.spans.get(message.span)?;
    let file = says.source.text_of(*span);
    Some((file.file.clone(), span.line))
}

fn places(record: &Record) -> [String; 2] {
    [record.block, record.thread].map(|[x, y, z]| format!("({x}, {y}, {z})"))
}

/// An argument from its 64 bits; 16-bit floats come as f32.
fn value(ty: ValueType, bits: u64) -> ScalarValue {
    match ty {
        ValueType::Index | ValueType::Wide => ScalarValue::Index(bits as i64),
        ValueType::Element(dtype) if dtype.is_float() => ScalarValue::Element(Dtype::F32, bits as u32),
        ValueType::Element(dtype) => ScalarValue::Element(dtype, bits as u32),
    }
}
