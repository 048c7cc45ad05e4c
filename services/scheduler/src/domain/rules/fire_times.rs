//! When a schedule fires: the instants of a cron expression in a time zone.
//!
//! At a change of daylight saving, an expression with fixed hours and minutes follows the day: a time in a skipped hour
//! moves to the end of the gap, and a time in a repeated hour fires once. An expression for every hour or minute follows
//! the time that passes: it skips the gap, and fires in both hours.

use chrono::{DateTime, DurationRound as _, TimeDelta, Utc};
use chrono_tz::Tz;
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use holdpoint_calendar::{NAME_CHARS_MAX, instants};
use holdpoint_contracts::problem::FieldError;

use crate::domain::model::schedule::CRON_CHARS_MAX;

/// The fires of a schedule.
#[derive(Debug)]
pub(crate) struct FireTimes {
    cron: Cron,
    zone: Tz,
}

impl FireTimes {
    /// Reads an expression and a zone, and collects what is wrong.
    pub(crate) fn read(cron: &str, time_zone: &str) -> Result<Self, Vec<FieldError>> {
        match (read_cron(cron), read_zone(time_zone)) {
            (Ok(cron), Ok(zone)) => Ok(Self { cron, zone }),
            (cron, zone) => {
                let errors = cron.err().into_iter().chain(zone.err());
                Err(errors.map(|error| *error).collect())
            }
        }
    }

    /// The first fire after an instant; `None`: it never fires again.
    pub(crate) fn next_after(&self, instant: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let start = whole_second(instant)?.with_timezone(&self.zone);
        let pattern = &self.cron.pattern;
        if pattern.hours.from_wildcard || pattern.minutes.from_wildcard {
            let next = self.cron.find_next_occurrence(&start, false).ok()?;
            return Some(next.with_timezone(&Utc));
        }
        // UTC has no gaps, so the search is one of local times.
        let mut local = start.naive_local().and_utc();
        loop {
            local = self.cron.find_next_occurrence(&local, false).ok()?;
            // After the first of two equal hours, the times of the second one have fired already.
            let (next, _) = instants(self.zone, local.naive_utc())?;
            if next > instant {
                return Some(next);
            }
        }
    }

    /// The last fire from `due`, which is one, until `now`: the only one of the missed fires that starts a run.
    pub(crate) fn latest(&self, due: DateTime<Utc>, now: DateTime<Utc>) -> DateTime<Utc> {
        let (mut fired, mut beyond) = (due, now);
        // Each pass halves the time in which a later fire may be. The usual fire has none.
        while let Some(next) = self.next_after(fired).filter(|next| *next <= now) {
            fired = next;
            let middle = fired + (beyond - fired) / 2;
            match self.next_after(middle).filter(|next| *next <= now) {
                Some(later) => fired = later,
                None => beyond = middle,
            }
        }
        fired
    }
}

fn whole_second(instant: DateTime<Utc>) -> Option<DateTime<Utc>> {
    instant.duration_trunc(TimeDelta::seconds(1)).ok()
}

fn read_cron(text: &str) -> Result<Cron, Box<FieldError>> {
    let wrong = |message: String| {
        Box::new(FieldError {
            text: text.chars().take(CRON_CHARS_MAX).collect(),
            ..FieldError::at("/cron", message)
        })
    };
    if text.chars().count() > CRON_CHARS_MAX {
        let message = format!("has more than {CRON_CHARS_MAX} characters");
        return Err(wrong(message));
    }
    let parser = CronParser::builder()
        .seconds(Seconds::Disallowed)
        .year(Year::Disallowed)
        .build();
    parser.parse(&with_wildcards(text)).map_err(|error| {
        let error = error.to_string();
        let reason = error.trim_end_matches('.');
        wrong(format!(
            "invalid cron expression ({reason}); expected minute, hour, day of the month, month and day of the week, such as `30 9 * * MON-FRI`"
        ))
    })
}

/// Writes minutes and hours that name their whole range, such as `0-59/15`, with `*`, because they mean the same.
fn with_wildcards(text: &str) -> String {
    let mut fields: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
    for (field, last) in fields.iter_mut().zip([59, 23]) {
        let range = field
            .split_once('-')
            .filter(|(first, _)| is_number(first, 0));
        let Some((_, rest)) = range else {
            continue;
        };
        let (end, step) = match rest.split_once('/') {
            Some((end, step)) => (end, format!("/{step}")),
            None => (rest, String::new()),
        };
        if is_number(end, last) {
            *field = format!("*{step}");
        }
    }
    fields.join(" ")
}

fn is_number(text: &str, number: u32) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse() == Ok(number)
}

fn read_zone(name: &str) -> Result<Tz, Box<FieldError>> {
    holdpoint_calendar::read_zone(name).map_err(|nearest| {
        Box::new(FieldError {
            text: name.chars().take(NAME_CHARS_MAX).collect(),
            nearest,
            ..FieldError::at(
                "/time_zone",
                "time_zone is the name of a zone of the IANA database, such as Europe/Berlin",
            )
        })
    })
}
