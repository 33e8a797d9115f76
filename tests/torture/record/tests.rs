use super::*;

const KEY: Key = Key { target_type: 1, target: 2, interaction: 1, user: 3 };

/// Writes of one state, ten milliseconds each, a second apart: the value, and whether it was acknowledged.
fn record(writes: &[(bool, bool)]) -> Record {
    let mut record = Record::default();
    for (&(value, acknowledged), at) in writes.iter().zip(1..) {
        record.wrote(KEY, Attempt { value, sent_ms: at * 1000, ended_ms: at * 1000 + 10, acknowledged });
    }
    record
}

fn after_loss(writes: &[(bool, bool)], row: Option<(bool, i64)>) -> Values {
    let mut record = record(writes);
    let row = row.map(|(active, update_ms)| (KEY, Row { active, update_ms }));
    record.lost_data(99_000, |_| true, &row.into_iter().collect(), &BTreeMap::new());
    record.allowed(KEY)
}

fn both() -> Values {
    Values([true, true])
}

#[test]
fn the_last_acknowledged_write_or_a_later_one_that_is_not_known() {
    assert_eq!(record(&[]).allowed(KEY), Values::only(false));
    assert_eq!(record(&[(true, true)]).allowed(KEY), Values::only(true));
    assert_eq!(record(&[(true, false)]).allowed(KEY), both());
    assert_eq!(record(&[(true, true), (false, false)]).allowed(KEY), both());
    assert_eq!(record(&[(true, true), (true, false)]).allowed(KEY), Values::only(true));
    assert_eq!(record(&[(true, false), (false, true)]).allowed(KEY), Values::only(false));
}

#[test]
fn what_mysql_held_survives() {
    let set_and_cancelled = [(true, true), (false, true)];
    assert_eq!(after_loss(&set_and_cancelled, Some((false, 2003))), Values::only(false));
    assert_eq!(after_loss(&[(true, true), (false, true), (true, false)], Some((false, 2003))), both());
    assert_eq!(after_loss(&[(true, true), (true, false)], Some((true, 1003))), Values::only(true));
}

#[test]
fn what_mysql_did_not_hold_may_be_what_it_held_or_any_later_write() {
    assert_eq!(after_loss(&[(true, true)], None), both());
    assert_eq!(after_loss(&[(false, true)], None), Values::only(false));
    assert_eq!(after_loss(&[(true, true), (false, true)], Some((true, 1003))), both());
    // The row has the value of the last write, but comes from an earlier one: the write between may surface.
    assert_eq!(after_loss(&[(true, true), (false, true), (true, true)], Some((true, 1003))), both());
    // What had ended before the row was made does not come back.
    assert_eq!(after_loss(&[(false, true), (true, true), (true, true)], Some((true, 2003))), Values::only(true));
}

#[test]
fn two_writes_close_together_are_told_apart_only_by_their_value() {
    let mut record = Record::default();
    for (value, sent_ms) in [(true, 1000), (false, 1020)] {
        record.wrote(KEY, Attempt { value, sent_ms, ended_ms: sent_ms + 5, acknowledged: true });
    }
    record.lost_data(
        99_000,
        |_| true,
        &BTreeMap::from([(KEY, Row { active: true, update_ms: 1002 })]),
        &BTreeMap::new(),
    );
    assert_eq!(record.allowed(KEY), both());
    record.lost_data(
        99_000,
        |_| true,
        &BTreeMap::from([(KEY, Row { active: false, update_ms: 1022 })]),
        &BTreeMap::new(),
    );
    assert_eq!(record.allowed(KEY), Values::only(false));
}

#[test]
fn a_loss_is_named_and_then_what_was_found_counts() {
    let mut record = record(&[(true, true)]);
    record.lost_data(99_000, |_| true, &BTreeMap::new(), &BTreeMap::new());
    assert_eq!(record.settle(99_001, KEY, false), Verdict::AllowedLoss);
    assert_eq!(record.settle(99_002, KEY, false), Verdict::AsTold);
    assert_eq!(record.settle(99_003, KEY, true), Verdict::Lost);
    assert!(record.history(KEY).contains("99000 Redis lost data; MySQL held None"));
}

#[test]
fn a_loss_elsewhere_allows_nothing() {
    let mut record = record(&[(true, true)]);
    record.viewed(1, 2, true);
    record.lost_data(99_000, |target| target == 3, &BTreeMap::new(), &BTreeMap::new());
    assert_eq!(record.allowed(KEY), Values::only(true));
    assert_eq!(record.counters().collect::<Vec<_>>(), [((1, 2), (1, 1))]);
}

#[test]
fn a_counter_is_between_what_was_counted_and_what_may_have_been() {
    let mut record = Record::default();
    for counted in [true, true, false] {
        record.viewed(1, 2, counted);
    }
    assert_eq!(record.counters().collect::<Vec<_>>(), [((1, 2), (2, 3))]);
    record.lost_data(99_000, |_| true, &BTreeMap::new(), &BTreeMap::from([((1, 2), 1)]));
    record.viewed(1, 2, true);
    assert_eq!(record.counters().collect::<Vec<_>>(), [((1, 2), (1, 4))]);
    record.settle_counter((1, 2), 3);
    record.viewed(1, 2, true);
    assert_eq!(record.counters().collect::<Vec<_>>(), [((1, 2), (4, 4))]);
}
