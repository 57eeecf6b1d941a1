//! The model of the Signalbox core: a naive reference, written from the contract and not from the core, and
//! what makes and judges random sequences for both.
//!
//! In reading order: [`step`] is what happens to the host, [`seen`] what somebody outside sees of it,
//! [`mod@reference`] says what must be seen, [`operations`] is its own transcription of the operations,
//! [`generate`] makes sequences, [`coverage`] counts what they reach.

pub mod choices;
pub mod coverage;
pub mod generate;
pub mod operations;
pub mod reference;
pub mod seen;
pub mod step;

#[cfg(test)]
mod tests {
    use crate::coverage::Coverage;
    use crate::generate::Generator;
    use crate::reference::Reference;

    /// Plays a seed; gives a digest of all that was seen.
    fn play(seed: u64, coverage: &mut Coverage) -> (usize, String) {
        let mut generator = Generator::new(seed);
        let mut reference = Reference::new(generator.settings());
        let (mut steps, mut seen_last) = (0, String::new());
        coverage.begin();
        while let Some(timed) = generator.next(&reference) {
            let seen = reference.step(&timed);
            coverage.count(&timed, &seen, &reference.take_notes());
            generator.learn(&seen);
            steps += 1;
            seen_last = format!("{timed} {seen:?}");
        }
        (steps, format!("{seen_last}\n{}", reference.state()))
    }

    #[test]
    fn four_hundred_seeds_reach_every_class() {
        let mut coverage = Coverage::default();
        let steps: usize = (0..400).map(|seed| play(seed, &mut coverage).0).sum();
        println!("{coverage}");
        assert_eq!(steps, 200_000);
        assert_eq!(coverage.missing(), Vec::<String>::new());
    }

    #[test]
    fn a_seed_gives_the_same_sequence_each_time() {
        for seed in [0, 3, 18] {
            let mut coverage = Coverage::default();
            assert_eq!(play(seed, &mut coverage), play(seed, &mut coverage));
        }
    }
}
