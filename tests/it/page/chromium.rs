//! A headless Chromium, driven by its remote debugging protocol over two pipes: no port, and no driver to install.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Process, bound, new_home, skipped};

/// Hands the two pipes on as file descriptors 3 and 4, and ends what hangs.
const START: &str = "mkfifo to from && exec timeout 90 chromium --headless=new --no-sandbox --disable-gpu \
    --disable-dev-shm-usage --no-first-run --user-data-dir=\"$PWD/profile\" --remote-debugging-pipe \
    about:blank 3<to 4>from 2>log";

/// One tab of a browser of its own; ended when dropped.
pub struct Chromium {
    to: File,
    from: BufReader<File>,
    session: Value,
    last: u64,
    /// What the browser reported meanwhile.
    events: Vec<Value>,
    _process: Process,
    _home: TempDir,
}

impl Chromium {
    /// `None` where it is not installed; `test` counts as skipped then.
    pub fn start(test: &str) -> Option<Self> {
        let installed = bound("sh").args(["-c", "command -v chromium"]).output().unwrap();
        if !installed.status.success() {
            skipped(test, "needs chromium");
            return None;
        }
        let home = new_home("chromium");
        let mut command = bound("bash");
        command.args(["-c", START]).current_dir(home.path());
        let process = Process::start("chromium", command);
        let pipe = |name: &str| home.path().join(name);
        while !pipe("from").exists() {
            assert!(process.ended().is_none(), "chromium does not start");
            std::thread::yield_now();
        }
        // In the order in which the shell opens them: each waits for the other side.
        let to = OpenOptions::new().write(true).open(pipe("to")).unwrap();
        let from = BufReader::new(File::open(pipe("from")).unwrap());
        let mut browser =
            Self { to, from, session: Value::Null, last: 0, events: Vec::new(), _process: process, _home: home };
        let target = browser.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let attached =
            browser.call("Target.attachToTarget", &json!({ "targetId": target["targetId"], "flatten": true }));
        browser.session = attached["sessionId"].clone();
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        Some(browser)
    }

    pub fn call(&mut self, method: &str, params: &Value) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if !self.session.is_null() {
            message["sessionId"] = self.session.clone();
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let answer = self.read();
            if answer["id"] == self.last {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.events.push(answer);
        }
    }

    fn read(&mut self) -> Value {
        let mut message = Vec::new();
        self.from.read_until(0, &mut message).unwrap();
        assert_eq!(message.pop(), Some(0), "chromium has ended");
        serde_json::from_slice(&message).unwrap()
    }

    /// Waits until a page is loaded after those that were waited for before.
    pub fn loaded(&mut self) {
        let is_load = |event: &Value| event["method"] == "Page.loadEventFired";
        while !self.events.iter().any(is_load) {
            let event = self.read();
            self.events.push(event);
        }
        self.events.retain(|event| !is_load(event));
    }

    pub fn open(&mut self, url: &str) {
        self.call("Page.navigate", &json!({ "url": url }));
        self.loaded();
    }

    /// The size of the window, and `light` or `dark`.
    pub fn look(&mut self, width: u64, height: u64, scheme: &str) {
        let phone = width < 600;
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone });
        self.call("Emulation.setDeviceMetricsOverride", &size);
        let scheme = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", &scheme);
    }

    /// What an expression of JavaScript is.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let answer = self.call("Runtime.evaluate", &json!({ "expression": expression, "returnByValue": true }));
        assert!(answer["exceptionDetails"].is_null(), "{answer}");
        answer["result"]["value"].clone()
    }

    /// Clicks with the mouse into the middle of what a selector finds.
    pub fn click(&mut self, selector: &str) {
        let root = self.call("DOM.getDocument", &json!({}))["root"]["nodeId"].clone();
        let found = self.call("DOM.querySelector", &json!({ "nodeId": root, "selector": selector }));
        let model = self.call("DOM.getBoxModel", &json!({ "nodeId": found["nodeId"] }));
        let corner = |at: usize| model["model"]["content"][at].as_f64().unwrap();
        let (x, y) = (f64::midpoint(corner(0), corner(4)), f64::midpoint(corner(1), corner(5)));
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({ "type": kind, "x": x, "y": y, "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", &event);
        }
    }

    /// The document as it is now, without the help of scripts.
    pub fn html(&mut self) -> String {
        let root = self.call("DOM.getDocument", &json!({}))["root"]["nodeId"].clone();
        let html = self.call("DOM.getOuterHTML", &json!({ "nodeId": root }));
        html["outerHTML"].as_str().unwrap().to_owned()
    }

    /// Errors of the console, and violations of the policy.
    pub fn complaints(&self) -> Vec<&Value> {
        let complains = |event: &&Value| {
            let method = event["method"].as_str().unwrap_or_default();
            ["Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"].contains(&method)
        };
        self.events.iter().filter(complains).collect()
    }
}
