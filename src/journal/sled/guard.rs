//! Turns the embedded store's panics on damaged files into values, without panic text.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static QUIET: Cell<u32> = const { Cell::new(0) };
}

static HOOK: Once = Once::new();

/// Runs a call into the store; a panic comes back as its text.
///
/// The first call puts a hook before the process's panic hook. It keeps silent for panics inside such calls and for
/// the store's own I/O threads, and passes on every other panic.
pub(super) fn quiet<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            let store_thread = std::thread::current()
                .name()
                .is_some_and(|name| name.starts_with("sled-io-"));
            // A thread that is going down may have lost its flag already.
            let inside = QUIET.try_with(|depth| depth.get() > 0).unwrap_or(false);
            if !store_thread && !inside {
                before(info);
            }
        }));
    });
    QUIET.with(|depth| depth.set(depth.get() + 1));
    let result = catch_unwind(AssertUnwindSafe(call));
    QUIET.with(|depth| depth.set(depth.get() - 1));
    result.map_err(|panic| text(panic.as_ref()))
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    // Only the first line: what follows is a dump of the store's insides.
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(160).collect()
}
