//! Users with an active row are compared by a digest that both sides compute.

use tallyd::model::{Digest, Id, Salt};
use tallyd::sink::WantedRows;

use crate::likes::context;
use crate::support::Rig;

#[tokio::test(flavor = "multi_thread")]
async fn mysql_computes_the_same_digest_and_sends_rows_only_when_it_differs() {
    let rig = Rig::start("").await;
    rig.migrate().await;
    let users =
        [1, 2, 3, 4_294_967_295, 4_294_967_296, 9_007_199_254_740_993, i64::MAX].map(|n| Id::try_from(n).unwrap());
    for (n, user) in users.iter().enumerate() {
        let row = format!("(1, 5, 1, {user}, {}, '2026-01-01', '2026-01-01')", u8::from(n != 1));
        rig.sql_exec(&format!("INSERT INTO interaction_record VALUES {row}")).await;
    }
    let target = Id::try_from(5).unwrap();
    let active = || users.into_iter().enumerate().filter(|(n, _)| *n != 1).map(|(_, user)| user);
    let mut session = context(&rig).sink.session();
    for _ in 0..20 {
        let salt = Salt::random();
        let mut read = async |unless| {
            let users = users.to_vec();
            let wanted = WantedRows { target, interaction: 1, whole_up_to: Some(100), users, unless: Some(unless) };
            let mut held = session.held(1, vec![target], vec![wanted], salt).await.unwrap();
            held.figures.remove(&(target, 1)).unwrap()
        };
        let same = read(Digest::of(&salt, active())).await;
        assert!(same.as_expected && same.states.is_empty(), "{salt:?} {same:?}");
        assert_eq!(same.rows, Some((7, 6)));
        let other = active().map(|user| if user.get() == i64::MAX { users[1] } else { user });
        let differs = read(Digest::of(&salt, other)).await;
        assert!(!differs.as_expected && differs.states.len() == 7, "{salt:?} {differs:?}");
    }
    session.close().await;
}
