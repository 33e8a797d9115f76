//! Tokens and passwords are not printed while requests are served, however much is logged (hazard 22).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use crate::support::{PrivateMysql, PrivateRedis, Rig, Served, Signal};

const LIMIT: Duration = Duration::from_secs(30);
/// In every secret here, and nowhere by chance.
const SENTINEL: &str = "Hunter2Sentinel";

fn secret_file(rig: &Rig, name: &str, content: &str) -> String {
    let file = rig.dir().join(name);
    fs::write(&file, content).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    format!("{:?}", file.display().to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_not_printed_while_requests_are_served() {
    let Some(mysql) = PrivateMysql::start(&[]).await else { return };
    let Some(redis) = PrivateRedis::start(&[]).await else { return };
    let db = mysql.create_database("likes").await;
    let password = format!("{SENTINEL}-password");
    db.sql_exec(&format!("CREATE USER tally@'%' IDENTIFIED BY '{password}'; GRANT ALL ON likes.* TO tally@'%'")).await;
    let mut connection = redis.connect().await;
    let mut command = redis::cmd("ACL");
    command.arg("SETUSER").arg("tally").arg("on").arg(format!(">{password}")).arg("~*").arg("+@all");
    command.query_async::<()>(&mut connection).await.unwrap();

    let rig = Rig::on(&redis, &db, "");
    let tokens = secret_file(&rig, "tokens", &format!("{SENTINEL}-new\n{SENTINEL}-old\n"));
    let password = secret_file(&rig, "password", &password);
    let config = format!(
        "mysql.url = \"mysql://tally@127.0.0.1:{}/likes\"\nmysql.password_file = {password}\n\
         redis.url = \"redis://127.0.0.1:{}/0\"\nredis.username = \"tally\"\nredis.password_file = {password}\n\
         api.listen = \"127.0.0.1:0\"\napi.token_file = {tokens}\n\
         admin.listen = \"127.0.0.1:0\"\nadmin.token_file = {tokens}\nsync.cron = \"* * * * * *\"\n",
        mysql.server().port(),
        redis.server().port()
    );
    fs::write(rig.config(), config).unwrap();
    rig.migrate().await;
    let served = Served::by(rig.spawn(&["serve"], &[("RUST_LOG", "trace")]), true).await;

    let mut answers = Vec::new();
    let batch = r#"{"ops":[{"op":"set","interaction":"like","target_type":1,"target_id":5,"user_id":6}]}"#;
    for token in ["new", "old", "wrong", "new\u{e9}"] {
        let token = format!("{SENTINEL}-{token}");
        let (api, admin) = (served.api().with_token(&token), served.admin.with_token(&token));
        let state = "/v1/like/1/10086/users/42";
        answers.extend([api.put(state).await, api.get(state).await, api.delete(state).await]);
        answers.extend([api.get("/v1/like/1/7").await, api.get("/v1/targets/1/7").await]);
        answers.extend([api.get("/v1/users/42/like").await, api.get("/v1/users/42/like?limit=x").await]);
        answers.extend([api.post("/v1/batch", batch).await, api.post("/v1/batch", "{").await]);
        answers.extend([api.post("/v1/view/1/1", r#"{"viewer":"a"}"#).await, api.get("/nowhere").await]);
        answers.extend([api.get("/openapi.json").await, admin.get("/status").await, admin.get("/metrics").await]);
        answers.extend([admin.get("/readyz").await, admin.post("/sync?wait_seconds=30", "").await]);
    }
    let forms = ["Basic {}", "{}", "Bearer", "Bearer  {} {}", "Digest username=\"{}\"", "Bearer {}, Bearer {}"];
    for value in forms.map(|form| form.replace("{}", &format!("{SENTINEL}-new"))) {
        let twice = [("authorization", value.as_str()), ("authorization", value.as_str())];
        for headers in [&twice[..1], &twice[..]] {
            answers.push(served.api().send("GET", "/openapi.json", headers, "").await.expect(401));
            answers.push(served.admin.send("POST", "/sync", headers, "").await.expect(401));
        }
    }
    let of_status = |status| answers.iter().filter(|answer| answer.status == status).count();
    assert!(of_status(200) > 20 && of_status(400) == 4 && of_status(401) > 20, "{answers:?}");
    for answer in &answers {
        let printed = format!("{answer:?}");
        assert!(!printed.contains(SENTINEL), "{printed}");
    }

    // Without its servers it says that, and no more.
    drop((mysql, redis));
    served.api().with_token(&format!("{SENTINEL}-new")).put("/v1/like/1/1/users/1").await.expect(503);
    served.daemon.wait_for_log("Redis is away", LIMIT).await;
    served.signal(Signal::TERM);
    served.wait(LIMIT).await;
    for text in [served.log(), served.stdout()] {
        let found = text.lines().find(|line| line.to_lowercase().contains(&SENTINEL.to_lowercase()));
        assert_eq!(found, None);
    }
    let log = served.log();
    assert!(log.contains("DEBUG") && log.contains("/v1/like/1/10086/users/42"), "everything is logged:\n{log}");
}
