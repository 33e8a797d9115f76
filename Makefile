.PHONY: help build demo test torture bench openapi unit rules deb test-systemd lint format clippy docs

help: ## what there is
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 15

build: ## the release binary, in target/release
	cargo build --release

demo: ## the main job shown on private servers; KEEP=1 leaves them up to play with
	@tests/demo.sh

test: ## every test, against private servers or TALLYD_TEST_MYSQL_URL and TALLYD_TEST_REDIS_URL
	@test "$$TALLYD_TEST_MYSQL_URL" && test "$$TALLYD_TEST_REDIS_URL" || tests/setup.sh browser
	@skipped=$$(mktemp) && trap 'rm -f "$$skipped"' EXIT && \
	TALLYD_TEST_SKIPPED=$$skipped cargo test --features failpoints; outcome=$$?; \
	sort "$$skipped"; echo "skipped: $$(wc -l <"$$skipped")"; exit $$outcome

torture: ## 100 faults under load, then outages at full length: nothing acknowledged is lost; FAULTS, SEED and KINDS (KillRedis,Flush) vary it
	@tests/setup.sh
	@TALLYD_TEST_MYSQL_URL= TALLYD_TEST_REDIS_URL= \
	TALLYD_TEST_FAULTS=$${FAULTS:-100} TALLYD_TEST_SEED=$$SEED TALLYD_TEST_KINDS=$$KINDS \
	cargo test --features failpoints --test torture -- --nocapture whatever_breaks
	@TALLYD_TEST_MYSQL_URL= TALLYD_TEST_REDIS_URL= TALLYD_TEST_LONG=1 \
	cargo test --features failpoints --test it -- --nocapture --test-threads 1 recovery:: two_processes:: case15:: restoring::case14::

bench: ## every comparison of the README's chapter on speed, and how a sync grows; ROUNDS and ONLY='sync queries' vary it
	@benches/all.sh
	@benches/growth.sh

openapi: ## the API held to its own description, by schemathesis; SEED and SECONDS_EACH vary it
	@tests/openapi.sh

unit: ## systemd's judgement of the unit: no remarks, an exposure of 2.0 at most
	@tests/setup.sh
	@tests/unit.sh

rules: ## the alert rules and the dashboard's expressions, by promtool where it can be had
	@tests/setup.sh rules
	@tests/rules.sh

deb: ## the Debian package, in target/debian
	@systemd/debian/build.sh

test-systemd: ## the package installed, run, upgraded and removed under a real systemd in a container; OUTAGE=300 and CASES='4*' vary it
	@tests/systemd/run.sh

lint: format clippy docs ## formatting, lints, documentation

format:
	cargo fmt --check

clippy:
	cargo clippy --all-targets -- -D warnings
	cargo clippy --all-targets --all-features -- -D warnings

docs:
	RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --all-features
