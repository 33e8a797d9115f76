//! Cron expressions in a time zone.
//!
//! `croner` knows which wall-clock times an expression means; what those are in real time is decided here, because
//! around a change of the clocks `croner` 3 answers wrongly: asked from the repeated hour it returns a time that is
//! already past, an expression like `*/5` skips the repeated hour altogether, and a list of hours loses the one that
//! the change skips. The rule here is that of cron:
//!
//! - an expression that runs in every hour, or at a wildcard or step of minutes, counts real time: it goes on
//!   through a repeated hour;
//! - any other means times of the day: one that the change repeats runs once, the first time;
//! - a time that the change skips runs once, when the clocks have changed, unless every hour is meant anyway; several
//!   skipped times are one run.

use std::fmt;

use chrono::{DateTime, Datelike, Duration, NaiveDate, NaiveDateTime, Offset, SubsecRound, TimeZone, Utc};
use chrono_tz::Tz;
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};

/// When something is to run: a cron expression and the time zone in which it is meant.
///
/// Five fields (minute, hour, day of month, month, weekday), or six with seconds first. When day of month and weekday
/// are both given, either matches.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    expression: String,
    cron: Cron,
    zone: Tz,
    every_hour: bool,
    repeats: bool,
}

/// An expression that is not a schedule.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{expression:?} is not a cron expression: {reason}")]
pub struct InvalidSchedule {
    expression: String,
    reason: String,
}

impl Schedule {
    /// Parses `expression`; one that never fires, such as `0 0 30 2 *`, is an error.
    pub fn parse(expression: &str, zone: Tz) -> Result<Self, InvalidSchedule> {
        let expression = expression.trim();
        let invalid = |reason: String| InvalidSchedule { expression: expression.to_owned(), reason };
        let fields = expression.split_whitespace().count();
        if !expression.starts_with('@') && !(5..=6).contains(&fields) {
            let reason = format!(
                "it has {fields} fields, and five are needed (minute, hour, day of month, month, weekday), or six \
                 with seconds first"
            );
            return Err(invalid(reason));
        }
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
        let cron = parser.parse(expression).map_err(|error| invalid(error.to_string()))?;
        let minutes = &cron.pattern.minutes;
        let every_hour = cron.pattern.hours.is_all_set();
        let repeats = every_hour || minutes.is_all_set() || minutes.step > 1;
        let schedule = Self { expression: expression.to_owned(), cron, zone, every_hour, repeats };
        if schedule.ever_fires() { Ok(schedule) } else { Err(invalid("it never fires".to_owned())) }
    }

    /// The first time after `t` at which it fires; `None` when there is none before the year 5000.
    #[must_use]
    pub fn next_after(&self, t: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let mut from = t.naive_utc().trunc_subsecs(0);
        let mut offset = self.offset_at(from);
        loop {
            // Within one stretch of constant offset, the next wall-clock match is the next match.
            let wall = self.wall_clock_after(from.checked_add_signed(offset)?)?;
            let at = wall.checked_sub_signed(offset)?;
            let Some((change, changed)) = self.change_between(from, offset, at) else {
                if self.repeats || !self.is_repetition(wall, at) {
                    return Some(at.and_utc());
                }
                from = at;
                continue;
            };
            if !self.every_hour && self.skips_a_match(change + offset, change + changed) {
                return Some(change.and_utc());
            }
            (from, offset) = (change - Duration::seconds(1), changed);
        }
    }

    /// `croner` itself looks until the year 5000, which takes seconds. All 14 calendars occur within 28 years.
    fn ever_fires(&self) -> bool {
        /// `croner`'s flag of a plain value.
        const PLAIN: u8 = 1;
        let pattern = &self.cron.pattern;
        let day_matches = |day: NaiveDate| {
            pattern.month_match(day.month()).unwrap_or(false)
                && pattern.day_match(day.year(), day.month(), day.day()).unwrap_or(false)
        };
        [&pattern.seconds, &pattern.minutes, &pattern.hours].iter().all(|part| !part.get_set_values(PLAIN).is_empty())
            && NaiveDate::default().iter_days().take(28 * 366).any(day_matches)
    }

    /// The next matching wall-clock time after `wall`, as if clocks never changed.
    fn wall_clock_after(&self, wall: NaiveDateTime) -> Option<NaiveDateTime> {
        self.cron.find_next_occurrence(&wall.and_utc(), false).ok().map(|at| at.naive_utc())
    }

    fn offset_at(&self, at: NaiveDateTime) -> Duration {
        Duration::seconds(self.zone.offset_from_utc_datetime(&at).fix().local_minus_utc().into())
    }

    /// The first change of the clocks in `(from, until]`, `offset` being in force after `from`: its first second and
    /// the offset from then on. A change that is taken back within 12 hours is not seen; there are none.
    fn change_between(
        &self,
        from: NaiveDateTime,
        offset: Duration,
        until: NaiveDateTime,
    ) -> Option<(NaiveDateTime, Duration)> {
        let mut before = from;
        let mut after = from;
        while after < until {
            after = after.checked_add_signed(Duration::hours(12))?.min(until);
            if self.offset_at(after) == offset {
                before = after;
                continue;
            }
            while after - before > Duration::seconds(1) {
                let middle = before + Duration::seconds((after - before).num_seconds() / 2);
                if self.offset_at(middle) == offset { before = middle } else { after = middle }
            }
            return Some((after, self.offset_at(after)));
        }
        None
    }

