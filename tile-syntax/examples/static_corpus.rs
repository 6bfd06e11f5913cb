//! What the checks say of every kernel in the given folders, and how long each took.
use std::path::Path;
use std::time::Instant;

fn main() {
    let mut total = (0, 0.0f64, 0.0f64);
    for root in std::env::args().skip(1) {
        visit(Path::new(&root), &mut total);
    }
    println!("{} kernels, {:.1} ms, slowest {:.1} ms", total.0, total.1, total.2);
}

fn visit(path: &Path, total: &mut (usize, f64, f64)) {
    if path.is_dir() {
        let mut all: Vec<_> = std::fs::read_dir(path).unwrap().map(|e| e.unwrap().path()).collect();
        all.sort();
        for p in all {
            if p.file_name().is_some_and(|n| n != "target" && n != ".git") {
                visit(&p, total);
            }
        }
    } else if path.extension().is_some_and(|e| e == "rs") {
        let Ok(text) = std::fs::read_to_string(path) else { return };
        let Ok(file) = syn::parse_file(&text) else { return };
        items(path, &file.items, total);
    }
}

fn items(path: &Path, all: &[syn::Item], total: &mut (usize, f64, f64)) {
    for item in all {
        match item {
            syn::Item::Mod(m) => {
                if let Some((_, inner)) = &m.content {
                    items(path, inner, total);
                }
            }
            syn::Item::Fn(f) => {
                let Some(attr) =
                    f.attrs.iter().find(|a| a.path().segments.last().is_some_and(|s| s.ident == "tile_kernel"))
                else {
                    continue;
                };
                let tokens = match &attr.meta {
                    syn::Meta::List(list) => list.tokens.clone(),
                    _ => Default::default(),
                };
                let mut bare = f.clone();
                bare.attrs.retain(|a| !a.path().segments.last().is_some_and(|s| s.ident == "tile_kernel"));
                let item = quote::quote!(#bare);
                let begun = Instant::now();
                let checked = tile_syntax::check_kernel(tokens, item);
                let ms = begun.elapsed().as_secs_f64() * 1e3;
                *total = (total.0 + 1, total.1 + ms, total.2.max(ms));
                if std::env::var_os("TIMES").is_some() && ms > 5.0 {
                    println!(
                        "{ms:.1} ms {} {} ({} instances)",
                        path.display(),
                        f.sig.ident,
                        checked.kernel.instances.len()
                    );
                }
                if !checked.deferred.is_empty() {
                    println!("{}: {} deferred", path.display(), f.sig.ident);
                }
                if std::env::var_os("STDERR").is_some() && checked.diagnostics.len() == 1 {
                    let d = &checked.diagnostics[0];
                    let span = &checked.kernel.spans[d.primary];
                    let text: Vec<String> = d
                        .compiler_text(&checked.kernel)
                        .lines()
                        .enumerate()
                        .map(|(i, l)| if i == 0 { format!("error: {l}") } else { format!("       {l}") })
                        .collect();
                    let line =
                        std::fs::read_to_string(path).unwrap().lines().nth(span.line as usize - 1).unwrap().to_owned();
                    let w = span.line.to_string().len();
                    let out = format!(
                        "{}\n{:w$}--> {}:{}:{}\n{:w$} |\n{} | {line}\n{:w$} | {}{}\n",
                        text.join("\n"),
                        "",
                        path.display(),
                        span.line,
                        span.column,
                        "",
                        span.line,
                        "",
                        " ".repeat(span.column as usize - 1),
                        "^".repeat((span.end_column - span.column) as usize)
                    );
                    let file = path.with_extension("stderr");
                    match std::fs::read_to_string(&file) {
                        Ok(old) if old == out => println!("same {}", path.display()),
                        Ok(_) => println!("differs {}\n{out}", path.display()),
                        Err(_) => std::fs::write(file, out).unwrap(),
                    }
                    continue;
                }
                for d in &checked.diagnostics {
                    let span = &checked.kernel.spans[d.primary];
                    println!("{}:{}: {} [{}] {} | {}", path.display(), span.line, f.sig.ident, d.code, d.message, d.at);
                }
            }
            _ => {}
        }
    }
}
