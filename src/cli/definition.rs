//! `workflow`, `supervisor` and `credential`.

use std::io::Read as _;
use std::path::Path;

use super::Failure;
use super::args::{CredentialAction, CredentialArgs, DefinitionAction, DefinitionArgs};
use super::client::Client;
use super::output::{Output, or_dash, safe, table, time};
use crate::definitions::{self, Format, MAX_BYTES, Mistake};
use crate::operators::view::{
    AsOf, CredentialRequest, EngineView, NewCredential, SaveResult, SourceView, SupervisorView,
    Supervisors, WorkflowView, Workflows,
};

/// Runs `workflow …`.
pub(super) async fn workflow(
    client: &Client,
    out: &Output,
    args: &DefinitionArgs,
) -> Result<u8, Failure> {
    match &args.action {
        DefinitionAction::Apply { file } => {
            let (text, format) = read(file)?;
            let id = definitions::read_workflow(&text, format)
                .map_err(|m| wrong(file, &m))?
                .def
                .id;
            save(
                client,
                out,
                file,
                &["api", "workflows", id.as_str()],
                text,
                format,
            )
            .await
        }
        DefinitionAction::List => {
            let all: AsOf<Workflows> = client.get(&["api", "workflows"], &()).await?;
            out.print(&all, |all| {
                let rows = all.body.workflows.iter().map(|w| {
                    [
                        w.id.to_string(),
                        w.revision.to_string(),
                        w.nodes.to_string(),
                        source(w.source),
                        or_dash(w.owner.as_ref()),
                    ]
                });
                table(&["id", "revision", "nodes", "source", "owner"], rows)
            })?;
            Ok(0)
        }
        DefinitionAction::Show { id } => {
            let one: AsOf<WorkflowView> = client.get(&["api", "workflows", id], &()).await?;
            out.print(&one, |one| definition(one.body.definition.as_ref()))?;
            Ok(0)
        }
    }
}

/// Runs `supervisor …`.
pub(super) async fn supervisor(
    client: &Client,
    out: &Output,
    args: &DefinitionArgs,
) -> Result<u8, Failure> {
    match &args.action {
        DefinitionAction::Apply { file } => {
            let (text, format) = read(file)?;
            let id = definitions::read_supervisor(&text, format)
                .map_err(|m| wrong(file, &m))?
                .def
                .id;
            save(
                client,
                out,
                file,
                &["api", "supervisors", id.as_str()],
                text,
                format,
            )
            .await
        }
        DefinitionAction::List => {
            let all: AsOf<Supervisors> = client.get(&["api", "supervisors"], &()).await?;
            out.print(&all, |all| {
                let rows = all.body.supervisors.iter().map(|s| {
                    [
                        s.id.to_string(),
                        source(s.source),
                        connected(&s.engine),
                        or_dash(s.engine.status.session),
                        s.owns.join(", "),
                    ]
                });
                table(&["id", "source", "engine", "session", "owns"], rows)
            })?;
            Ok(0)
        }
        DefinitionAction::Show { id } => {
            let one: AsOf<SupervisorView> = client.get(&["api", "supervisors", id], &()).await?;
            out.print(&one, |one| {
                let status = &one.body.engine.status;
                let failure = status
                    .last_failure
                    .as_ref()
                    .map(|f| format!("{} ({})", f.message, time(f.at_ms)));
                let facts = [
                    ["engine".to_owned(), connected(&one.body.engine)],
                    ["says it is".to_owned(), or_dash(status.engine.as_ref())],
                    ["session".to_owned(), or_dash(status.session)],
                    ["since".to_owned(), or_dash(status.since_ms.map(time))],
                    ["last failure".to_owned(), or_dash(failure)],
                    [
                        "open reviews".to_owned(),
                        or_dash(Some(one.body.open_reviews.join(", ")).filter(|r| !r.is_empty())),
                    ],
                ];
                format!(
                    "{}\n{}",
                    table(&["fact", "value"], facts),
                    definition(one.body.definition.as_ref())
                )
            })?;
            Ok(0)
        }
    }
}

