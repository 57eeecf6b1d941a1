//! The teeth of the model test: every seeded fault of the core must be seen by it.

use signalbox::core::fault::{self, Fault};
use signalbox_model::coverage::Coverage;

use super::compare::{Played, play};
use super::number;

#[test]
fn every_seeded_fault_is_caught() {
    let seeds = number("SIGNALBOX_MODEL_SEEDS", 400);
    let base = number("SIGNALBOX_MODEL_SEED_BASE", 0);
    assert!(
        Fault::ALL.len() >= 30,
        "there are {} seeded faults",
        Fault::ALL.len()
    );
    let mut missed = Vec::new();
    for fault in Fault::ALL {
        fault::switch(Some(*fault));
        let caught = (base..base + seeds).find(|seed| {
            // A fault may also break what the harness itself asserts: that is caught too.
            let play = std::panic::AssertUnwindSafe(|| play(*seed, &mut Coverage::default()));
            matches!(quietly(play), Err(_) | Ok(Played::Differs(_)))
        });
        fault::switch(None);
        match caught {
            Some(seed) => println!("{fault:?}: caught by seed {seed}"),
            None => missed.push(fault),
        }
    }
    assert!(
        missed.is_empty(),
        "seeded faults that no sequence showed: {missed:?}"
    );
}

/// Runs something that may panic, without the panic's text.
fn quietly<T>(work: impl FnOnce() -> T + std::panic::UnwindSafe) -> std::thread::Result<T> {
    std::panic::set_hook(Box::new(|_| {}));
    let result = std::panic::catch_unwind(work);
    let _ = std::panic::take_hook();
    result
}
