//! Reads what a driver was asked, and finds uses that nothing orders, memory used after it was freed, and kernels launched
//! after they were unloaded.
//!
//! The driver's promises, and no more: work on one stream is done in its order; a wait makes a stream follow what the event's
//! latest record stands for; a graph is one piece of work on the stream that it is launched on. What a stream that is being
//! captured is asked becomes part of the graph and is done at each of its launches.

use std::collections::{BTreeMap, HashMap};

type Id = i64;
/// How many works of each stream are known to be done.
type Clock = HashMap<Id, usize>;

/// A piece of memory, by a number that no other ever has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Memory(usize);

/// What a piece of work uses.
#[derive(Clone, Debug, Default)]
struct Work {
    uses: Vec<(Memory, bool)>,
    functions: Vec<Id>,
    graphs: Vec<Id>,
}

/// A use of memory: stream, number on it, whether it wrote.
type Use = (Id, usize, bool);

#[derive(Default)]
struct Reader {
    /// What is done before whatever is queued on a stream from now on.
    known: HashMap<Id, Clock>,
    queued: Clock,
    events: HashMap<Id, Clock>,
    /// Live memory, by its address: its end and which it is.
    live: BTreeMap<u64, (u64, Memory)>,
    uses: HashMap<Memory, Vec<Use>>,
    made: usize,
    capturing: HashMap<Id, Work>,
    graphs: HashMap<Id, Work>,
    execs: HashMap<Id, Work>,
    /// The module of a function, while it is loaded.
    modules: HashMap<Id, Id>,
    /// Works with a function that no synchronisation has covered.
    underway: Vec<(Id, Id)>,
    counts: Counts,
    /// What is done before whatever the host asks for from now on, where one thread asks.
    host: Option<Clock>,
}

/// How much a trace holds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub works: usize,
    pub waits: usize,
    pub graph_launches: usize,
    pub captures: usize,
    pub allocations: usize,
    pub frees: usize,
}

/// Checks a trace.
///
/// # Errors
/// The line of the first call that nothing allows, and why.
pub fn check(trace: &str) -> Result<Counts, String> {
    read(trace, Reader::default())
}

/// As [`check`], of a program of one thread: what it asks for after a stream is synchronised follows that stream.
pub fn check_one_thread(trace: &str) -> Result<Counts, String> {
    read(trace, Reader { host: Some(Clock::new()), ..Reader::default() })
}

fn read(trace: &str, mut reader: Reader) -> Result<Counts, String> {
    for (number, line) in trace.lines().enumerate() {
        reader.call(line).map_err(|problem| {
            let from = trace.lines().skip(number.saturating_sub(12)).take(number.min(12) + 1).collect::<Vec<_>>();
            format!("call {}: {problem}\n{}", number + 1, from.join("\n"))
        })?;
    }
    Ok(reader.counts)
}

