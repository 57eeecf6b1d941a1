//! Requests to the operators' surface.

use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Failure;
use super::find::Found;
use crate::operators::rest::{PROBLEM_JSON, Problem};

/// How long a connection may take to come about.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// A client of one host.
pub(super) struct Client {
    http: reqwest::Client,
    base: Url,
}

impl Client {
    pub fn new(found: &Found) -> Result<Self, Failure> {
        let Found { url, key } = found;
        let wrong = |what: String| {
            Failure::new(2, format!("`{url}` is not an address of a host: {what}"))
                .hint("write for instance http://127.0.0.1:7421")
        };
        let base = Url::parse(url).map_err(|e| wrong(e.to_string()))?;
        if base.scheme() != "http" || base.cannot_be_a_base() {
            return Err(wrong("this version speaks http only".to_owned()));
        }
        let mut bearer = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| {
            Failure::new(2, "the key has characters that no key has")
                .hint("copy it again, without line ends")
        })?;
        bearer.set_sensitive(true);
        let headers = HeaderMap::from_iter([(AUTHORIZATION, bearer)]);
        let builder = reqwest::Client::builder()
            .default_headers(headers)
            .connect_timeout(CONNECT_TIME)
            .redirect(reqwest::redirect::Policy::none())
            // A proxy of the environment has no business between this program and its host.
            .no_proxy()
            .user_agent(concat!("signalbox/", env!("CARGO_PKG_VERSION")));
        let http = builder
            .build()
            .map_err(|e| Failure::new(1, format!("the client cannot be set up ({e})")))?;
        Ok(Self { http, base })
    }

    fn url(&self, path: &[&str]) -> Result<Url, Failure> {
        let mut url = self.base.clone();
        url.path_segments_mut()
            .map_err(|()| Failure::new(2, format!("`{}` is not an address of a host; write for instance http://127.0.0.1:7421", self.base)))?
            .pop_if_empty()
            .extend(path);
        Ok(url)
    }

    /// Reads something; fields of the query that are absent are left out.
    pub async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &impl Serialize,
    ) -> Result<T, Failure> {
        let url = with_query(self.url(path)?, query)?;
        self.json(self.http.get(url)).await
    }

    /// Saves a text.
    pub async fn put<T: DeserializeOwned>(
        &self,
        path: &[&str],
        media_type: &str,
        text: String,
    ) -> Result<T, Failure> {
        let request = self
            .http
            .request(Method::PUT, self.url(path)?)
            .header(CONTENT_TYPE, media_type)
            .body(text);
        self.json(request).await
    }

    /// Sends a body.
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: Option<&impl Serialize>,
        key: Option<&str>,
    ) -> Result<T, Failure> {
        let mut request = self.http.post(self.url(path)?);
        if let Some(body) = body {
            request = request.json(body);
        }
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        self.json(request).await
    }

    /// Opens the event stream after a place.
    pub async fn events(
        &self,
        query: &impl Serialize,
        after: Option<u64>,
    ) -> Result<Response, Failure> {
        let url = with_query(self.url(&["api", "events"])?, query)?;
        let mut request = self.http.get(url).header(ACCEPT, "text/event-stream");
        if let Some(after) = after {
            request = request.header("Last-Event-ID", after.to_string());
        }
        self.send(request).await
    }

    async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, Failure> {
        let response = self.send(request).await?;
        let bytes = response.bytes().await.map_err(|e| self.lost(&e))?;
        serde_json::from_slice(&bytes).map_err(|e| {
            Failure::new(1, format!("the host's answer cannot be read ({e})")).hint(
                "this program and the host may be of different versions; see `signalbox --version`",
            )
        })
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let response = request.send().await.map_err(|e| self.lost(&e))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        let problem = response
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|t| t == PROBLEM_JSON);
        let bytes = response.bytes().await.map_err(|e| self.lost(&e))?;
        match serde_json::from_slice::<Problem>(&bytes) {
            Ok(body) if problem => Err(Failure::of_problem(&body)),
            _ => Err(
                Failure::new(1, format!("{} answered {status} and no reason", self.base))
                    .hint("is it a signalbox host? Check --url"),
            ),
        }
    }

    fn lost(&self, error: &reqwest::Error) -> Failure {
        let mut why = error.without_url_text();
        if error.is_timeout() {
            why = "it did not answer in time".to_owned();
        }
        Failure {
            code: Some(LOST.to_owned()),
            ..Failure::new(1, format!("{} cannot be reached: {why}", self.base))
        }
        .hint(
            "is the host running? Start it with `signalbox serve`, or give its address with --url",
        )
    }
}

/// Marks a failure of the connection, after which a request may be sent again.
const LOST: &str = "CONNECTION_LOST";

impl Failure {
    /// Says whether the connection was lost, so that the same request may be sent again.
    pub(super) fn is_lost(&self) -> bool {
        self.code.as_deref() == Some(LOST)
    }
}

trait Plain {
    fn without_url_text(&self) -> String;
}

impl Plain for reqwest::Error {
    /// Returns the innermost cause, which says more than the layers around it.
    fn without_url_text(&self) -> String {
        let mut error: &dyn std::error::Error = self;
        while let Some(source) = error.source() {
            error = source;
        }
        error.to_string()
    }
}

fn with_query(mut url: Url, query: &impl Serialize) -> Result<Url, Failure> {
    let fields = serde_json::to_value(query)
        .map_err(|e| Failure::new(1, format!("the query cannot be printed ({e})")))?;
    if let serde_json::Value::Object(fields) = fields {
        let given = fields.into_iter().filter(|(_, value)| !value.is_null());
        let texts = given.map(|(name, value)| match value {
            serde_json::Value::String(text) => (name, text),
            other => (name, other.to_string()),
        });
        let texts: Vec<(String, String)> = texts.collect();
        if !texts.is_empty() {
            url.query_pairs_mut().extend_pairs(texts);
        }
    }
    Ok(url)
}
