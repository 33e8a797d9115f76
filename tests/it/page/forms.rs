//! Who may press the button.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::{Http, Reply, Rig};

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

/// A `POST` with these headers instead of the test client's own `Host`.
async fn post(http: &Http, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    let all = [headers, &[FORM, ("connection", "close")]].concat();
    let lines: Vec<String> = all.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let request =
        format!("POST {path} HTTP/1.1\r\n{}\r\ncontent-length: {}\r\n\r\n{body}", lines.join("\r\n"), body.len());
    http.exchange(request.as_bytes()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_sites_press_nothing() {
    let rig = Rig::start("").await;
    let served = rig.serve(&["--no-schedule"]).await;
    let (admin, api) = (&served.admin, served.api());
    let host = admin.address.to_string();
    let origin = format!("http://{host}");
    let like = r#"{"ops":[{"op":"set","interaction":"like","target_type":1,"target_id":"1","user_id":"2"}]}"#;
    for headers in [
        &[("host", host.as_str()), ("origin", "http://evil.example")][..],
        &[("host", host.as_str()), ("origin", "null")],
        &[("host", host.as_str()), ("sec-fetch-site", "cross-site")],
        &[("host", host.as_str()), ("origin", &origin), ("sec-fetch-site", "same-site")],
        &[("host", "evil.example"), ("origin", "http://evil.example")],
    ] {
        for path in ["/", "/sync"] {
            post(admin, path, headers, "").await.expect_problem(403, "cross-site");
        }
        post(api, "/v1/batch", headers, like).await.expect_problem(403, "cross-site");
    }
    assert_eq!(rig.sql("SELECT run_id FROM sync_run WHERE caused_by = 'api'").await.len(), 0);

    let own = [("host", host.as_str()), ("origin", origin.as_str()), ("sec-fetch-site", "same-origin")];
    let pressed = post(admin, "/", &own, "").await.expect(303);
    let back = pressed.header("location").unwrap();
    assert!(admin.get(back).await.expect(200).body.contains("is done"), "{back}");
    // Programs are no browsers.
    post(admin, "/sync", &[("host", "tallyd.internal")], "").await.expect(202);
    let api_host = api.address.to_string();
    post(api, "/v1/batch", &[("host", &api_host)], like).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_tokens_the_form_bears_one() {
    let rig = Rig::start("").await;
    let tokens = rig.dir().join("tokens");
    fs::write(&tokens, "open-sesame\n").unwrap();
    fs::set_permissions(&tokens, fs::Permissions::from_mode(0o600)).unwrap();
    rig.configure(&format!("admin.token_file = {:?}", tokens.display().to_string()));
    let served = rig.serve(&["--no-schedule"]).await;
    let admin = &served.admin;
    let page = admin.get("/").await.expect(200).body;
    assert!(page.contains("type=\"password\"") && !page.contains("http-equiv"), "{page}");
    for body in ["", "token=", "token=wrong", "token=open-sesam", "tokens=open-sesame"] {
        let refused = post(admin, "/", &[("host", "tallyd")], body).await.expect(403);
        assert!(refused.body.contains("The token is none") && !refused.body.contains("open-ses"), "{}", refused.body);
    }
    assert_eq!(rig.sql("SELECT run_id FROM sync_run WHERE caused_by = 'api'").await.len(), 0);
    post(admin, "/sync", &[("host", "tallyd")], "token=open-sesame").await.expect_problem(401, "unauthorized");
    let pressed = post(admin, "/", &[("host", "tallyd")], "token=open-sesame").await.expect(303);
    assert!(!pressed.header("location").unwrap().contains("sesame"));
    assert_eq!(rig.sql("SELECT run_id FROM sync_run WHERE caused_by = 'api'").await.len(), 1);
    assert!(!served.log().contains("sesame"));
}
