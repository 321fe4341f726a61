# Each target installs what it needs, after saying what; the second time that costs nothing.
.PHONY: run test bench fmt setup
.DEFAULT_GOAL := run

run: ## Build and open the window (or, without a display, draw it into a picture)
	@.ci/panel.sh $(ARGS)

test: ## Every check and every test
	@.ci/test.sh $(ARGS)

bench: ## Launch ratio against plain bubblewrap, terminal throughput, cost of the guard and of a connection
	@.ci/bench.sh $(ARGS)

fmt: ## Format Rust, TypeScript and Svelte
	@.ci/fmt.sh

setup: ## Only install what the other targets need
	@.ci/setup.sh all
