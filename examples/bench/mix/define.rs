//! What the mix is played on: the lines with their supervisors and workflows, and the engines' sessions.

use super::super::Outcome;
use super::{LINES, Mix, actor, supervisor};
use signalbox::contract::definition::{SupervisorDef, WorkflowDef};
use signalbox::core::input::Input;
use signalbox::core::record::{Settings, Source};

impl Mix {
    /// Gives the inputs that come first.
    pub(super) fn set_up(&mut self) -> Outcome<()> {
        let settings = Settings {
            max_running_runs: 256,
            max_running_nodes: 512,
            operator_rate: 100_000,
            ..Settings::default()
        };
        self.give(Input::Opened {
            boot: "boot".into(),
            monotonic: 0,
            settings,
        });
        for line in 0..LINES {
            let def: SupervisorDef = serde_json::from_value(serde_json::json!({
                "id": format!("line-{line}"), "owns": [format!("workflow:line-{line}")],
                "engine": {"transport": "attached"}, "allowedCommands": ["run.*", "node.*", "notify"],
                "operatorAccess": ["run.*"], "maxDirectivesPerSecond": 100_000,
            }))?;
            self.give(Input::SaveSupervisor {
                reply: 0,
                def: Box::new(def),
                source: Source::File,
                actor: actor(),
            });
        }
        for line in 0..=LINES {
            let def: WorkflowDef = serde_json::from_value(serde_json::json!({
                "id": format!("line-{line}"), "timeout": "2h", "params": {"BRANCH": {"default": "main"}},
                "nodes": {
                    "fetch": {"run": ["fetch", "--all"], "timeout": "10m"},
                    "build": {"run": ["build"], "needs": ["fetch"], "retries": {"max": 1, "delay": "50ms"}},
                    "test": {"run": ["test"], "needs": ["fetch"], "timeout": "1h"},
                    "ship": {"run": ["ship"], "needs": ["build", "test"]},
                },
            }))?;
            self.give(Input::SaveWorkflow {
                reply: 0,
                def: Box::new(def),
                source: Source::File,
                actor: actor(),
            });
        }
        for line in 0..LINES {
            self.give(Input::Hello {
                reply: 0,
                supervisor: supervisor(line)?,
                tick_period: None,
                reviews: true,
            });
        }
        Ok(())
    }
}
