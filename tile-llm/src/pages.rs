//! Which pages of the cache are free.

/// The pages of a cache: each is free, or has been taken once.
#[derive(Debug)]
pub struct Pages {
    free: Vec<u32>,
    taken: Vec<bool>,
}

impl Pages {
    /// `count` pages, all free.
    pub fn new(count: usize) -> Pages {
        // Low numbers are taken first. A cache of more pages than a `u32` counts has no use for the rest.
        let count = count.min(u32::MAX as usize);
        Pages { free: (0..count as u32).rev().collect(), taken: vec![false; count] }
    }

    /// How many are free.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.taken.len()
    }

    /// Takes `count` pages, or none: `None` where fewer are free.
    pub fn take(&mut self, count: usize) -> Option<Vec<u32>> {
        let rest = self.free.len().checked_sub(count)?;
        let pages: Vec<u32> = self.free.drain(rest..).rev().collect();
        for &page in &pages {
            self.taken[page as usize] = true;
        }
        Some(pages)
    }

    /// Gives `pages` back. A page that is free already, or is none of these, is ignored: it cannot be handed out twice.
    pub fn give_back(&mut self, pages: Vec<u32>) {
        for page in pages {
            if let Some(taken) = self.taken.get_mut(page as usize)
                && std::mem::take(taken)
            {
                self.free.push(page);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_page_is_handed_out_twice() {
        let mut pages = Pages::new(4);
        let three = pages.take(3).unwrap();
        assert_eq!(three, [0, 1, 2]);
        assert_eq!(pages.take(2), None);
        assert_eq!(pages.free(), 1, "a refused request takes none");
        pages.give_back(vec![1, 1, 9]);
        assert_eq!(pages.free(), 2);
        let mut rest = pages.take(2).unwrap();
        rest.sort_unstable();
        assert_eq!(rest, [1, 3]);
    }
}
