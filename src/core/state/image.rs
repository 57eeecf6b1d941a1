//! The stored form of the durable state: what a state snapshot holds.
//!
//! Derived things (owners, audiences, plans of runs) are not stored but worked out again.

use std::sync::Arc;

use imbl::{OrdMap, Vector};
use minicbor::{Decode, Encode};

use super::run::{Plan, Run};
use super::supervisor::{Kept, Keys, Supervisor};
use super::{Durable, Review, Workflow};
use crate::contract::directive::Actor;
use crate::contract::id::{ReviewId, SessionId, WorkflowId};
use crate::contract::time::HostTime;
use crate::core::record::{Cited, Credential, Fingerprint, ReviewEnd, Settings, Source};

/// The version of stored states; their first byte.
const VERSION: u8 = 1;

/// Says that stored bytes are not a state that this host knows.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The version is newer.
    #[error(
        "the state snapshot has version {0}, this host knows up to {VERSION}; run the host version that wrote it"
    )]
    Version(u8),
    /// The bytes do not decode.
    #[error(
        "the state snapshot does not decode ({0}); restore a backup of the data directory, and report it"
    )]
    Damaged(#[from] minicbor::decode::Error),
    /// The state cannot be encoded.
    #[error("the state cannot be stored ({0}); please report it, it is a fault of the host")]
    Unstorable(String),
    /// A definition in it does not parse.
    #[error(
        "the state snapshot holds a definition that does not parse ({0}); restore a backup of the data directory, and report it"
    )]
    Definition(#[from] serde_json::Error),
}

#[derive(Encode, Decode)]
struct Image {
    #[n(0)]
    seq: u64,
    #[n(1)]
    now: HostTime,
    #[n(2)]
    opened: Option<(String, u64, HostTime)>,
    #[n(3)]
    settings: Settings,
    #[n(4)]
    supervisors: Vec<SupervisorImage>,
    #[n(5)]
    plans: Vec<PlanImage>,
    #[n(6)]
    runs: Vec<Run>,
    #[n(7)]
    reviews: Vec<ReviewImage>,
    #[n(8)]
    operator_keys: Vec<(String, Vec<KeyImage>)>,
    #[n(9)]
    credentials: Vec<Credential>,
    #[n(10)]
    last_run: u64,
    #[n(11)]
    last_review: u64,
    #[n(12)]
    last_session: u64,
    #[n(13)]
    wall: u64,
}

#[derive(Encode, Decode)]
struct SupervisorImage {
    #[n(0)]
    number: u32,
    #[n(1)]
    json: String,
    #[n(2)]
    source: Source,
    #[n(3)]
    saved: HostTime,
    #[n(4)]
    last_cursor: u64,
    #[n(5)]
    acknowledged: Option<u64>,
    #[n(6)]
    newest_session: Option<(SessionId, HostTime)>,
    #[n(7)]
    keys: Vec<KeyImage>,
    #[n(8)]
    marks: Vec<(u64, HostTime)>,
    #[n(9)]
    cited: Vec<(Cited, u32)>,
    #[n(10)]
    cited_floor: u64,
    #[n(11)]
    initiative: Vec<HostTime>,
    #[n(12)]
    notifies: Vec<HostTime>,
}

#[derive(Encode, Decode)]
struct KeyImage {
    #[n(0)]
    at: HostTime,
    #[n(1)]
    key: String,
    #[n(2)]
    kept: Kept,
}

#[derive(Encode, Decode)]
struct PlanImage {
    #[n(0)]
    revision: u32,
    #[n(1)]
    json: String,
    #[n(2)]
    newest: Option<Source>,
}

#[derive(Encode, Decode)]
struct ReviewImage {
    #[n(0)]
    id: ReviewId,
    #[n(1)]
    supervisor: u32,
    #[n(2)]
    command: String,
    #[n(3)]
    reason: Option<String>,
    #[n(4)]
    actor: Actor,
    #[n(5)]
    keys: Vec<String>,
    #[cbor(n(6), with = "minicbor::bytes")]
    fingerprint: Fingerprint,
    #[n(7)]
    targets: Vec<String>,
    #[n(8)]
    opened: HostTime,
    #[n(9)]
    deadline: HostTime,
    #[n(10)]
    as_of: u64,
    #[n(11)]
    end: Option<ReviewEnd>,
}

fn keys_out(keys: &Keys) -> Vec<KeyImage> {
    keys.in_order()
        .map(|(at, key, kept)| KeyImage {
            at,
            key: key.to_string(),
            kept: Kept::clone(kept),
        })
        .collect()
}

fn keys_in(images: Vec<KeyImage>) -> Keys {
    let mut keys = Keys::default();
    for KeyImage { at, key, kept } in images {
        keys.put(at, &key, kept);
    }
    keys
}

