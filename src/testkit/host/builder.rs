//! What a test's host is made of.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::clock::{ManualClock, RealClock};
use super::super::definition::Definition;
use super::super::runtime::FakeRuntime;
use super::super::store::{Store, Switch};
use super::listen::{Listeners, Places};
use super::{Host, Open, Tokens, tester};
use crate::clock::SystemClock;
use crate::contract::definition::{SupervisorDef, WorkflowDef};
use crate::core::effect::{Refusal, Saved};
use crate::core::record::{Settings, Source};
use crate::engine;
use crate::host::runtime::{ReportSink, Runtime};
use crate::host::time::Clock;
use crate::host::{self, Options};
use crate::journal::MemoryStore;

/// Makes a runtime for each open of the host.
type MakeRuntime = Arc<dyn Fn(ReportSink) -> Result<Arc<dyn Runtime>, String> + Send + Sync>;

/// Describes a host. The definitions are saved when it starts, workflows first.
pub struct Builder {
    store: Store,
    clock: Time,
    runtime: Work,
    settings: Settings,
    snapshot_every: u64,
    engine_options: engine::Options,
    operators: bool,
    workflows: Vec<WorkflowDef>,
    supervisors: Vec<SupervisorDef>,
}

#[derive(Clone)]
enum Time {
    Manual(ManualClock),
    Real,
}

#[derive(Clone)]
enum Work {
    Fake(FakeRuntime),
    Made(MakeRuntime),
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            store: Store::Memory(MemoryStore::default()),
            clock: Time::Manual(ManualClock::new()),
            runtime: Work::Fake(FakeRuntime::new()),
            settings: Settings::default(),
            snapshot_every: 100_000,
            engine_options: engine::Options::default(),
            operators: false,
            workflows: Vec::new(),
            supervisors: Vec::new(),
        }
    }
}

impl Builder {
    /// Keeps the journal on disk, in a temporary directory that goes with the host.
    #[must_use]
    pub fn on_disk(mut self) -> Self {
        self.store = Store::temporary();
        self
    }

    /// Keeps the journal on disk, below this directory.
    #[must_use]
    pub fn data_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.store = Store::at(dir.into());
        self
    }

    /// Takes this manual clock instead of one of its own.
    #[must_use]
    pub fn clock(mut self, clock: ManualClock) -> Self {
        self.clock = Time::Manual(clock);
        self
    }

    /// Takes the machine's clock.
    #[must_use]
    pub fn real_clock(mut self) -> Self {
        self.clock = Time::Real;
        self
    }

    /// Takes this fake runtime instead of one of its own.
    #[must_use]
    pub fn runtime(mut self, runtime: FakeRuntime) -> Self {
        self.runtime = Work::Fake(runtime);
        self
    }

    /// Takes another runtime, made anew for each open.
    #[must_use]
    pub fn runtime_from(
        mut self,
        make: impl Fn(ReportSink) -> Result<Arc<dyn Runtime>, String> + Send + Sync + 'static,
    ) -> Self {
        self.runtime = Work::Made(Arc::new(make));
        self
    }

    /// Changes the settings.
    #[must_use]
    pub fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Writes a state snapshot every so many records; 100,000 where nothing is said.
    #[must_use]
    pub fn snapshot_every(mut self, records: u64) -> Self {
        self.snapshot_every = records;
        self
    }

    /// Opens the listener for operators too, at [`Host::http_addr`]; [`Host::admin_key`] opens it.
    #[must_use]
    pub fn operators(mut self) -> Self {
        self.operators = true;
        self
    }

    /// Changes the settings of the listener for engines, for instance how long a second of its limits is.
    #[must_use]
    pub fn engine_options(mut self, change: impl FnOnce(&mut engine::Options)) -> Self {
        change(&mut self.engine_options);
        self
    }

    /// Defines a workflow.
    ///
    /// # Panics
    /// When the text is no workflow.
    #[must_use]
    pub fn workflow(mut self, definition: impl Definition<WorkflowDef>) -> Self {
        self.workflows.push(definition.definition());
        self
    }

    /// Defines a supervisor.
    ///
    /// # Panics
    /// When the text is no supervisor.
    #[must_use]
    pub fn supervisor(mut self, definition: impl Definition<SupervisorDef>) -> Self {
        self.supervisors.push(definition.definition());
        self
    }

    /// Starts the host.
    ///
    /// # Panics
    /// When it does not open, or refuses a definition.
    pub async fn start(self) -> Host {
        let Self {
            store,
            clock,
            runtime,
            settings,
            snapshot_every,
            engine_options,
            operators,
            workflows,
            supervisors,
        } = self;
        let blueprint = Blueprint {
            store,
            clock,
            runtime,
            settings,
            snapshot_every,
            engine_options,
            places: Mutex::new(Places::new(operators)),
        };
        let open = blueprint.open().await;
        for definition in workflows {
            let id = definition.id.clone();
            saved(
                id.as_str(),
                open.handle
                    .save_workflow(definition, Source::Api, tester())
                    .await,
            );
        }
        for definition in supervisors {
            let id = definition.id.clone();
            saved(
                id.as_str(),
                open.handle
                    .save_supervisor(definition, Source::Api, tester())
                    .await,
            );
        }
        Host {
            blueprint,
            open: Some(open),
            tokens: Mutex::new(Tokens::default()),
        }
    }
}