impl Reader {
    fn call(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split(' ').collect();
        let id = |at: usize| words[at].parse::<Id>().expect(line);
        let address = |at: usize| u64::from_str_radix(words[at], 16).expect(line);
        match words[0] {
            "alloc" => {
                let (start, bytes) = (address(1), words[2].parse::<u64>().expect(line));
                self.made += 1;
                let memory = Memory(self.made);
                if self.live.insert(start, (start + bytes.max(1), memory)).is_some() {
                    return Err("memory was given out twice".into());
                }
                self.counts.allocations += 1;
                self.queue(id(4), &Work { uses: vec![(memory, true)], ..Work::default() })
            }
            "free" => {
                let memory = self.find(address(1))?;
                self.counts.frees += 1;
                self.queue(id(3), &Work { uses: vec![(memory, true)], ..Work::default() })?;
                self.live.remove(&address(1));
                Ok(())
            }
            "use" => {
                let mut work = Work::default();
                for pair in words[3..].chunks(2) {
                    match pair {
                        ["reads" | "writes", "0"] => {}
                        [kind @ ("reads" | "writes"), at] => {
                            let at = u64::from_str_radix(at, 16).expect(line);
                            work.uses.push((self.find(at)?, *kind == "writes"));
                        }
                        ["function", function] => work.functions.push(function.parse().expect(line)),
                        other => panic!("{other:?} in {line}"),
                    }
                }
                self.queue(id(2), &work)
            }
            "record" => {
                let stream = id(3);
                self.not_capturing(stream)?;
                let mut clock = self.known.get(&stream).cloned().unwrap_or_default();
                clock.insert(stream, self.queued.get(&stream).copied().unwrap_or(0));
                self.events.insert(id(1), clock);
                Ok(())
            }
            "wait" => {
                self.not_capturing(id(1))?;
                self.counts.waits += 1;
                let learnt = self.events.get(&id(3)).cloned().unwrap_or_default();
                join(self.known.entry(id(1)).or_default(), &learnt);
                Ok(())
            }
            "begin" => {
                self.counts.captures += 1;
                self.capturing.insert(id(1), Work::default());
                Ok(())
            }
            "end" => {
                let work = self.capturing.remove(&id(1)).ok_or("it was not being captured")?;
                self.graphs.insert(id(3), work);
                Ok(())
            }
            "instantiate" => {
                self.execs.insert(id(1), self.graphs.get(&id(3)).cloned().ok_or("there is no such graph")?);
                Ok(())
            }
            "graph" => {
                let mut work = self.execs.get(&id(1)).cloned().ok_or("the graph was destroyed")?;
                work.graphs.push(id(1));
                self.counts.graph_launches += 1;
                self.queue(id(3), &work)
            }
            "destroy" => {
                self.execs.remove(&id(1));
                let holder = self.execs.iter().find(|(_, work)| work.graphs.contains(&id(1)));
                holder.map_or(Ok(()), |(exec, _)| Err(format!("graph {exec} contains it")))
            }
            "synchronize" => {
                self.not_capturing(id(1))?;
                self.underway.retain(|(stream, _)| *stream != id(1));
                if let Some(host) = &mut self.host {
                    join(host, self.known.entry(id(1)).or_default());
                    let queued = self.queued.get(&id(1)).copied().unwrap_or(0);
                    join(host, &Clock::from([(id(1), queued)]));
                }
                Ok(())
            }
            "function" => {
                self.modules.insert(id(1), id(3));
                Ok(())
            }
            "unload" => {
                let module = id(1);
                let functions: Vec<Id> = self.modules.iter().filter(|(_, m)| **m == module).map(|(f, _)| *f).collect();
                for function in functions {
                    if let Some((stream, _)) = self.underway.iter().find(|(_, f)| *f == function) {
                        return Err(format!("its kernel may still run on stream {stream}"));
                    }
                    if let Some((exec, _)) = self.execs.iter().find(|(_, work)| work.functions.contains(&function)) {
                        return Err(format!("graph {exec} launches its kernel"));
                    }
                    self.modules.remove(&function);
                }
                Ok(())
            }
            other => panic!("{other} in {line}"),
        }
    }

    fn not_capturing(&self, stream: Id) -> Result<(), String> {
        if self.capturing.contains_key(&stream) { Err("the stream is being captured".into()) } else { Ok(()) }
    }

    /// The memory at an address.
    fn find(&self, address: u64) -> Result<Memory, String> {
        match self.live.range(..=address).next_back() {
            Some((_, (end, memory))) if address < *end => Ok(*memory),
            _ => Err(format!("there is no memory at {address:x}")),
        }
    }

