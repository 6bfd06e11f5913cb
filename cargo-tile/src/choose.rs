//! Which kernel, instance, dims and target are meant.

use crate::kernels::Found;
use anyhow::{Context, Result, bail};
use tile_ir::ir::{ConstKind, Instance, Kernel, Target};
use tile_runtime::kernel::instance_text;

/// The kernel called `name`, or that stands at `name`: `src/lib.rs:12`.
pub fn kernel<'f>(found: &'f [Found], name: &str) -> Result<&'f Found> {
    let called: Vec<&Found> = found.iter().filter(|f| f.definition.name() == name || f.place() == name).collect();
    match called.as_slice() {
        [one] => Ok(one),
        [] => bail!("{}", unknown(found, name)),
        several => {
            let places: Vec<String> = several.iter().map(|f| f.place()).collect();
            bail!("there are {} kernels `{name}`; give the place of one: {}", several.len(), places.join(", "))
        }
    }
}

fn unknown(found: &[Found], name: &str) -> String {
    if found.is_empty() {
        return format!(
            "there is no kernel `{name}`: none of the checked targets has kernels. \
             Kernels of examples and tests are found with --all-targets, --example or --test"
        );
    }
    let names: Vec<&str> = found.iter().map(|f| f.definition.name()).collect();
    let near = names.iter().copied().max_by(|a, b| strsim::jaro(a, name).total_cmp(&strsim::jaro(b, name)));
    let near = near.filter(|near| strsim::jaro(near, name) > 0.7).map(|near| format!(" Did you mean `{near}`?"));
    format!("there is no kernel `{name}`.{} There is {}", near.unwrap_or_default(), names.join(", "))
}

/// The instances that `asked` describes, by number: all of them where nothing is asked.
pub fn instances(kernel: &Kernel, asked: &str) -> Result<Vec<usize>> {
    let count = kernel.instances.len();
    if let Some(number) = asked.strip_prefix('#') {
        let number: usize = number.trim().parse().with_context(|| format!("`{asked}` is no number of an instance"))?;
        if number >= count {
            bail!("`{}` has {count} instances, #0 to #{}; there is no #{number}", kernel.name, count - 1);
        }
        return Ok(vec![number]);
    }
    let parts = asked.split([',', ' ']).map(str::trim).filter(|part| !part.is_empty());
    let parts: Vec<(Option<&str>, &str)> = parts
        .map(|part| match part.split_once('=') {
            Some((name, value)) => (Some(name.trim()), value.trim()),
            None => (None, part.trim_matches(['<', '>'])),
        })
        .collect();
    let names: Vec<&str> = parameters(kernel).collect();
    if let Some((Some(name), _)) = parts.iter().find(|(name, _)| name.is_some_and(|name| !names.contains(&name))) {
        let there = if names.is_empty() { "none".into() } else { names.join(", ") };
        bail!("`{}` has no dtype or const parameter `{name}`; it has {there}", kernel.name);
    }
    if parts.iter().filter(|(name, _)| name.is_none()).count() > names.len() {
        bail!("`{}` has {} dtype and const parameters: `{asked}` names more", kernel.name, names.len());
    }
    let fits = |instance: &&Instance| {
        let values = values(kernel, instance);
        let mut next = 0;
        parts.iter().all(|(name, wanted)| match name {
            Some(name) => names.iter().position(|n| n == name).is_some_and(|at| same(&values[at], wanted)),
            None => {
                // Dtypes may be left out before constants.
                let dtypes = kernel.type_params.len();
                if next < dtypes && !is_dtype(wanted) {
                    next = dtypes;
                }
                let fits = values.get(next).is_some_and(|value| same(value, wanted));
                next += 1;
                fits
            }
        })
    };
    let found: Vec<usize> = (0..count).filter(|i| fits(&&kernel.instances[*i])).collect();
    if found.is_empty() {
        let mut declared: Vec<String> = kernel.instances.iter().take(24).map(|i| instance_text(kernel, i)).collect();
        if count > declared.len() {
            declared.push(format!("and {} more", count - declared.len()));
        }
        bail!("[TK0706] kernel `{}` has no instance `{asked}`; declared: {}", kernel.name, declared.join("; "));
    }
    Ok(found)
}

/// One instance; where `asked` fits several, the first, and it is said.
pub fn instance(kernel: &Kernel, asked: &[String]) -> Result<usize> {
    let asked = match asked {
        [] => "",
        [one] => one,
        _ => bail!("one instance at a time"),
    };
    let found = instances(kernel, asked)?;
    let first = found.first().copied().context("there is no instance")?;
    if found.len() > 1 {
        let shown = instance_text(kernel, &kernel.instances[first]);
        crate::process::say(format!(
            "{} instances fit; this is #{first}, {shown}. `--instance` chooses another",
            found.len()
        ));
    }
    Ok(first)
}