    /// Whether wall-clock `[from, to)`, which a change skipped, holds a match.
    fn skips_a_match(&self, from: NaiveDateTime, to: NaiveDateTime) -> bool {
        self.wall_clock_after(from - Duration::seconds(1)).is_some_and(|wall| wall < to)
    }

    /// Whether `at` is the second time that the clocks show `wall`.
    fn is_repetition(&self, wall: NaiveDateTime, at: NaiveDateTime) -> bool {
        self.zone.from_local_datetime(&wall).earliest().is_some_and(|first| first.naive_utc() < at)
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.expression)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono_tz::{America::New_York, Australia::Lord_Howe, Europe::Berlin};

    fn utc(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    /// The firings in `[from, until)`, as `dd HH:MM` in UTC.
    fn firings(expression: &str, zone: Tz, from: &str, until: &str) -> Vec<String> {
        let schedule = Schedule::parse(expression, zone).unwrap();
        let first = utc(from) - Duration::seconds(1);
        std::iter::successors(schedule.next_after(first), |t| schedule.next_after(*t))
            .take_while(|t| *t < utc(until))
            .map(|t| t.format("%d %H:%M").to_string())
            .collect()
    }

    #[test]
    fn a_nightly_job_keeps_its_local_hour_over_a_change() {
        let nightly = Schedule::parse("0 0 3 * * *", Berlin).unwrap();
        let first = nightly.next_after(utc("2026-03-28T12:00:00+01:00")).unwrap();
        assert_eq!(first, utc("2026-03-29T01:00:00Z"));
        assert_eq!(nightly.next_after(first), Some(utc("2026-03-30T01:00:00Z")));
        let autumn = firings("0 3 * * *", Berlin, "2026-10-24T00:00:00Z", "2026-10-27T00:00:00Z");
        assert_eq!(autumn, ["24 01:00", "25 02:00", "26 02:00"]);
    }

    #[test]
    fn a_time_that_the_change_skips_runs_once() {
        let spring = |expression, zone, day: &str| {
            firings(expression, zone, &format!("2026-{day}T00:00:00Z"), &format!("2026-{day}T23:59:59Z"))
        };
        assert_eq!(spring("30 2 * * *", Berlin, "03-29"), ["29 01:00"]);
        assert_eq!(spring("30 2,14 * * *", Berlin, "03-29"), ["29 01:00", "29 12:30"]);
        assert_eq!(spring("0,30 2,3 * * *", Berlin, "03-29"), ["29 01:00", "29 01:30"]);
        assert_eq!(spring("*/20 2 * * *", Berlin, "03-29"), ["29 01:00"]);
        assert_eq!(spring("30 2 * * *", New_York, "03-08"), ["08 07:00"]);
        // Lord Howe goes from 02:00 (+10:30) to 02:30 (+11:00) on 4 October.
        let lord_howe = |expression| firings(expression, Lord_Howe, "2026-10-03T12:00:00Z", "2026-10-04T12:00:00Z");
        assert_eq!(lord_howe("15 2 * * *"), ["03 15:30"]);
        assert_eq!(lord_howe("15,45 2 * * *"), ["03 15:30", "03 15:45"]);
    }

    #[test]
    fn a_time_that_the_change_repeats_runs_once() {
        let autumn = firings("30 2 * * *", Berlin, "2026-10-24T12:00:00Z", "2026-10-26T12:00:00Z");
        assert_eq!(autumn, ["25 00:30", "26 01:30"]);
        let york = firings("0,30 1 * * *", New_York, "2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z");
        assert_eq!(york, ["01 05:00", "01 05:30"]);
        // Lord Howe goes from 02:00 (+11:00) back to 01:30 (+10:30) on 5 April.
        let lord_howe = firings("45 1 * * *", Lord_Howe, "2026-04-04T00:00:00Z", "2026-04-05T12:00:00Z");
        assert_eq!(lord_howe, ["04 14:45"]);
        // Asked from within the repetition, the answer is not in the past.
        let nightly = Schedule::parse("30 2 * * *", Berlin).unwrap();
        assert_eq!(nightly.next_after(utc("2026-10-25T01:10:00Z")), Some(utc("2026-10-26T01:30:00Z")));
    }

    #[test]
    fn an_interval_goes_on_through_every_change() {
        for (zone, from) in [
            (Berlin, "2026-03-28T23:00:00Z"),
            (Berlin, "2026-10-24T22:00:00Z"),
            (New_York, "2026-03-08T05:00:00Z"),
            (New_York, "2026-11-01T04:00:00Z"),
            (Lord_Howe, "2026-04-04T13:00:00Z"),
            (Lord_Howe, "2026-10-03T13:00:00Z"),
        ] {
            let schedule = Schedule::parse("0 */5 * * * *", zone).unwrap();
            let mut t = utc(from);
            for _ in 0..60 {
                assert_eq!(schedule.next_after(t), Some(t + Duration::minutes(5)), "{zone} after {t}");
                t += Duration::minutes(5);
            }
        }
        let hourly = firings("17 * * * *", Berlin, "2026-10-25T00:00:00Z", "2026-10-25T03:00:00Z");
        assert_eq!(hourly, ["25 00:17", "25 01:17", "25 02:17"]);
        let hourly = firings("17 * * * *", Berlin, "2026-03-29T00:00:00Z", "2026-03-29T03:00:00Z");
        assert_eq!(hourly, ["29 00:17", "29 01:17", "29 02:17"]);
        let limited = firings("*/30 1-3 * * *", Berlin, "2026-10-24T22:00:00Z", "2026-10-25T12:00:00Z");
        assert_eq!(limited.len(), 8, "{limited:?}");
    }

    #[test]
    fn a_repetition_is_found_when_the_next_wall_clock_match_is_a_year_away() {
        let once_a_year = firings("*/30 2 25 10 *", Berlin, "2026-10-25T00:00:00Z", "2026-12-01T00:00:00Z");
        assert_eq!(once_a_year, ["25 00:00", "25 00:30", "25 01:00", "25 01:30"]);
    }

    /// Every minute of three days around each change, one by one, by the definition.
    #[test]
    fn agrees_with_the_definition_minute_by_minute() {
        let starts = [
            (Berlin, "2026-03-28T00:00:00Z"),
            (Berlin, "2026-10-24T00:00:00Z"),
            (New_York, "2026-03-07T00:00:00Z"),
            (New_York, "2026-10-31T00:00:00Z"),
            (Lord_Howe, "2026-04-03T00:00:00Z"),
            (Lord_Howe, "2026-10-03T00:00:00Z"),
        ];
        let expressions = ["* * * * *", "*/7 2 * * *", "10 1-4 * * *", "0 */2 * * *", "15,45 1,2,3 * * 0", "5 0 1 * 7"];
        for (zone, start) in starts {
            for expression in expressions {
                let schedule = Schedule::parse(expression, zone).unwrap();
                let wall = |at: DateTime<Utc>| at.with_timezone(&zone).naive_local();
                let matches = |at: NaiveDateTime| schedule.cron.is_time_matching(&at.and_utc()).unwrap();
                let expected = |at: DateTime<Utc>| {
                    let shown = wall(at);
                    let jump = (shown - wall(at - Duration::minutes(1))).num_minutes();
                    let skipped = (1..jump).any(|minutes| matches(shown - Duration::minutes(minutes)));
                    let second = zone.from_local_datetime(&shown).earliest().unwrap() < at;
                    (matches(shown) && (schedule.repeats || !second)) || (skipped && !schedule.every_hour)
                };
                let minutes = (0..3 * 24 * 60).map(|minute| utc(start) + Duration::minutes(minute));
                let by_definition: Vec<_> = minutes.filter(|at| expected(*at)).collect();
                let until = utc(start) + Duration::days(3);
                let first = schedule.next_after(utc(start) - Duration::seconds(1));
                let found: Vec<_> =
                    std::iter::successors(first, |t| schedule.next_after(*t)).take_while(|t| *t < until).collect();
                assert_eq!(found, by_definition, "{expression} in {zone}");
            }
        }
    }

    #[test]
    fn day_of_month_and_weekday_match_either() {
        // July 2026: the 13th is a Monday; Fridays are 3, 10, 17, 24, 31.
        let july = firings("0 0 13 * 5", Tz::UTC, "2026-07-01T00:00:00Z", "2026-08-01T00:00:00Z");
        assert_eq!(july, ["03 00:00", "10 00:00", "13 00:00", "17 00:00", "24 00:00", "31 00:00"]);
    }

    #[test]
    fn a_fraction_of_a_second_does_not_leak_into_the_answer() {
        let schedule = Schedule::parse("* * * * * *", Tz::UTC).unwrap();
        assert_eq!(schedule.next_after(utc("2026-01-01T00:00:00.750Z")), Some(utc("2026-01-01T00:00:01Z")));
        assert_eq!(schedule.next_after(utc("2026-01-01T00:00:00Z")), Some(utc("2026-01-01T00:00:01Z")));
    }

    #[test]
    fn refuses_what_is_not_a_schedule() {
        let refuse = |text| Schedule::parse(text, Tz::UTC).unwrap_err().to_string();
        assert!(refuse("0 0 30 2 *").contains("never fires"));
        assert!(refuse("0 0 31 4,6,9,11 *").contains("never fires"));
        assert!(refuse("* * * *").contains("it has 4 fields"));
        assert!(refuse("0 0 0 1 1 * 2026").contains("it has 7 fields"));
        for bad in ["", "61 * * * *", "0 25 * * *", "*/0 * * * *", "a b c d e", "@fortnightly", ", * * * *"] {
            refuse(bad);
        }
        assert_eq!(Schedule::parse(" 0 3 * * * ", Tz::UTC).unwrap().to_string(), "0 3 * * *");
        assert!(Schedule::parse("0 0 29 2 *", Tz::UTC).is_ok());
    }
}
