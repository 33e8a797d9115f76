//! "Add an interaction or a target type".

use std::fs;
use std::path::Path;

use super::blocks::blocks;
use super::{Stage, steps};

const CHAPTER: &str = "Add an interaction or a target type";

#[tokio::test(flavor = "multi_thread")]
async fn an_interaction_is_added_to_the_shipped_ones() {
    let shipped = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("config.toml")).unwrap();
    let lists = shipped.split_once("\n[[target]]").expect("the lists stand last").1;
    let Some(mut stage) = Stage::set(&format!("[[target]]{lists}")).await else { return };
    let nothing = async |_: &mut Stage, comment: &str| panic!("nobody knows what this means: {comment}");
    stage.start().await;
    stage.daemon.as_ref().unwrap().api().put("/v1/like/note/10086/users/42").await.expect(200);
    let [added] = blocks(CHAPTER, "toml").try_into().expect("one block");
    let before = fs::read_to_string(stage.rig.config()).unwrap();
    fs::write(stage.rig.config(), format!("{before}\n{added}\n")).unwrap();
    stage.play(&steps(CHAPTER), nothing).await;
    stage.rig.tallyd(&["reconcile"]).await.expect_code(0);
}
