//! Ticks: points of a fixed grid of host time, so that no restart or delay shifts them (C15).
//!
//! Ticks never queue: what could not be sent in time is one tick with `missed`.

use crate::contract::time::HostTime;
use crate::core::effect::{Output, SessionMessage};
use crate::core::fault::{self, Fault};
use crate::core::turn::Turn;

/// Returns the newest point of the grid that is not after `now`.
pub(in crate::core) fn grid(now: HostTime, period: u64) -> HostTime {
    HostTime(now.0 - now.0 % period.max(1))
}

/// Takes up the tick period of a definition, or of the hello where it has none. A new period begins now.
pub(in crate::core) fn set_period(turn: &mut Turn, number: u32, defined: Option<u64>) {
    let now = turn.now;
    let Some(live) = turn.transient().live.get_mut(&number) else {
        return;
    };
    let period = defined.or(live.asked);
    if live.tick == period {
        return;
    }
    let old = live.tick.map(|old| (live.ticked.plus(old), number));
    live.tick = period;
    live.ticked = period.map_or(now, |period| grid(now, period));
    let next = period.map(|period| (live.ticked.plus(period), number));
    if let Some(old) = old {
        turn.transient().next_ticks.remove(&old);
    }
    turn.transient().next_ticks.extend(next);
}

/// Sends every tick that is due.
pub(in crate::core) fn send_due(turn: &mut Turn) {
    while let Some((at, number)) = turn.state().transient.next_ticks.first().copied() {
        if at > turn.now {
            return;
        }
        turn.transient().next_ticks.remove(&(at, number));
        let now = turn.now;
        let Some(live) = turn.transient().live.get_mut(&number) else {
            continue;
        };
        let Some(period) = live.tick else { continue };
        let scheduled = if fault::on(Fault::TicksQueue) {
            at
        } else {
            grid(now, period)
        };
        let missed = (scheduled.since(live.ticked) / period).saturating_sub(1);
        live.ticked = scheduled;
        let session = live.session;
        turn.transient().ticked.insert(number);
        turn.transient()
            .next_ticks
            .insert((scheduled.plus(period), number));
        turn.send(Output::Session {
            to: session,
            message: SessionMessage::Tick {
                scheduled,
                now,
                missed,
            },
        });
    }
}