    /// Work that a stream is asked for: recorded where it is captured, else checked against all that came before.
    fn queue(&mut self, stream: Id, work: &Work) -> Result<(), String> {
        if let Some(captured) = self.capturing.get_mut(&stream) {
            captured.uses.extend(&work.uses);
            captured.functions.extend(&work.functions);
            captured.graphs.extend(&work.graphs);
            return Ok(());
        }
        let number = self.queued.get(&stream).copied().unwrap_or(0) + 1;
        self.counts.works += 1;
        let known = self.known.entry(stream).or_default();
        if let Some(host) = &self.host {
            join(known, host);
        }
        for (memory, write) in &work.uses {
            if !self.live.values().any(|(_, live)| live == memory) {
                return Err(format!("{memory:?} was freed"));
            }
            for (other, earlier, wrote) in self.uses.entry(*memory).or_default() {
                let ordered = *other == stream || known.get(other).copied().unwrap_or(0) >= *earlier;
                if (*write || *wrote) && !ordered {
                    let (now, before) =
                        (if *write { "writes" } else { "reads" }, if *wrote { "wrote" } else { "read" });
                    return Err(format!(
                        "{now} {memory:?}, which work {earlier} of stream {other} {before}, not waited for"
                    ));
                }
            }
        }
        for (memory, write) in &work.uses {
            self.uses.entry(*memory).or_default().push((stream, number, *write));
        }
        for function in &work.functions {
            if !self.modules.contains_key(function) {
                return Err(format!("kernel {function} was unloaded"));
            }
            self.underway.push((stream, *function));
        }
        self.queued.insert(stream, number);
        Ok(())
    }
}

fn join(clock: &mut Clock, other: &Clock) {
    for (stream, number) in other {
        let known = clock.entry(*stream).or_insert(0);
        *known = (*known).max(*number);
    }
}

#[test]
fn the_reader_finds_what_it_is_for() {
    let good = "alloc a0 16 on 1\nuse on 1 writes a0\nrecord 5 on 1\nwait 2 for 5\nuse on 2 reads a8\nrecord 6 on 2\nwait 1 \
                for 6\nfree a0 on 1";
    let counts = check(good).unwrap();
    assert_eq!((counts.works, counts.waits), (4, 2));
    for (missing, words) in [
        ("wait 2 for 5\n", "reads Memory(1), which work 1 of stream 1 wrote"),
        ("wait 1 for 6\n", "writes Memory(1), which work 1 of stream 2 read"),
        ("alloc a0 16 on 1\n", "there is no memory at a0"),
    ] {
        let error = check(&good.replace(missing, "")).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
    // The event is recorded too early.
    let error =
        check("alloc a0 16 on 1\nrecord 5 on 1\nuse on 1 writes a0\nwait 2 for 5\nuse on 2 reads a0").unwrap_err();
    assert!(error.contains("not waited for"), "{error}");
    let waited = "alloc a0 16 on 1\nsynchronize 1\nuse on 2 writes a0";
    check_one_thread(waited).unwrap();
    assert!(check(waited).is_err() && check_one_thread(&waited.replace("synchronize 1\n", "")).is_err());
    let graph = "alloc a0 16 on 1\nfunction 7 of 8\nbegin 9\nuse on 9 writes a0 function 7\nend 9 graph 10\ninstantiate 11 of 10";
    check(&format!("{graph}\ngraph 11 on 1\nfree a0 on 1")).unwrap();
    for (after, words) in [
        ("free a0 on 1\ngraph 11 on 1", "was freed"),
        ("free a0 on 1\nalloc a0 16 on 1\ngraph 11 on 1", "was freed"),
        ("graph 11 on 2", "not waited for"),
        ("unload 8", "graph 11 launches its kernel"),
        ("graph 11 on 1\ndestroy 11\nunload 8", "may still run"),
        ("destroy 11\ngraph 11 on 1", "destroyed"),
        ("begin 12\ngraph 11 on 12\nend 12 graph 13\ninstantiate 14 of 13\ndestroy 11", "graph 14 contains it"),
        ("begin 12\nrecord 5 on 12", "being captured"),
    ] {
        let error = check(&format!("{graph}\n{after}")).expect_err(after);
        assert!(error.contains(words), "{after}: {error}");
    }
}
