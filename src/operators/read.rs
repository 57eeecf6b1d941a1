//! The reads.

use std::sync::Arc;

use crate::contract::code::Code;
use crate::contract::id::{ExecutionId, NodeId, SupervisorId, WorkflowId};
use crate::contract::signal::HoldView;
use crate::contract::status::{NodeStatus, RunStatus};
use crate::core::audit::AuditEntry;
use crate::core::record::{AttemptEnd, Source};
use crate::core::state::run::Run;
use crate::core::state::supervisor::Supervisor;
use crate::core::state::{Durable, Workflow};

use super::service::OperatorService;
use super::view::{
    AsOf, Audit, AuditQuery, AuditRowView, EngineView, Engines, ExecutionDetail, ExecutionRow,
    Executions, ExecutionsQuery, LogView, LogsQuery, NodeView, SourceView, SupervisorView,
    Supervisors, WorkflowView, Workflows,
};
use super::{Error, LogError, LogName, LogStream, feed, page};

/// How many executions a page has when nothing is said, and at most.
const PAGE: (usize, usize) = (50, 500);
/// How many rows of the audit are listed when nothing is said, and at most.
const ROWS: (usize, usize) = (100, 1_000);
/// How many rows of the audit one call looks at, at most.
const SCAN: u64 = 20_000;
/// How many bytes of a log are read when nothing is said, and at most.
const TAIL: (u64, u64) = (64 * 1024, 1024 * 1024);

impl OperatorService {
    async fn look<T>(
        &self,
        read: impl FnOnce(&Durable) -> Result<T, Error>,
    ) -> Result<AsOf<T>, Error> {
        let view = self.host().view().await?;
        Ok(AsOf {
            as_of: view.seq,
            body: read(&view)?,
        })
    }

    /// Lists the workflows.
    ///
    /// # Errors
    /// `UNAVAILABLE` when the host stops.
    pub async fn workflows(&self) -> Result<AsOf<Workflows>, Error> {
        self.look(|view| {
            Ok(Workflows {
                workflows: view
                    .workflows
                    .values()
                    .map(|w| workflow_view(view, w))
                    .collect(),
            })
        })
        .await
    }

    /// Shows a workflow with its definition.
    ///
    /// # Errors
    /// `NOT_FOUND`, `UNAVAILABLE`.
    pub async fn workflow(&self, id: &str) -> Result<AsOf<WorkflowView>, Error> {
        self.look(|view| {
            let found = id
                .parse::<WorkflowId>()
                .ok()
                .and_then(|id| view.workflows.get(&id));
            let workflow = found.ok_or_else(|| not_found("workflow", id))?;
            let definition = definition(&workflow.json)?;
            Ok(WorkflowView {
                definition: Some(definition),
                ..workflow_view(view, workflow)
            })
        })
        .await
    }

    /// Lists the supervisors.
    ///
    /// # Errors
    /// `UNAVAILABLE` when the host stops.
    pub async fn supervisors(&self) -> Result<AsOf<Supervisors>, Error> {
        self.look(|view| {
            Ok(Supervisors {
                supervisors: by_id(view).map(|s| self.supervisor_view(view, s)).collect(),
            })
        })
        .await
    }

    /// Shows a supervisor with its definition and how its engine is connected.
    ///
    /// # Errors
    /// `NOT_FOUND`, `UNAVAILABLE`.
    pub async fn supervisor(&self, id: &str) -> Result<AsOf<SupervisorView>, Error> {
        self.look(|view| {
            let found = id
                .parse::<SupervisorId>()
                .ok()
                .and_then(|id| view.supervisor(&id));
            let supervisor = found.ok_or_else(|| not_found("supervisor", id))?;
            let definition = definition(&supervisor.json)?;
            Ok(SupervisorView {
                definition: Some(definition),
                ..self.supervisor_view(view, supervisor)
            })
        })
        .await
    }

    /// Lists the engines.
    ///
    /// # Errors
    /// `UNAVAILABLE` when the host stops.
    pub async fn engines(&self) -> Result<AsOf<Engines>, Error> {
        self.look(|view| {
            Ok(Engines {
                engines: by_id(view).map(|s| self.engine_view(s)).collect(),
            })
        })
        .await
    }

