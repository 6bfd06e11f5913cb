//! Whether a shared library is whole, asked before it is opened: of one that is cut short (half an install, a full disk) the
//! dynamic linker maps pages that the file does not have, and the process dies of SIGBUS where it touches one.
//!
//! Read are the headers alone: how long the file is by its segments and by its section table. What is no 64-bit ELF file of
//! the usual byte order is left to the linker, which refuses it with words.
//!
//! Source: System V ABI, chapter 4 "ELF header" and chapter 5 "Program header"; glibc's `ld.so.cache` as in
//! `sysdeps/generic/dl-cache.h`.

use std::env;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Bytes of the ELF header and of a program header, of 64-bit files.
const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;

/// Says why a library must not be opened: its file is shorter than its headers say. A plain name is looked for where the
/// linker would; one that cannot be read or found is the linker's to refuse.
pub(super) fn refuse_truncated(path: &Path) -> Result<(), String> {
    let plain = path.parent().is_some_and(|folder| folder.as_os_str().is_empty());
    let file = if plain { linked(path) } else { Some(path.to_owned()) };
    let Some(file) = file else { return Ok(()) };
    match lengths(&file) {
        Some((needed, found)) if found < needed => {
            let name = if plain { format!("{}: ", file.display()) } else { String::new() };
            Err(format!(
                "{name}the file is cut short: its headers describe {needed} bytes, it has {found}; install it again"
            ))
        }
        _ => Ok(()),
    }
}

/// How many bytes an ELF file must have by its headers, and how many it has; `None` of any other file.
fn lengths(path: &Path) -> Option<(u64, u64)> {
    let mut file = File::open(path).ok()?;
    let found = file.metadata().ok().filter(|m| m.is_file())?.len();
    let mut header = [0; HEADER];
    let read = read_up_to(&mut file, &mut header);
    // 64 bits, least significant byte first.
    if read < 6 || header[..6] != [0x7f, b'E', b'L', b'F', 2, 1] {
        return None;
    }
    if read < HEADER {
        return Some((HEADER as u64, found));
    }
    let (segments, sections) = (word(&header, 32), word(&header, 40));
    let [segment_bytes, segment_count, section_bytes, section_count] = [54, 56, 58, 60].map(|at| half(&header, at));
    let mut needed = HEADER as u64;
    needed = needed.max(segments.saturating_add(segment_bytes.saturating_mul(segment_count)));
    if sections != 0 {
        needed = needed.max(sections.saturating_add(section_bytes.saturating_mul(section_count)));
    }
    // What lies behind the end of the file cannot be read, and need not be: the file is too short already.
    if needed <= found && segment_bytes >= PROGRAM_HEADER as u64 {
        for segment in 0..segment_count {
            let mut entry = [0; PROGRAM_HEADER];
            file.seek(SeekFrom::Start(segments + segment * segment_bytes)).ok()?;
            if read_up_to(&mut file, &mut entry) < PROGRAM_HEADER {
                return None;
            }
            needed = needed.max(word(&entry, 8).saturating_add(word(&entry, 32)));
        }
    }
    Some((needed, found))
}

fn read_up_to(file: &mut File, bytes: &mut [u8]) -> usize {
    let mut done = 0;
    while done < bytes.len() {
        match file.read(&mut bytes[done..]) {
            Ok(0) | Err(_) => break,
            Ok(n) => done += n,
        }
    }
    done
}

fn half(bytes: &[u8], at: usize) -> u64 {
    u64::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// The file that the dynamic linker takes for a plain name.
fn linked(name: &Path) -> Option<PathBuf> {
    let folders = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let in_folders = env::split_paths(&folders).map(|folder| folder.join(name)).find(|file| file.is_file());
    in_folders.or_else(|| cached(&std::fs::read("/etc/ld.so.cache").ok()?, name.to_str()?)).or_else(|| {
        ["/lib64", "/usr/lib64", "/lib", "/usr/lib"].iter().map(|f| Path::new(f).join(name)).find(|file| file.is_file())
    })
}

/// What `ld.so.cache` says of a name: its first 64-bit file.
fn cached(cache: &[u8], name: &str) -> Option<PathBuf> {
    const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
    const CACHE_HEADER: usize = 48;
    const ENTRY: usize = 24;
    let start = cache.windows(MAGIC.len()).position(|bytes| bytes == MAGIC)?;
    let cache = &cache[start..];
    let number = |at: usize| Some(u32::from_le_bytes(cache.get(at..at + 4)?.try_into().ok()?) as usize);
    let text = |at: usize| {
        let bytes = cache.get(at..)?;
        std::str::from_utf8(&bytes[..bytes.iter().position(|byte| *byte == 0)?]).ok()
    };
    let count = number(MAGIC.len())?.min(cache.len() / ENTRY);
    let entries = (0..count).map(|i| CACHE_HEADER + i * ENTRY);
    let files = entries.filter(|at| number(at + 4).and_then(text) == Some(name)).filter_map(|at| text(number(at + 8)?));
    files.map(PathBuf::from).find(|file| lengths(file).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn folder(name: &str) -> PathBuf {
        let folder = env::temp_dir().join(format!("tile-elf-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// This test program is a whole ELF file; none of its beginnings is.
    #[test]
    fn every_file_that_is_cut_short_is_refused() {
        let folder = folder("cut");
        let whole = fs::read(env::current_exe().unwrap()).unwrap();
        let path = folder.join("library.so");
        fs::write(&path, &whole).unwrap();
        refuse_truncated(&path).unwrap();
        for part in [6, 63, 64, 65, 200, 4096, whole.len() / 2, whole.len() - 4097, whole.len() - 1] {
            fs::write(&path, &whole[..part]).unwrap();
            let problem = refuse_truncated(&path).unwrap_err();
            assert!(problem.contains(&format!("it has {part}; install it again")), "{problem}");
            // And so it is never handed to the linker.
            assert_eq!(super::super::open(&path).map(drop), Err(problem));
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_is_no_library_is_left_to_the_linker() {
        let folder = folder("other");
        let path = folder.join("library.so");
        for bytes in
            [&b""[..], b"\x7fELF", b"text that is longer than a header of an ELF file, by a good many bytes ......"]
        {
            fs::write(&path, bytes).unwrap();
            refuse_truncated(&path).unwrap();
            assert!(super::super::open(&path).is_err());
        }
        refuse_truncated(&folder).unwrap();
        refuse_truncated(&folder.join("missing.so")).unwrap();
        refuse_truncated(Path::new("libthere-is-no-such.so.9")).unwrap();
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn plain_names_are_found_as_the_linker_does() {
        if let Some(libc) = linked(Path::new("libc.so.6")) {
            let (needed, found) = lengths(&libc).unwrap();
            assert!(needed <= found, "{}", libc.display());
        } else {
            eprintln!("SKIPPED: no glibc");
        }
        // Any damage of the cache leads nowhere or to a file, never to a panic.
        let cache = fs::read("/etc/ld.so.cache").unwrap_or_default();
        for part in (0..cache.len()).step_by(cache.len() / 200 + 1) {
            cached(&cache[..part], "libc.so.6");
            let mut damaged = cache.clone();
            damaged[part] ^= 0xff;
            cached(&damaged, "libc.so.6");
        }
    }
}
