//! What a generator may ask of the reference, so that its steps mean something.

use std::rc::Rc;

use signalbox::contract::definition::SupervisorDef;
use signalbox::contract::id::{NodeId, SupervisorId};

use super::Reference;
use super::history::Place;
use super::view::RunView;

impl Reference {
    /// Gives how all runs stand, the oldest first.
    pub fn runs(&self) -> impl Iterator<Item = &RunView> {
        self.history.all_runs().map(|run| &**run)
    }

    /// Gives the number of a supervisor's live session.
    #[must_use]
    pub fn live_session(&self, supervisor: &SupervisorId) -> Option<u64> {
        self.live(supervisor).map(|l| l.session)
    }

    /// Gives the number of the newest session of a supervisor, live or not.
    #[must_use]
    pub fn last_session(&self, supervisor: &SupervisorId) -> Option<u64> {
        self.newest_session(supervisor).map(|(session, _)| session)
    }

    /// Gives when the newest session of a supervisor was accepted.
    #[must_use]
    pub fn session_time(&self, supervisor: &SupervisorId) -> Option<u64> {
        self.newest_session(supervisor).map(|(_, at)| at)
    }

    /// Gives the number of the last event in a supervisor's stream.
    #[must_use]
    pub fn last_event(&self, supervisor: &SupervisorId) -> u64 {
        self.last_cursor(supervisor)
    }

    /// Gives when an event was committed.
    #[must_use]
    pub fn event_time(&self, supervisor: &SupervisorId, cursor: u64) -> Option<u64> {
        let event = self
            .history
            .stream
            .iter()
            .find(|(_, e)| e.supervisor == *supervisor && e.cursor == cursor);
        event.map(|(at, _)| *at)
    }

    /// Gives the open reviews: their numbers, and whose engine is asked.
    #[must_use]
    pub fn reviews(&self) -> Vec<(u64, SupervisorId)> {
        self.open_reviews(None)
            .into_iter()
            .map(|r| (r.id, r.supervisor))
            .collect()
    }

    /// Gives the definitions of all supervisors, the one saved first first.
    #[must_use]
    pub fn all_supervisors(&self) -> Vec<Rc<SupervisorDef>> {
        self.supervisors()
    }

    /// Gives the owner of a run.
    #[must_use]
    pub fn run_owner(&self, run: u64) -> Option<SupervisorId> {
        self.owner_of(&Place::Run(run))
    }

    /// Gives the owner of a run's node.
    #[must_use]
    pub fn node_owner(&self, run: u64, node: &NodeId) -> Option<SupervisorId> {
        self.owner_of(&Place::Node(run, node.clone()))
    }
}
