//! What `check` says of replicas: once promoted, their clocks give the event times.

use std::time::Duration;

use serde_json::Value;

use crate::support::{PrivateRedis, Rig, create_database, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn the_clock_of_a_replica_is_compared_or_said_to_be_unknown() {
    let Some(master) = PrivateRedis::start(&["--repl-diskless-sync-delay", "0"]).await else { return };
    let db = create_database().await;
    let rig = Rig::on(&master, &db, "");
    rig.migrate().await;
    let port = master.server().port().to_string();
    let Some(replica) = PrivateRedis::start(&["--replicaof", "127.0.0.1", &port]).await else { return };
    let finding = async || -> Option<Value> {
        let findings = rig.tallyd(&["check", "--json"]).await.json();
        let mut findings = findings["findings"].as_array().unwrap().clone().into_iter();
        findings.find(|finding| finding["name"] == "redis replica")
    };
    let found = eventually(Duration::from_secs(20), &finding, "a replica that is connected").await;
    assert_eq!(found["level"], "ok", "{found}");
    assert!(found["detail"].as_str().unwrap().contains(&replica.server().port().to_string()), "{found}");

    // A name that leads nowhere from here.
    let mut connection = replica.connect().await;
    for (name, value) in [("replica-announce-ip", "127.0.0.1"), ("replica-announce-port", "1")] {
        let () = redis::cmd("CONFIG").arg("SET").arg(name).arg(value).query_async(&mut connection).await.unwrap();
    }
    let () = redis::cmd("REPLICAOF").arg("NO").arg("ONE").query_async(&mut connection).await.unwrap();
    let () = redis::cmd("REPLICAOF").arg("127.0.0.1").arg(&port).query_async(&mut connection).await.unwrap();
    let unknown = async || finding().await.filter(|finding| finding["level"] == "warn");
    let found = eventually(Duration::from_secs(20), unknown, "a replica that cannot be asked").await;
    assert!(found["detail"].as_str().unwrap().contains("its clock is not known"), "{found}");
}