    /// Lists executions, the newest first.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a filter, page size or token that is none, `UNAVAILABLE`.
    pub async fn executions(&self, query: &ExecutionsQuery) -> Result<AsOf<Executions>, Error> {
        let ExecutionsQuery {
            workflow,
            status,
            page_size,
            page_token,
        } = query;
        let workflow: Option<WorkflowId> = workflow
            .as_deref()
            .map(str::parse)
            .transpose()
            .map_err(|e| Error::field("workflow", format!("{e}")))?;
        let statuses = status.as_deref().map(statuses).transpose()?;
        let size = within("page_size", *page_size, PAGE)?;
        let bound = format!("executions {workflow:?} {statuses:?}");
        let before = page_token
            .as_deref()
            .map(|t| page::read(&bound, t))
            .transpose()?;
        self.look(|view| {
            let older = match before {
                Some(last) => view.runs.range(..ExecutionId(last)),
                None => view.runs.range(..=ExecutionId(u64::MAX)),
            };
            let mut matching = older.rev().map(|(_, run)| run).filter(|run| {
                workflow.as_ref().is_none_or(|w| run.workflow == *w)
                    && statuses.as_ref().is_none_or(|s| s.contains(&run.status))
            });
            let executions: Vec<ExecutionRow> =
                matching.by_ref().take(size).map(|run| row(run)).collect();
            let more = matching.next().is_some();
            let last = executions
                .last()
                .filter(|_| more)
                .map(|row| page::token(&bound, row.id.0));
            Ok(Executions {
                executions,
                next_page_token: last,
            })
        })
        .await
    }

    /// Shows an execution with its nodes and holds.
    ///
    /// # Errors
    /// `NOT_FOUND`, `UNAVAILABLE`.
    pub async fn execution(&self, id: &str) -> Result<AsOf<ExecutionDetail>, Error> {
        self.look(|view| {
            let run = find_run(view, id)?;
            let nodes = run.named_nodes().enumerate().map(|(i, (id, node))| {
                let plan = run.plan.as_ref();
                let (exit_code, exit_signal) = match node.end {
                    Some(AttemptEnd::Code(code)) => (Some(code), None),
                    Some(AttemptEnd::Signal(signal)) => (None, Some(signal)),
                    Some(AttemptEnd::NotStarted | AttemptEnd::Lost) | None => (None, None),
                };
                NodeView {
                    id: id.clone(),
                    status: node.status,
                    why: node.why,
                    attempt: node.attempt,
                    started: node.started,
                    exit_code,
                    exit_signal,
                    changed_ms: node.changed_wall,
                    needs: plan
                        .and_then(|p| p.node(i))
                        .map(|n| n.needs.iter().cloned().collect())
                        .unwrap_or_default(),
                    owner: name(view, view.node_owner(run, id)),
                }
            });
            let open = view.reviews.values().filter(|r| r.end.is_none());
            let about = open.filter(|r| r.targets.iter().any(|t| feed::is_about(t, run.id)));
            Ok(ExecutionDetail {
                row: row(run),
                params: run.params.clone(),
                order: run.order,
                owner: name(view, view.run_owner(run)),
                open_reviews: about.map(|r| r.id.to_string()).collect(),
                nodes: nodes.collect(),
            })
        })
        .await
    }

    /// Reads the end of a log.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a size or node that is none, `NOT_FOUND` without such a log, `INTERNAL` when it cannot
    /// be read, `UNAVAILABLE`.
    pub async fn logs(&self, id: &str, query: &LogsQuery) -> Result<AsOf<LogView>, Error> {
        let most = match query.tail {
            None => TAIL.0,
            Some(n) if (1..=TAIL.1).contains(&n) => n,
            Some(_) => {
                return Err(Error::field(
                    "tail",
                    format!("give a number of bytes from 1 to {}", TAIL.1),
                ));
            }
        };
        let view = self.host().view().await?;
        let run = find_run(&view, id)?;
        let node_id = the_node(run, query.node.as_deref())?;
        let node = run
            .node(&node_id)
            .ok_or_else(|| not_found("node", &format!("{id}/{node_id}")))?;
        let attempt = query.attempt.unwrap_or(node.attempt);
        if attempt == 0 || attempt > node.attempt {
            let message = match node.attempt {
                0 => format!("node `{node_id}` has not started yet; wait for it"),
                newest => format!("node `{node_id}` has attempts 1 to {newest}, not {attempt}"),
            };
            return Err(Error::new(Code::NotFound, message));
        }
        let stream = query.stream.unwrap_or(LogStream::Stdout);
        let running = node.status == NodeStatus::Running && attempt == node.attempt;
        let name = LogName {
            execution: run.id,
            node: node_id,
            attempt,
            stream,
        };
        let (source, asked) = (Arc::clone(self.logs_source()), name.clone());
        let after = query.after;
        // Who goes on after a place wants everything from there, as far as one answer goes.
        let read = tokio::task::spawn_blocking(move || {
            source.tail(&asked, after.map_or(most, |_| TAIL.1))
        })
        .await;
        let part = match read {
            Ok(Ok(part)) => part,
            Ok(Err(LogError::NotThere(message))) => {
                return Err(Error::new(Code::NotFound, message));
            }
            Ok(Err(LogError::Unreadable(message))) => {
                return Err(Error::new(Code::Internal, message));
            }
            Err(error) => {
                return Err(Error::new(
                    Code::Internal,
                    format!("the log could not be read ({error}); try again"),
                ));
            }
        };
        let (bytes, truncated, next) = super::service::cut_log(&part, after, most, running);
        let LogName {
            execution,
            node,
            attempt,
            stream,
        } = name;
        let (total, dropped) = (part.total, part.dropped);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let body = LogView {
            execution,
            node,
            attempt,
            stream,
            text,
            truncated,
            total,
            dropped,
            next,
            running,
        };
        Ok(AsOf {
            as_of: view.seq,
            body,
        })
    }

