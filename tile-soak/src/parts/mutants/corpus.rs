//! Which edit a case makes: classes in fixed shares, and within a class kernel after kernel, each one's edits in an order of
//! the seed.

use super::edit::{Class, Edit};
use super::edits::edits;
use crate::kernels::setup::{Setup, setups};
use crate::kernels::source::{Source, library};
use crate::part::Case;
use rand::Rng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// An original kernel, with all its edits, and launches that are made when they are first asked for.
pub struct Original {
    /// Where it stands, and its text.
    pub source: &'static Source,
    edits: Vec<Edit>,
    setups: OnceLock<Result<Vec<Setup>, String>>,
}

impl Original {
    /// Launches that are right.
    ///
    /// # Errors
    /// The kernel is flagged, or no launch of it was found.
    pub fn setups(&self) -> Result<&[Setup], String> {
        self.setups.get_or_init(|| setups(self.source)).as_deref().map_err(Clone::clone)
    }
}

/// The originals.
pub fn originals() -> &'static [Original] {
    static ORIGINALS: OnceLock<Vec<Original>> = OnceLock::new();
    ORIGINALS.get_or_init(|| {
        let original = |source| Original { source, edits: edits(&source.text), setups: OnceLock::new() };
        library().kernels.iter().map(original).collect()
    })
}

/// A mutant: an original and one of its edits.
#[derive(Clone, Copy)]
pub struct Mutant {
    /// The original.
    pub original: &'static Original,
    /// What was done to it.
    pub edit: &'static Edit,
}

impl Mutant {
    /// Its text.
    pub fn text(&self) -> String {
        self.edit.apply(&self.original.source.text)
    }
}

/// The mutant of a case.
pub fn mutant(case: Case) -> Mutant {
    static DECKS: Mutex<BTreeMap<u64, Arc<Deck>>> = Mutex::new(BTreeMap::new());
    let mut decks = DECKS.lock().unwrap_or_else(PoisonError::into_inner);
    let deck = decks.entry(case.seed).or_insert_with(|| Arc::new(Deck::new(case.seed))).clone();
    drop(decks);
    deck.mutant(case.number)
}

/// How many different edits there are of each class.
pub fn counts() -> Vec<(&'static str, usize)> {
    let of = |class| originals().iter().flat_map(|o| &o.edits).filter(|e| e.class == class).count();
    Class::ALL.iter().map(|(class, name, _)| (*name, of(*class))).collect()
}

/// The order of a seed.
struct Deck {
    /// The classes of a round, each as often as its share.
    round: Vec<Class>,
    /// Of each class, all mutants.
    order: BTreeMap<Class, Vec<Mutant>>,
}

impl Deck {
    fn new(seed: u64) -> Deck {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut round: Vec<Class> =
            Class::ALL.iter().flat_map(|(class, _, share)| std::iter::repeat_n(*class, *share)).collect();
        round.shuffle(&mut rng);
        let order = Class::ALL.iter().map(|(class, ..)| {
            // By rank within the kernel, so that those with many edits come no sooner.
            let mut ranked: Vec<(usize, u64, Mutant)> = vec![];
            for original in originals() {
                let mut edits: Vec<&'static Edit> = original.edits.iter().filter(|e| e.class == *class).collect();
                edits.shuffle(&mut rng);
                for (rank, edit) in edits.into_iter().enumerate() {
                    ranked.push((rank, rng.random(), Mutant { original, edit }));
                }
            }
            ranked.sort_by_key(|(rank, random, _)| (*rank, *random));
            (*class, ranked.into_iter().map(|(.., mutant)| mutant).collect())
        });
        Deck { round, order: order.collect() }
    }

    fn mutant(&self, number: u64) -> Mutant {
        let (rounds, place) = (number as usize / self.round.len(), number as usize % self.round.len());
        let class = self.round[place];
        let share = self.round.iter().filter(|c| **c == class).count();
        let before = self.round[..place].iter().filter(|c| **c == class).count();
        let order = &self.order[&class];
        order[(rounds * share + before) % order.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_thousand_cases_are_different_mutants() {
        let mut texts = std::collections::BTreeSet::new();
        let mut classes = BTreeMap::<Class, usize>::new();
        for number in 0..4388 {
            let mutant = mutant(Case { number, seed: 0 });
            texts.insert((mutant.original.source.id.clone(), mutant.text()));
            *classes.entry(mutant.edit.class).or_default() += 1;
        }
        for (class, _, share) in Class::ALL {
            assert_eq!(classes[&class], 2 * share, "{class:?}");
        }
        assert!(texts.len() > 4000, "{} different ones; {:?}", texts.len(), counts());
    }
}
