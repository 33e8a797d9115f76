//! A headless Chromium, spoken to in its remote debugging protocol over pipes: no port, and no driver to install.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{fs, thread};

use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::home::new_home;
use super::process::{Process, bound, installed};
use super::skip::{skipped, this_test};
use super::wait::eventually;

const PROGRAMS: [&str; 3] = ["chromium", "google-chrome", "chromium-browser"];

/// It takes the protocol from file descriptor 3 and answers on 4. Every name ends at this machine: so nobody else is
/// asked, and a test may play the part of a site elsewhere.
const START: &str = "exec \"$0\" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --no-first-run \
    --disable-component-update --disable-background-networking --disable-features=HttpsUpgrades \
    --host-resolver-rules='MAP * 127.0.0.1' --user-data-dir=\"$HOME/profile\" --remote-debugging-pipe about:blank \
    3<&0 4>&1 1>&2 2>\"$HOME/log\"";

/// Generous: a browser is a large program, and a machine may be busy.
const LIMIT: Duration = Duration::from_mins(1);

/// One tab of a browser of its own; ended when dropped.
pub struct Browser {
    to: ChildStdin,
    /// All that it has said, but for the answers that were fetched.
    heard: Arc<Mutex<Vec<Value>>>,
    session: Value,
    last: u64,
    process: Process,
    home: TempDir,
}

impl Browser {
    /// `None`, and the test counts as skipped, where no Chromium is installed.
    #[track_caller]
    pub fn start() -> impl Future<Output = Option<Self>> {
        let test = this_test();
        async move {
            let program = PROGRAMS.into_iter().find_map(installed);
            if program.is_none() {
                skipped(&test, "needs Chromium: run tests/setup.sh browser");
            }
            let home = new_home("browser");
            let mut command = bound("sh");
            command.args(["-c", START]).arg(program?).current_dir(home.path()).env("HOME", home.path());
            // Its socket lies there, and the full path may be too long for one.
            command.env("TMPDIR", ".").stdin(Stdio::piped()).stdout(Stdio::piped());
            let process = Process::start("chromium", command);
            let (to, from) = (process.stdin().unwrap(), process.pipes().0.unwrap());
            let heard = Arc::default();
            listen(from, &heard);
            let mut browser = Self { to, heard, session: Value::Null, last: 0, process, home };
            browser.attach().await;
            Some(browser)
        }
    }

    async fn attach(&mut self) {
        let tab = self.call("Target.createTarget", json!({ "url": "about:blank" })).await;
        let tab = json!({ "targetId": tab["targetId"], "flatten": true });
        self.session = self.call("Target.attachToTarget", tab).await["sessionId"].clone();
        for domain in ["Page", "Runtime", "Log", "Network", "Audits"] {
            self.call(&format!("{domain}.enable"), json!({})).await;
        }
        self.call("Page.setLifecycleEventsEnabled", json!({ "enabled": true })).await;
    }

    /// A call that must succeed.
    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        self.attempt(method, params).await.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    async fn attempt(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if !self.session.is_null() {
            message["sessionId"] = self.session.clone();
        }
        let sent = self.to.write_all(format!("{message}\0").as_bytes());
        let log = || fs::read_to_string(self.home.path().join("log")).unwrap_or_default();
        assert!(sent.is_ok(), "chromium has ended:\n{}", log());
        let id = self.last;
        let answer = || {
            assert!(self.process.ended().is_none(), "chromium has ended:\n{}", log());
            let mut heard = self.heard.lock().unwrap();
            let at = heard.iter().position(|message| message["id"] == id)?;
            Some(heard.swap_remove(at))
        };
        let mut answer = eventually(LIMIT, async || answer(), method).await;
        if answer["error"].is_null() { Ok(answer["result"].take()) } else { Err(answer["error"].take()) }
    }