    /// Lists rows of the audit, in order.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a limit or execution that is none, `INTERNAL` when the journal cannot be read.
    pub async fn audit(&self, query: &AuditQuery) -> Result<AsOf<Audit>, Error> {
        let limit = within("limit", query.limit, ROWS)?;
        let execution: Option<ExecutionId> = query
            .execution
            .as_deref()
            .map(str::parse)
            .transpose()
            .map_err(|e| Error::field("execution", format!("{e}")))?;
        let (kind, after) = (query.kind.clone(), query.after);
        let reader = Arc::clone(self.host().journal());
        let as_of = *self.host().last_seq().borrow();
        let read = tokio::task::spawn_blocking(move || {
            let wanted = |entry: &AuditEntry| {
                kind.as_ref().is_none_or(|k| entry.kind == *k)
                    && execution.is_none_or(|id| {
                        entry
                            .target
                            .as_deref()
                            .is_some_and(|t| feed::is_about(t, id))
                    })
            };
            match after {
                Some(after) => rows_after(&*reader, after, limit, wanted),
                None => newest_rows(&*reader, limit, wanted),
            }
        })
        .await;
        match read {
            Ok(Ok(body)) => Ok(AsOf { as_of, body }),
            Ok(Err(message)) => Err(audit_unreadable(&message)),
            Err(error) => Err(audit_unreadable(&error.to_string())),
        }
    }

    fn supervisor_view(&self, view: &Durable, supervisor: &Supervisor) -> SupervisorView {
        let open = view
            .reviews
            .values()
            .filter(|r| r.end.is_none() && r.supervisor == supervisor.number);
        SupervisorView {
            id: supervisor.def.id.clone(),
            source: source(supervisor.source),
            owns: supervisor
                .def
                .owns
                .iter()
                .map(ToString::to_string)
                .collect(),
            engine: self.engine_view(supervisor),
            open_reviews: open.map(|r| r.id.to_string()).collect(),
            definition: None,
        }
    }

    fn engine_view(&self, supervisor: &Supervisor) -> EngineView {
        let mut status = self.engine_statuses().engine(&supervisor.def.id);
        // A built-in engine is part of the host.
        status.connected |= supervisor.def.is_gateway();
        if status.session.is_none() {
            status.session = supervisor.newest_session.map(|(session, _)| session);
        }
        EngineView {
            supervisor: supervisor.def.id.clone(),
            transport: supervisor.def.engine.transport,
            last_cursor: supervisor.last_cursor,
            acknowledged: supervisor.acknowledged,
            status,
        }
    }
}

fn by_id(view: &Durable) -> impl Iterator<Item = &Arc<Supervisor>> {
    view.numbers
        .values()
        .filter_map(|number| view.supervisors.get(number))
}

fn source(source: Source) -> SourceView {
    match source {
        Source::File => SourceView::File,
        Source::Api => SourceView::Api,
    }
}

fn name(view: &Durable, number: Option<u32>) -> Option<SupervisorId> {
    view.supervisors.get(&number?).map(|s| s.def.id.clone())
}

fn not_found(what: &str, id: &str) -> Error {
    let shown: String = id.chars().take(80).collect();
    Error::new(
        Code::NotFound,
        format!("{what} `{shown}` does not exist; look at the list of what does"),
    )
}

fn definition(json: &str) -> Result<serde_json::Value, Error> {
    serde_json::from_str(json).map_err(|e| {
        Error::new(
            Code::Internal,
            format!("the stored definition cannot be read ({e}); run `signalbox doctor check`"),
        )
    })
}

fn workflow_view(view: &Durable, workflow: &Workflow) -> WorkflowView {
    let def = &workflow.plan.def;
    let owner = view
        .owners
        .get(&crate::contract::unit::Unit::Workflow(def.id.clone()))
        .copied();
    WorkflowView {
        id: def.id.clone(),
        revision: workflow.plan.revision,
        source: source(workflow.source),
        nodes: def.nodes.len(),
        owner: name(view, owner),
        definition: None,
    }
}

fn find_run<'a>(view: &'a Durable, id: &str) -> Result<&'a Arc<Run>, Error> {
    id.parse()
        .ok()
        .and_then(|id| view.run(id))
        .ok_or_else(|| not_found("execution", id))
}