fn saved(id: &str, result: Result<Saved, Refusal>) {
    if let Err(refusal) = result {
        panic!(
            "the host refuses the definition of {id}: {} {:?}",
            refusal.message, refusal.problems
        );
    }
}

/// What outlives a restart.
pub(super) struct Blueprint {
    pub(super) store: Store,
    clock: Time,
    runtime: Work,
    settings: Settings,
    snapshot_every: u64,
    engine_options: engine::Options,
    /// Where the host listens, so that engines find it again.
    places: Mutex<Places>,
}

impl Blueprint {
    pub(super) fn manual_clock(&self) -> &ManualClock {
        match &self.clock {
            Time::Manual(clock) => clock,
            Time::Real => panic!("this host runs on the machine's clock, which nobody moves"),
        }
    }

    pub(super) fn fake_runtime(&self) -> &FakeRuntime {
        match &self.runtime {
            Work::Fake(runtime) => runtime,
            Work::Made(_) => panic!("this host was built with another runtime than the fake one"),
        }
    }

    pub(super) fn detach(&self) {
        if let Work::Fake(runtime) = &self.runtime {
            runtime.detach();
        }
    }

    pub(super) async fn open(&self) -> Open {
        let switch = Switch::default();
        let clock: Arc<dyn Clock> = match &self.clock {
            Time::Manual(clock) => Arc::new(clock.clone()),
            Time::Real => Arc::new(RealClock(
                SystemClock::new().expect("the machine's boot id can be read"),
            )),
        };
        let options = Options {
            journal: self.store.open(&switch).await,
            clock,
            settings: self.settings.clone(),
            snapshot_every: self.snapshot_every,
        };
        let work = self.runtime.clone();
        let make = move |sink: ReportSink| -> Result<Arc<dyn Runtime>, String> {
            match work {
                Work::Fake(fake) => {
                    fake.attach(sink);
                    Ok(Arc::new(fake))
                }
                Work::Made(make) => make(sink),
            }
        };
        let (handle, stopped) = match host::open(options, make) {
            Ok(opened) => opened,
            Err(error) => panic!("the host does not open: {error}"),
        };
        let places = *self.places();
        let data_dir = self.store.dir().map(Path::to_owned).unwrap_or_default();
        let listeners =
            Listeners::open(handle.clone(), places, self.engine_options, data_dir).await;
        *self.places() = listeners.places();
        Open {
            handle,
            stopped,
            switch,
            listeners,
        }
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Blueprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blueprint")
            .field("store", &self.store)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("store", &self.store)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