    /// Goes to an address and waits until what is there is loaded.
    pub async fn open(&mut self, url: &str) {
        let went = self.call("Page.navigate", json!({ "url": url })).await;
        assert!(went["errorText"].is_null(), "{url}: {went}");
        let loaded = |message: &Value| {
            let params = &message["params"];
            message["method"] == "Page.lifecycleEvent"
                && params["name"] == "load"
                && params["loaderId"] == went["loaderId"]
        };
        let probe = async || self.heard.lock().unwrap().iter().any(loaded);
        eventually(LIMIT, probe, format!("{url} is loaded")).await;
    }

    /// The size of the window in pixels, below 600 as of a phone, and the scheme, `light` or `dark`.
    pub async fn look(&mut self, width: u32, height: u32, scheme: &str) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", size).await;
        let scheme = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", scheme).await;
    }

    /// Whether pages may run scripts; [`Browser::evaluate`] may in any case.
    pub async fn let_scripts_run(&mut self, allowed: bool) {
        self.call("Emulation.setScriptExecutionDisabled", json!({ "value": !allowed })).await;
    }

    /// The value of an expression of JavaScript; `None` while one page gives way to another.
    pub async fn evaluate(&mut self, expression: &str) -> Option<Value> {
        let params = json!({ "expression": expression, "returnByValue": true });
        let mut answer = self.attempt("Runtime.evaluate", params).await.ok()?;
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        Some(answer["result"]["value"].take())
    }

    /// Waits until the page shows `text`.
    pub async fn wait_for(&mut self, text: &str) {
        let mut shown = Value::Null;
        let probe = async || {
            shown = self.evaluate("document.body?.innerText").await.unwrap_or_default();
            shown.as_str().is_some_and(|shown| shown.contains(text))
        };
        let waited = tokio::time::timeout(LIMIT, eventually(LIMIT * 2, probe, text)).await;
        assert!(waited.is_ok(), "{text:?} is not shown, but {shown}");
    }

    /// Clicks with the mouse into the middle of what a selector finds.
    pub async fn click(&mut self, selector: &str) {
        let middle = format!(
            "(() => {{ const found = document.querySelector({selector:?}); found.scrollIntoView({{ block: 'center' }}); \
             const box = found.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        );
        let at = self.evaluate(&middle).await.expect("a page");
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({ "type": kind, "x": at[0], "y": at[1], "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", event).await;
        }
    }

    /// Types into what a selector finds.
    pub async fn fill(&mut self, selector: &str, text: &str) {
        self.click(selector).await;
        self.call("Input.insertText", json!({ "text": text })).await;
    }

    /// What pages wrote to the console, what failed in them, and what their policy forbade. Answers that are errors are
    /// not among it.
    pub fn complaints(&self) -> Vec<Value> {
        let complains = |message: &&Value| match message["method"].as_str().unwrap_or_default() {
            "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Audits.issueAdded" => true,
            "Log.entryAdded" => message["params"]["entry"]["source"] != "network",
            _ => false,
        };
        self.heard.lock().unwrap().iter().filter(complains).cloned().collect()
    }

    /// The addresses that pages asked for.
    pub fn requests(&self) -> Vec<String> {
        let heard = self.heard.lock().unwrap();
        let sent = heard.iter().filter(|message| message["method"] == "Network.requestWillBeSent");
        sent.map(|message| message["params"]["request"]["url"].as_str().unwrap().to_owned()).collect()
    }

    /// The whole page as a PNG.
    pub async fn picture(&mut self) -> Vec<u8> {
        let taken = self.call("Page.captureScreenshot", json!({ "captureBeyondViewport": true })).await;
        BASE64_STANDARD.decode(taken["data"].as_str().unwrap()).unwrap()
    }
}

fn listen(from: impl Read + Send + 'static, heard: &Arc<Mutex<Vec<Value>>>) {
    let (mut from, heard) = (BufReader::new(from), Arc::clone(heard));
    thread::spawn(move || {
        let mut message = Vec::new();
        while from.read_until(0, &mut message).is_ok_and(|length| length > 0) {
            message.pop();
            if let Ok(message) = serde_json::from_slice(&message) {
                heard.lock().unwrap().push(message);
            }
            message.clear();
        }
    });
}