fn row(run: &Run) -> ExecutionRow {
    let holds = run.holds.iter().map(|hold| HoldView {
        holder: hold.holder.to_string(),
        reason: hold.reason.clone(),
        since_ms: hold.since_wall,
    });
    ExecutionRow {
        id: run.id,
        workflow: run.workflow.clone(),
        revision: run.revision,
        status: run.status,
        priority: run.priority,
        started_ms: run.started_wall,
        changed_ms: run.changed_wall,
        holds: holds.collect(),
    }
}

fn the_node(run: &Run, given: Option<&str>) -> Result<NodeId, Error> {
    let ids: Vec<&NodeId> = run.named_nodes().map(|(id, _)| id).collect();
    let list = || {
        ids.iter()
            .take(50)
            .map(|id| id.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    match (given, ids.as_slice()) {
        (Some(given), _) => ids
            .iter()
            .find(|id| id.as_str() == given)
            .map(|id| (*id).clone())
            .ok_or_else(|| {
                Error::new(
                    Code::NotFound,
                    format!("`{}` has no such node; it has {}", run.id, list()),
                )
            }),
        (None, [one]) => Ok((*one).clone()),
        (None, _) => Err(Error::field("node", format!("say which node: {}", list()))),
    }
}

fn statuses(text: &str) -> Result<Vec<RunStatus>, Error> {
    let one = |word: &str| {
        RunStatus::ALL
            .iter()
            .copied()
            .find(|s| s.as_str().eq_ignore_ascii_case(word))
            .ok_or_else(|| {
                let known: Vec<&str> = RunStatus::ALL.iter().map(|s| s.as_str()).collect();
                Error::field(
                    "status",
                    format!(
                        "`{word}` is not a status of a run; known are {}",
                        known.join(", ")
                    ),
                )
            })
    };
    text.split(',').map(one).collect()
}

fn within(
    field: &str,
    given: Option<usize>,
    (default, most): (usize, usize),
) -> Result<usize, Error> {
    match given {
        None => Ok(default),
        Some(n) if (1..=most).contains(&n) => Ok(n),
        Some(_) => Err(Error::field(
            field,
            format!("give a number from 1 to {most}"),
        )),
    }
}

fn audit_unreadable(error: &str) -> Error {
    Error::new(
        Code::Internal,
        format!("the audit cannot be read ({error}); run `signalbox doctor check`"),
    )
}

type Reader = dyn crate::journal::JournalReader;

fn rows_after(
    reader: &Reader,
    after: u64,
    limit: usize,
    wanted: impl Fn(&AuditEntry) -> bool,
) -> Result<Audit, String> {
    let end = reader.audit_len();
    let stop = end.min(after.saturating_add(SCAN));
    let (mut at, mut rows) = (after.min(end), Vec::new());
    while at < stop && rows.len() < limit {
        let read = read_rows(reader, at, stop)?;
        let Some(last) = read.last().map(|row| row.no) else {
            break;
        };
        for row in read {
            if rows.len() == limit {
                break;
            }
            at = row.no;
            rows.extend(Some(row).filter(|row| wanted(&row.entry)));
        }
        if rows.len() < limit {
            at = last;
        }
    }
    Ok(Audit {
        rows,
        next: at,
        more: at < end,
        head: hex(&reader.audit_head()),
    })
}

fn newest_rows(
    reader: &Reader,
    limit: usize,
    wanted: impl Fn(&AuditEntry) -> bool,
) -> Result<Audit, String> {
    let end = reader.audit_len();
    let (mut from, mut rows) = (end, Vec::new());
    let least = end.saturating_sub(SCAN);
    while from > least && rows.len() < limit {
        let start = from.saturating_sub(1_000).max(least);
        let read = read_rows(reader, start, from)?;
        let mut fitting: Vec<AuditRowView> =
            read.into_iter().filter(|row| wanted(&row.entry)).collect();
        fitting.append(&mut rows);
        rows = fitting;
        from = start;
    }
    let rows = rows.split_off(rows.len().saturating_sub(limit));
    Ok(Audit {
        rows,
        next: end,
        more: false,
        head: hex(&reader.audit_head()),
    })
}

/// Reads rows after `after`, up to `end`, at most 1,000.
fn read_rows(reader: &Reader, after: u64, end: u64) -> Result<Vec<AuditRowView>, String> {
    let most = usize::try_from(end - after).unwrap_or(1_000).min(1_000);
    let rows = reader.audit(after + 1, most).map_err(|e| e.to_string())?;
    rows.into_iter()
        .map(|row| {
            let entry = AuditEntry::from_bytes(&row.bytes).map_err(|e| e.to_string())?;
            Ok(AuditRowView {
                no: row.no,
                entry,
                hash: hex(&row.hash),
            })
        })
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
