//! Seeded faults: wrong behaviour that a test switches on for its thread, to show that the model
//! test sees it. Without the feature `seeded-faults` every question is answered no at compile time.

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One seeded fault.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Fault {
            $($(#[$doc])* $name,)*
        }

        impl Fault {
            /// Every seeded fault.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
}

faults! {
    /// A save does not change who sees the events of runs that exist.
    StaleAudience,
    /// Ownership is checked before existence.
    OwnershipBeforeExistence,
    /// `ifStatus` is checked after the end state.
    IfStatusAfterState,
    /// allowedCommands is not checked.
    AllowedSkipped,
    /// The initiative list is not checked.
    InitiativeListSkipped,
    /// The initiative rate allows one more.
    InitiativeOffByOne,
    /// The initiative window is a second too short.
    InitiativeWindowShort,
    /// A command at own initiative needs no reason.
    ReasonSkipped,
    /// A cause is good for one command more.
    CauseBudgetOffByOne,
    /// A cause never gets too old.
    CauseNeverExpires,
    /// An event that was never sent is a cause.
    CauseFromFuture,
    /// A tick is a cause before any was sent.
    TickWithoutTick,
    /// The flood limit allows one more.
    FloodOffByOne,
    /// Refused messages do not count as flood.
    FloodCountsAcceptedOnly,
    /// A stale session is not refused.
    StaleSessionAccepted,
    /// A key is forgotten after a refusal.
    RefusalNotRemembered,
    /// A key with another fingerprint gives the first answer.
    ConflictReplays,
    /// A replayed answer does not say so.
    ReplayUnmarked,
    /// A transient refusal is remembered.
    TransientRemembered,
    /// Selectors go on past 200.
    SelectorUncut,
    /// A selector takes the newest first.
    SelectorNewestFirst,
    /// A selector takes ended runs too.
    SelectorTakesEnded,
    /// A verdict is accepted from any supervisor.
    ForeignVerdict,
    /// A verdict is accepted twice.
    VerdictTwice,
    /// A review that times out allows everything.
    TimeoutAllows,
    /// A review that times out allows nothing.
    TimeoutRefusesStop,
    /// Ownership is not checked again when a review ends.
    NoRecheckOfOwner,
    /// `ifStatus` is not checked again when a review ends.
    NoRecheckOfStatus,
    /// A review waits although the engine has been gone for long.
    GoneEngineAwaited,
    /// Equal open requests of one actor do not join.
    EqualReviewsApart,
    /// One review more may be open.
    OpenReviewsOffByOne,
    /// Resume forgets one hold.
    ResumeForgetsHold,
    /// An engine's resume clears persons' holds too.
    EngineClearsPersons,
    /// A pause forgets who held.
    PauseDropsHolder,
    /// A stop leaves READY nodes.
    StopLeavesReady,
    /// A failed node is retried while its run stops.
    RetryWhileStopping,
    /// Automatic retries allow one more.
    RetryOffByOne,
    /// A retry leaves the nodes below skipped.
    RetryLeavesDownstream,
    /// A retry goes under a need that is not satisfied.
    RetryUnderFailure,
    /// A node skipped for a failure above satisfies the nodes below.
    UpstreamSkipSatisfies,
    /// Run slots allow one more.
    RunSlotOffByOne,
    /// Node slots allow one more.
    NodeSlotOffByOne,
    /// Priority is ignored.
    PriorityIgnored,
    /// The queue limit allows one more.
    QueueLimitOffByOne,
    /// A late report of an old attempt ends the newer one.
    StaleReportCounts,
    /// A killed attempt that returned 0 counts as success.
    StopExitZeroSucceeds,
    /// The kill never comes.
    KillForgotten,
    /// A supervisor sees the outcomes of its own commands.
    OwnOutcomeShown,
    /// The owner of a node does not see its run's status.
    ContextStatusHidden,
    /// Commands are not numbered.
    OrderStandsStill,
    /// An attempt's timeout counts as a success when the program returns 0.
    TimeoutExitZeroSucceeds,
    /// Ticks queue up instead of collapsing.
    TicksQueue,
}

#[cfg(feature = "seeded-faults")]
mod switch {
    use super::Fault;
    use std::cell::Cell;

    thread_local! {
        static ON: Cell<Option<Fault>> = const { Cell::new(None) };
    }

    /// Switches one fault on for this thread, or all off.
    pub fn switch(fault: Option<Fault>) {
        ON.set(fault);
    }

    /// Says whether the fault is switched on for this thread.
    #[must_use]
    pub fn on(fault: Fault) -> bool {
        ON.get() == Some(fault)
    }
}

#[cfg(feature = "seeded-faults")]
pub use switch::{on, switch};

/// Says that the fault is not switched on: this build has none.
#[cfg(not(feature = "seeded-faults"))]
#[must_use]
#[inline(always)]
pub(crate) const fn on(_: Fault) -> bool {
    false
}
