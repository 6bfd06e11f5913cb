//! Stop strings: an answer ends before the first of them.

/// Looks for stop strings in a text that arrives in pieces.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    strings: Vec<String>,
    /// The end of the text, which may be the beginning of a stop string.
    held: String,
}

impl Stop {
    /// For these strings; empty ones are left out, because every text has them.
    pub fn new(strings: Vec<String>) -> Stop {
        Stop { strings: strings.into_iter().filter(|string| !string.is_empty()).collect(), held: String::new() }
    }

    /// Takes a piece: the text that can be handed out, and whether a stop string ends it there.
    pub fn push(&mut self, piece: &str) -> (String, bool) {
        self.held.push_str(piece);
        if let Some(at) = self.strings.iter().filter_map(|string| self.held.find(string.as_str())).min() {
            self.held.truncate(at);
            return (std::mem::take(&mut self.held), true);
        }
        let begins = |at: &usize| self.strings.iter().any(|string| string.starts_with(&self.held[*at..]));
        let safe = self.held.char_indices().map(|(at, _)| at).find(begins).unwrap_or(self.held.len());
        let rest = self.held.split_off(safe);
        (std::mem::replace(&mut self.held, rest), false)
    }

    /// What was held back, when no text follows.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_string_is_found_across_pieces_and_never_handed_out() {
        let text = "one €nd two\n\nthree";
        for (stops, expected) in [
            (vec!["\n\n"], "one €nd two"),
            (vec!["€nd"], "one "),
            (vec!["three!", "nd tw"], "one €"),
            (vec!["absent", ""], text),
            (vec!["two\n\nx", "o\n\nt"], "one €nd tw"),
        ] {
            for width in 1..6 {
                let mut stop = Stop::new(stops.iter().map(|&string| string.to_owned()).collect());
                let characters: Vec<char> = text.chars().collect();
                let mut out = String::new();
                let mut ended = false;
                for piece in characters.chunks(width) {
                    let (more, end) = stop.push(&piece.iter().collect::<String>());
                    out.push_str(&more);
                    ended = end;
                    if end {
                        break;
                    }
                }
                if !ended {
                    out.push_str(&stop.finish());
                }
                assert_eq!((out.as_str(), ended), (expected, expected != text), "{stops:?} in pieces of {width}");
            }
        }
    }
}