fn parameters(kernel: &Kernel) -> impl Iterator<Item = &str> {
    kernel.type_params.values().map(|t| t.name.as_str()).chain(kernel.consts.values().map(|c| c.name.as_str()))
}

/// The dtypes and constants of an instance, as text.
fn values(kernel: &Kernel, instance: &Instance) -> Vec<String> {
    let dtypes = instance.dtypes.iter().map(|dtype| dtype.name().to_owned());
    let consts = instance.consts.iter().zip(kernel.consts.values()).map(|(value, param)| match param.kind {
        ConstKind::Bool => (*value != 0).to_string(),
        ConstKind::Usize => value.to_string(),
    });
    dtypes.chain(consts).collect()
}

fn same(value: &str, wanted: &str) -> bool {
    value == wanted || matches!((value, wanted), ("true", "1") | ("false", "0"))
}

/// Whether a word is the name of a dtype.
fn is_dtype(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic()) && word != "true" && word != "false"
}

/// `NAME=VALUE` pairs.
pub fn numbers(given: &[String]) -> Result<Vec<(String, f64)>> {
    let mut found = Vec::new();
    for (name, values) in lists(given)? {
        match values.as_slice() {
            [one] => found.push((name, *one)),
            _ => bail!("`{name}` has {} values; here it takes one", values.len()),
        }
    }
    Ok(found)
}

/// `NAME=VALUE,VALUE` pairs.
pub fn lists(given: &[String]) -> Result<Vec<(String, Vec<f64>)>> {
    let mut found: Vec<(String, Vec<f64>)> = Vec::new();
    for pair in given {
        let (name, values) = pair.split_once('=').with_context(|| format!("`{pair}` is not NAME=VALUE"))?;
        let number = |text: &str| {
            let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
            number.with_context(|| format!("`{pair}`: `{text}` is not a number"))
        };
        if found.iter().any(|(other, _)| other == name.trim()) {
            bail!("`{}` is given twice", name.trim());
        }
        found.push((name.trim().to_owned(), values.split(',').map(number).collect::<Result<_>>()?));
    }
    Ok(found)
}

/// Refuses values of dims that are not whole numbers from 1 (an extent may be 0, but nothing can be seen there) to 2^31 - 1.
pub fn whole(kernel: &Kernel, values: &[(String, Vec<f64>)]) -> Result<()> {
    for (name, values) in values.iter().filter(|(name, _)| kernel.dims.values().any(|dim| dim.name == *name)) {
        if let Some(wrong) = values.iter().find(|v| v.fract() != 0.0 || !(0.0..=f64::from(i32::MAX)).contains(*v)) {
            bail!("the dim `{name}` cannot be {wrong}: dims are whole numbers from 0 to {}", i32::MAX);
        }
    }
    Ok(())
}

/// Values of specialised dims.
pub fn dims(kernel: &Kernel, given: &[String]) -> Result<Vec<(String, i64)>> {
    let given = lists(given)?;
    whole(kernel, &given)?;
    for (name, values) in &given {
        if values.len() != 1 || values[0].fract() != 0.0 {
            bail!("`{name}` takes one whole number here");
        }
    }
    Ok(given.into_iter().map(|(name, values)| (name, values[0] as i64)).collect())
}

/// The target that is asked for, if the kernel is declared for it; else the newest that it is declared for.
pub fn target(kernel: &Kernel, asked: Option<Target>) -> Result<Target> {
    let can = |target: &Target| kernel.targets.is_empty() || kernel.targets.contains(target);
    match asked {
        Some(asked) if !can(&asked) => {
            let declared: Vec<&str> = kernel.targets.iter().map(|target| target.name()).collect();
            bail!("kernel `{}` is declared for {}, not for {asked}", kernel.name, declared.join(", "))
        }
        Some(asked) => Ok(asked),
        None => [Target::Sm90a, Target::Sm80].into_iter().find(can).context("the kernel has no target"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_names_and_numbers() {
        let given = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(numbers(&given(&["N=4096", "alpha=0.5"])).unwrap(), [("N".into(), 4096.0), ("alpha".into(), 0.5)]);
        assert_eq!(lists(&given(&["K=1,64"])).unwrap(), [("K".into(), vec![1.0, 64.0])]);
        for wrong in [&["N"][..], &["N=x"], &["N="], &["N=1,2"], &["N=1", "N=2"], &["N=inf"]] {
            assert!(numbers(&given(wrong)).is_err(), "{wrong:?}");
        }
    }
}
