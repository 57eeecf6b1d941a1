//! `GET /api/events`: the feed as server-sent events. The id of an event is its place in the journal; who comes back
//! with `Last-Event-ID` misses nothing. A comment with an id and without data comes first, when everything that was
//! there has been sent, and at least every 10 s; it moves the reader's place.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::Stream;
use serde::Deserialize;

use super::body::Asked;
use super::problem::{Problem, Rejected};
use crate::contract::id::ExecutionId;
use crate::operators::feed::{Feed, Next, Wanted};
use crate::operators::view::FeedEvent;
use crate::operators::{Error, OperatorService};

/// How long the stream stays silent at most.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// The header with the place that a reader saw last.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// What a reader asks for in the query.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsQuery {
    /// Where to begin, for those who cannot send the header; the header wins.
    after: Option<u64>,
    /// Only events about this execution.
    execution: Option<String>,
}

pub(super) async fn stream(
    State(service): State<OperatorService>,
    headers: HeaderMap,
    Asked(query): Asked<EventsQuery>,
) -> Result<Response, Rejected> {
    let wanted = wanted(&headers, query)?;
    let feed = Feed::begin(service.host(), wanted).await?;
    let mut response = Sse::new(events(service, feed)).into_response();
    let headers = response.headers_mut();
    // Proxies that collect or transform a stream would hold it back.
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-store, no-transform"),
    );
    headers.insert(
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    );
    Ok(response)
}

fn wanted(headers: &HeaderMap, query: EventsQuery) -> Result<Wanted, Error> {
    let EventsQuery { after, execution } = query;
    let last = match headers.get(LAST_EVENT_ID).filter(|v| !v.is_empty()) {
        Some(value) => {
            let number = value.to_str().ok().and_then(|text| text.parse().ok());
            Some(number.ok_or_else(|| {
                Error::field(
                    "Last-Event-ID",
                    "send back an id of this stream as it was, or none",
                )
            })?)
        }
        None => after,
    };
    let execution: Option<ExecutionId> = execution
        .as_deref()
        .map(str::parse)
        .transpose()
        .map_err(|e| Error::field("execution", format!("{e}")))?;
    Ok(Wanted {
        after: last,
        execution,
    })
}

/// Where a stream is.
struct Reader {
    service: OperatorService,
    feed: Feed,
    ready: VecDeque<FeedEvent>,
    begun: bool,
    ended: bool,
}

fn events(service: OperatorService, feed: Feed) -> impl Stream<Item = Result<Event, Infallible>> {
    let reader = Reader {
        service,
        feed,
        ready: VecDeque::new(),
        begun: false,
        ended: false,
    };
    futures_util::stream::unfold(reader, |mut reader| async move {
        let event = reader.next().await?;
        Some((Ok(event), reader))
    })
}

impl Reader {
    async fn next(&mut self) -> Option<Event> {
        if !self.begun {
            self.begun = true;
            return Some(idle("connected", self.feed.place()));
        }
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(self.printed(&event));
            }
            if self.ended {
                return None;
            }
            let next = tokio::select! {
                next = self.feed.next(HEARTBEAT) => next,
                () = self.service.stopping().cancelled() => return None,
            };
            match next {
                Ok(Next::Events(events, _)) => self.ready.extend(events),
                Ok(Next::Idle(at)) => return Some(idle("idle", at)),
                Ok(Next::End) => return None,
                Err(error) => return Some(self.failed(&error)),
            }
        }
    }

    fn printed(&mut self, event: &FeedEvent) -> Event {
        let named = Event::default().id(event.seq.to_string());
        match named.json_data(event) {
            Ok(printed) => printed,
            Err(error) => {
                let message = format!(
                    "event {} cannot be printed ({error}); please report it",
                    event.seq
                );
                self.failed(&Error::new(crate::contract::code::Code::Internal, message))
            }
        }
    }

    /// Says why the stream ends.
    fn failed(&mut self, error: &Error) -> Event {
        self.ended = true;
        tracing::error!(error = %error.message, "event stream failed");
        let status = axum::http::StatusCode::INTERNAL_SERVER_ERROR;
        let problem = Problem::of(error, status, "/api/events");
        Event::default()
            .event("problem")
            .json_data(problem)
            .unwrap_or_else(|_| Event::default().event("problem").data("{}"))
    }
}

/// Makes a sign of life that moves the reader's place and is no event.
fn idle(comment: &str, at: u64) -> Event {
    Event::default().comment(comment).id(at.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(last: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(LAST_EVENT_ID, last.parse().expect("header"));
        headers
    }

    #[test]
    fn the_last_id_says_where_to_go_on_and_wins_over_the_query() {
        let query = || EventsQuery {
            after: Some(3),
            execution: Some("x7".into()),
        };
        let both = wanted(&headers("12"), query()).expect("reads");
        assert_eq!(
            both,
            Wanted {
                after: Some(12),
                execution: Some(ExecutionId(7))
            }
        );
        assert_eq!(
            wanted(&HeaderMap::new(), query()).expect("reads").after,
            Some(3)
        );
        assert_eq!(
            wanted(&headers(""), EventsQuery::default()).expect("reads"),
            Wanted::default()
        );
        for bad in ["x", "-1", "1.5"] {
            assert_eq!(
                wanted(&headers(bad), EventsQuery::default())
                    .expect_err("refused")
                    .fields[0]
                    .path,
                "Last-Event-ID"
            );
        }
        let query = EventsQuery {
            after: None,
            execution: Some("y1".into()),
        };
        assert_eq!(
            wanted(&HeaderMap::new(), query)
                .expect_err("refused")
                .fields[0]
                .path,
            "execution"
        );
    }
}
