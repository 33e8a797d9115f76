//! "Install", from the databases on; the package is tested elsewhere.

use std::fs;

use super::blocks::blocks;
use super::{Stage, steps};

/// With the very users, configuration and secrets of the chapter. 127.0.0.1 stands for its addresses.
#[tokio::test(flavor = "multi_thread")]
async fn the_users_that_it_makes_may_do_what_is_needed() {
    let Some(mut stage) = Stage::set("").await else { return };
    let [users] = blocks("Install", "sql").try_into().expect("one block");
    stage.rig.sql_exec("DROP DATABASE tallyd").await;
    let shell = format!("mariadb -e \"{}\"", users.replace("10.%", "127.0.0.1"));
    let acl =
        blocks("Install", "text").into_iter().find(|block| block.starts_with("ACL SETUSER")).expect("a user of Redis");
    let acl = acl.split(' ').map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    for command in [shell, format!("redis-cli {acl}")] {
        stage.run(&command, &["…".to_owned()]).await;
    }
    let [configuration] = blocks("Install", "toml").try_into().expect("one block");
    let (redis, mysql) = (stage.redis.server().port(), stage.mysql.server().port());
    let configuration = configuration
        .replace("redis.internal:6379", &format!("127.0.0.1:{redis}"))
        .replace("mysql.internal", &format!("127.0.0.1:{mysql}"));
    assert_eq!(configuration.matches("127.0.0.1:").count(), 2, "{configuration}");
    let free = "api.listen = \"127.0.0.1:0\"\nadmin.listen = \"127.0.0.1:0\"\n";
    fs::write(stage.rig.config(), format!("{free}{configuration}\n")).unwrap();
    for name in ["redis-password", "mysql-password"] {
        fs::write(stage.rig.dir().join(name), "PASSWORD\n").unwrap();
    }

    let secrets = stage.rig.dir().display().to_string();
    stage.call("DIRECTORY=/etc/tallyd ", &format!("DIRECTORY={secrets} "));
    let ours = |command: &str| !command.starts_with("make ") && !command.starts_with("apt ");
    let steps: Vec<_> = steps("Install").into_iter().filter(|step| ours(&step.command)).collect();
    stage.play(&steps, async |_: &mut Stage, comment: &str| panic!("nobody knows what this means: {comment}")).await;
    stage.daemon.as_ref().unwrap().api().put("/v1/like/note/1/users/1").await.expect(200);
    for command in ["sync", "reconcile", "status", "report"] {
        stage.rig.tallyd(&[command]).await.expect_code(0);
    }
}
