//! Filters and pages in the query of a URL. An unknown parameter is refused, never ignored.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use axum::extract::{FromRequestParts, Query};
use axum::http::Uri;
use axum::http::request::Parts;
use holdpoint_contracts::Problem;
use serde::de::DeserializeOwned;

use crate::app::App;
use crate::problem::{ApiError, excerpt};

/// Items of a page without `limit`.
const LIMIT_DEFAULT: u64 = 100;
const LIMIT_MAX: u64 = 500;
/// Longest value of a filter or cursor.
const VALUE_MAX: usize = 1_024;

/// The parameters of a query, each name once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Params(BTreeMap<String, String>);

impl FromRequestParts<App> for Params {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Self, ApiError> {
        Ok(Self::read(&parts.uri)?)
    }
}

#[derive(Debug)]
pub(crate) struct NoParams;

/// The parameters of a list without filters.
#[derive(Debug)]
pub(crate) struct PageParams {
    pub(crate) limit: u64,
    pub(crate) cursor: Option<String>,
}

impl FromRequestParts<App> for PageParams {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Self, ApiError> {
        let params = Params::read(&parts.uri)?.only(&["limit", "cursor"])?;
        Ok(Self {
            limit: params.limit()?,
            cursor: params.read_as("cursor")?,
        })
    }
}

impl FromRequestParts<App> for NoParams {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Self, ApiError> {
        Params::read(&parts.uri)?.only(&[])?;
        Ok(Self)
    }
}

impl Params {
    /// # Errors
    /// 400 for an invalid query, a long value and a repeated name.
    pub(crate) fn read(uri: &Uri) -> Result<Self, Problem> {
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|error| invalid(format!("invalid query: {error}")))?;
        let mut found = BTreeMap::new();
        for (name, value) in pairs {
            if value.len() > VALUE_MAX {
                let name = excerpt(&name);
                return Err(invalid(format!(
                    "`{name}` is too long; expected at most {VALUE_MAX} characters"
                )));
            }
            if found.insert(name.clone(), value).is_some() {
                return Err(invalid(format!(
                    "`{}` is given twice; expected once",
                    excerpt(&name)
                )));
            }
        }
        Ok(Self(found))
    }

    /// # Errors
    /// 400 for a parameter with another name.
    pub(crate) fn only(self, known: &[&str]) -> Result<Self, Problem> {
        match self.0.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(self),
            Some(name) if known.is_empty() => Err(invalid(format!(
                "unknown parameter `{}`; this route takes none",
                excerpt(name)
            ))),
            Some(name) => Err(invalid(format!(
                "unknown parameter `{}`; expected {}",
                excerpt(name),
                known.join(", ")
            ))),
        }
    }

    pub(crate) fn read_as<T: FromStr<Err: Display>>(
        &self,
        name: &str,
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.0.get(name) else {
            return Ok(None);
        };
        text.parse()
            .map(Some)
            .map_err(|error| invalid(format!("invalid `{name}` `{}`: {error}", excerpt(text))))
    }

    /// One value of an enumeration, written as in bodies.
    pub(crate) fn read_word<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Problem> {
        let Some(text) = self.0.get(name) else {
            return Ok(None);
        };
        serde_json::from_value(text.as_str().into())
            .map(Some)
            .map_err(|error: serde_json::Error| {
                // Only the list of words in serde's message helps the caller.
                let error = error.to_string();
                let allowed = error
                    .split_once(", expected ")
                    .map_or(&*error, |(_, it)| it);
                let allowed = allowed.trim_start_matches("one of ");
                invalid(format!(
                    "invalid `{name}` `{}`; expected {allowed}",
                    excerpt(text)
                ))
            })
    }

    /// A word of the body, else of the query, else the default.
    pub(crate) fn read_word_unless<T: DeserializeOwned + Default>(
        &self,
        in_body: Option<T>,
        name: &str,
    ) -> Result<T, Problem> {
        match in_body {
            Some(word) => Ok(word),
            None => Ok(self.read_word(name)?.unwrap_or_default()),
        }
    }

    /// `limit`, from 1 to 500.
    pub(crate) fn limit(&self) -> Result<u64, Problem> {
        match self.read_as("limit")? {
            None => Ok(LIMIT_DEFAULT),
            Some(limit) if (1..=LIMIT_MAX).contains(&limit) => Ok(limit),
            Some(limit) => Err(invalid(format!(
                "invalid `limit` `{limit}`; expected 1 to {LIMIT_MAX}"
            ))),
        }
    }
}

/// 400: a parameter is invalid.
pub(crate) fn invalid(detail: impl Into<String>) -> Problem {
    Problem::new(400, "invalid_query", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(query: &str) -> Result<Params, Problem> {
        let uri = format!("/runs?{query}")
            .parse()
            .map_err(|_error| invalid("no URI"))?;
        Params::read(&uri)?.only(&["limit", "status"])
    }

    #[test]
    fn what_is_not_known_is_refused_with_what_is() {
        let problem = params("stauts=failed").unwrap_err();
        assert_eq!(
            (problem.status, problem.code.as_str()),
            (400, "invalid_query")
        );
        assert_eq!(
            problem.detail,
            "unknown parameter `stauts`; expected limit, status"
        );
    }

    #[test]
    fn a_limit_is_from_1_to_500() {
        assert_eq!(params("").unwrap().limit().unwrap(), 100);
        assert_eq!(params("limit=500").unwrap().limit().unwrap(), 500);
        for query in ["limit=0", "limit=501", "limit=-1", "limit=x", "limit="] {
            let problem = params(query).unwrap().limit().unwrap_err();
            assert_eq!(problem.code, "invalid_query", "{query}");
        }
    }

    /// D-12: what a person typed is refused with the words that are allowed, and without Rust's.
    #[test]
    fn an_unknown_word_is_refused_with_the_words_there_are() {
        use holdpoint_contracts::handoff::RequestStatus;
        let read = |query| params(query)?.read_word::<RequestStatus>("status");
        let detail = read("status=approved").unwrap_err().detail;
        assert!(
            detail.starts_with("invalid `status` `approved`; expected `open`, "),
            "{detail}"
        );
        assert!(!detail.contains("variant"), "{detail}");
    }

    #[test]
    fn a_name_occurs_once_and_a_value_is_short() {
        assert!(params("limit=1&limit=2").is_err());
        assert!(params(&format!("status={}", "x".repeat(2_000))).is_err());
        assert!(params("status=%ff").is_ok_and(|it| it.read_as::<u8>("status").is_err()));
    }
}