/// Runs `credential …`.
pub(super) async fn credential(
    client: &Client,
    out: &Output,
    args: &CredentialArgs,
) -> Result<u8, Failure> {
    let CredentialAction::Issue { name, role } = &args.action;
    let made: NewCredential = match role {
        Some(role) => {
            let request = CredentialRequest {
                name: name.clone(),
                role: *role,
            };
            client
                .post(&["api", "credentials"], Some(&request), None)
                .await?
        }
        None => {
            client
                .post(
                    &["api", "supervisors", name, "credentials"],
                    None::<&()>,
                    None,
                )
                .await?
        }
    };
    if !out.is_json() {
        eprintln!(
            "The token of `{}`; it is shown this once and kept nowhere:",
            safe(&made.id)
        );
    }
    out.print(&made, |made| safe(&made.token))?;
    Ok(0)
}

async fn save(
    client: &Client,
    out: &Output,
    file: &Path,
    path: &[&str],
    text: String,
    format: Format,
) -> Result<u8, Failure> {
    let media_type = match format {
        Format::Yaml => "application/yaml",
        Format::Json => "application/json",
    };
    let saved: SaveResult = client.put(path, media_type, text).await?;
    for warning in &saved.warnings {
        eprintln!(
            "warning: {}: {}: {}",
            file.display(),
            safe(&warning.path),
            safe(&warning.message)
        );
    }
    out.print(&saved, |saved| {
        let what = if saved.changed { "saved" } else { "unchanged" };
        let revision = saved
            .revision
            .map_or_else(String::new, |r| format!(" (revision {r})"));
        safe(&format!("{} {what}{revision}", saved.id))
    })?;
    Ok(0)
}

/// Reads a file, or standard input for `-`.
fn read(file: &Path) -> Result<(String, Format), Failure> {
    let format = match file.extension().and_then(|e| e.to_str()) {
        Some("json") => Format::Json,
        _ => Format::Yaml,
    };
    let mut bytes = Vec::new();
    let limit = MAX_BYTES as u64 + 1;
    let taken = if file.as_os_str() == "-" {
        std::io::stdin().lock().take(limit).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).and_then(|f| f.take(limit).read_to_end(&mut bytes))
    };
    taken.map_err(|e| {
        Failure::new(
            2,
            format!(
                "{} cannot be read ({e}): check its name and rights",
                file.display()
            ),
        )
    })?;
    let text = String::from_utf8(bytes).map_err(|_| {
        Failure::new(2, format!("{} is not UTF-8", file.display())).hint("save it as UTF-8")
    })?;
    Ok((text, format))
}

/// Tells every mistake of a file before anything is sent.
fn wrong(file: &Path, mistakes: &[Mistake]) -> Failure {
    let mut lines = mistakes.iter().map(|m| format!("{}:{m}", file.display()));
    let first = lines.next().unwrap_or_default();
    Failure {
        more: lines.collect(),
        ..Failure::new(2, first)
    }
}

fn source(source: SourceView) -> String {
    match source {
        SourceView::File => "file".to_owned(),
        SourceView::Api => "api".to_owned(),
    }
}

fn connected(engine: &EngineView) -> String {
    use crate::contract::definition::Transport;
    let transport = match engine.transport {
        Transport::Builtin => return "builtin".to_owned(),
        Transport::Attached => "attached",
        Transport::Managed => "managed",
    };
    format!(
        "{transport}, {}",
        if engine.status.connected {
            "connected"
        } else {
            "not connected"
        }
    )
}

fn definition(json: Option<&serde_json::Value>) -> String {
    let Some(json) = json else {
        return String::new();
    };
    // YAML prints texts that look like other types in quotes, so it can be applied again as it is.
    serde_saphyr::to_string(json).unwrap_or_else(|_| json.to_string())
}
