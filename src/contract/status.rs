//! States of runs and nodes (contract §7).

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

macro_rules! status {
    ($(#[$doc:meta])* $type:ident { $($(#[$vdoc:meta])* $n:literal $variant:ident $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
        #[cbor(index_only)]
        pub enum $type {
            $($(#[$vdoc])* #[n($n)] #[serde(rename = $text)] $variant,)*
        }

        impl $type {
            /// Every state, in the contract's order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the contract's word for it.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

status!(
    /// The state of a run.
    RunStatus {
        /// Waits for a run slot.
        0 Queued "QUEUED",
        /// Nodes start as their needs allow.
        1 Running "RUNNING",
        /// Held: no node starts, running ones finish.
        2 Pausing "PAUSING",
        /// Held, and nothing runs.
        3 Paused "PAUSED",
        /// Told to stop; leads only to STOPPED.
        4 Stopping "STOPPING",
        /// Every node succeeded or was skipped by command or condition.
        5 Succeeded "SUCCEEDED",
        /// Ended with a node that failed, was stopped, or was skipped below a failure.
        6 Failed "FAILED",
        /// Ended by a stop.
        7 Stopped "STOPPED",
    }
);

impl RunStatus {
    /// Says whether the run has ended.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Stopped)
    }

    /// Says whether the run takes one of the run slots.
    #[must_use]
    pub fn uses_slot(self) -> bool {
        matches!(self, Self::Running | Self::Pausing | Self::Stopping)
    }
}

status!(
    /// The state of a node in one run.
    NodeStatus {
        /// A need has not ended well yet.
        0 Pending "PENDING",
        /// May start: waits for a slot, the run, or its retry delay.
        1 Ready "READY",
        /// An attempt runs.
        2 Running "RUNNING",
        /// Waits for an answer, a time, or a child run.
        3 Waiting "WAITING",
        /// Its processes are frozen, or its input waits under a hold.
        4 Paused "PAUSED",
        /// Held before or after its work.
        5 Held "HELD",
        /// Its last attempt ended well.
        6 Succeeded "SUCCEEDED",
        /// Its last attempt failed and no retry is left.
        7 Failed "FAILED",
        /// Did not run, and why says whether dependents may.
        8 Skipped "SKIPPED",
        /// Ended by a command.
        9 Stopped "STOPPED",
    }
);

impl NodeStatus {
    /// Says whether the node has ended.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Succeeded | Self::Failed | Self::Skipped | Self::Stopped
        )
    }
}

status!(
    /// Why a node is in its state, where the state alone does not say.
    Why {
        /// SKIPPED: a need failed, was stopped, or was itself skipped for this reason. Satisfies nobody.
        0 Upstream "upstream",
        /// SKIPPED: by a command. Satisfies dependents.
        1 Command "command",
        /// SKIPPED: its `when` was false. Satisfies dependents.
        2 Condition "condition",
        /// FAILED: the attempt took longer than its `timeout`.
        3 Timeout "timeout",
        /// FAILED: the process ended with a code other than 0, or by a signal.
        4 Exit "exit",
        /// FAILED: the process could not be started.
        5 NotStarted "not_started",
        /// FAILED: the attempt was lost with its shim.
        6 HostLost "host_lost",
        /// READY: waits for its retry delay after a failure.
        7 Retry "retry",
        /// STOPPED: with its run.
        8 RunStopped "run_stopped",
    }
);