impl Durable {
    /// Returns the stored form.
    ///
    /// # Errors
    /// Fails only if a definition cannot be printed as JSON.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let mut plans = Vec::new();
        for ((id, revision), plan) in &self.plans {
            let newest = self
                .workflows
                .get(id)
                .filter(|w| w.plan.revision == *revision);
            // The newest keeps its text as saved, since that is what a save compares with.
            let json = match newest {
                Some(workflow) => workflow.json.to_string(),
                None => serde_json::to_string(&plan.def)?,
            };
            plans.push(PlanImage {
                revision: *revision,
                json,
                newest: newest.map(|w| w.source),
            });
        }
        let mut reviews = Vec::new();
        for r in self.reviews.values() {
            reviews.push(ReviewImage {
                id: r.id,
                supervisor: r.supervisor,
                command: serde_json::to_string(&r.command)?,
                reason: r.reason.clone(),
                actor: r.actor.clone(),
                keys: r.keys.clone(),
                fingerprint: r.fingerprint,
                targets: r.targets.clone(),
                opened: r.opened,
                deadline: r.deadline,
                as_of: r.as_of,
                end: r.end,
            });
        }
        let supervisor = |s: &Arc<Supervisor>| SupervisorImage {
            number: s.number,
            json: s.json.to_string(),
            source: s.source,
            saved: s.saved,
            last_cursor: s.last_cursor,
            acknowledged: s.acknowledged,
            newest_session: s.newest_session,
            keys: keys_out(&s.keys),
            marks: s.marks.iter().copied().collect(),
            cited: s.cited.iter().map(|(c, n)| (*c, *n)).collect(),
            cited_floor: s.cited_floor,
            initiative: s.initiative.iter().copied().collect(),
            notifies: s.notifies.iter().copied().collect(),
        };
        let image = Image {
            seq: self.seq,
            now: self.now,
            opened: self.opened.clone(),
            settings: self.settings.clone(),
            supervisors: self.supervisors.values().map(supervisor).collect(),
            plans,
            runs: self.runs.values().map(|r| Run::clone(r)).collect(),
            reviews,
            operator_keys: self
                .operator_keys
                .iter()
                .map(|(a, k)| (a.clone(), keys_out(k)))
                .collect(),
            credentials: self
                .credentials
                .values()
                .map(|c| Credential::clone(c))
                .collect(),
            last_run: self.last_run,
            last_review: self.last_review,
            last_session: self.last_session,
            wall: self.wall,
        };
        let mut out = vec![VERSION];
        minicbor::encode(&image, &mut out).map_err(|e| Error::Unstorable(e.to_string()))?;
        Ok(out)
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// Fails on another version and on bytes that are no state.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let image: Image = match bytes.split_first() {
            Some((&VERSION, rest)) => minicbor::decode(rest)?,
            Some((&other, _)) => return Err(Error::Version(other)),
            None => return Err(Error::Damaged(minicbor::decode::Error::end_of_input())),
        };
        let mut state = Self {
            seq: image.seq,
            now: image.now,
            wall: image.wall,
            opened: image.opened,
            settings: image.settings,
            last_run: image.last_run,
            last_review: image.last_review,
            last_session: image.last_session,
            ..Self::default()
        };
        for plan in image.plans {
            state.plan_in(plan)?;
        }
        for s in image.supervisors {
            state.supervisor_in(s)?;
        }
        let audiences: OrdMap<_, _> = state
            .plans
            .iter()
            .map(|(key, plan)| (key.clone(), Arc::new(state.make_audience(plan))))
            .collect();
        state.audiences = audiences;
        for mut run in image.runs {
            run.plan = state
                .plans
                .get(&(run.workflow.clone(), run.revision))
                .cloned();
            state.runs.insert(run.id, Arc::new(run));
        }
        for r in image.reviews {
            let review = Review {
                id: r.id,
                supervisor: r.supervisor,
                command: serde_json::from_str(&r.command)?,
                reason: r.reason,
                actor: r.actor,
                keys: r.keys,
                fingerprint: r.fingerprint,
                targets: r.targets,
                opened: r.opened,
                deadline: r.deadline,
                as_of: r.as_of,
                end: r.end,
            };
            state.reviews.insert(review.id, Arc::new(review));
        }
        state.operator_keys = image
            .operator_keys
            .into_iter()
            .map(|(a, k)| (a, keys_in(k)))
            .collect();
        state.credentials = image
            .credentials
            .into_iter()
            .map(|c| (c.id.clone(), Arc::new(c)))
            .collect();
        Ok(state)
    }

    fn plan_in(&mut self, image: PlanImage) -> Result<(), Error> {
        let def: crate::contract::definition::WorkflowDef = serde_json::from_str(&image.json)?;
        let id: WorkflowId = def.id.clone();
        let plan = Arc::new(Plan::new(def, image.revision));
        self.plans
            .insert((id.clone(), image.revision), Arc::clone(&plan));
        if let Some(source) = image.newest {
            self.workflows.insert(
                id,
                Arc::new(Workflow {
                    plan,
                    json: image.json.into(),
                    source,
                }),
            );
        }
        Ok(())
    }

    fn supervisor_in(&mut self, s: SupervisorImage) -> Result<(), Error> {
        let def: crate::contract::definition::SupervisorDef = serde_json::from_str(&s.json)?;
        self.numbers.insert(def.id.clone(), s.number);
        for unit in &def.owns {
            self.owners.insert(unit.clone(), s.number);
        }
        let supervisor = Supervisor {
            number: s.number,
            def: Arc::new(def),
            json: s.json.into(),
            source: s.source,
            saved: s.saved,
            last_cursor: s.last_cursor,
            acknowledged: s.acknowledged,
            newest_session: s.newest_session,
            keys: keys_in(s.keys),
            marks: s.marks.into_iter().collect::<Vector<_>>(),
            cited: s.cited.into_iter().collect(),
            cited_floor: s.cited_floor,
            initiative: s.initiative.into_iter().collect(),
            notifies: s.notifies.into_iter().collect(),
        };
        self.supervisors.insert(s.number, Arc::new(supervisor));
        Ok(())
    }
}
