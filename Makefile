# Everything a developer runs. "make" lists the targets.
#
# Knobs: RACE_FLAGS=-short FUZZTIME=10s SIM_SEEDS=1000000 RECOVERY_CYCLES=5000 BENCH_ARGS="-run . -duration 10s"

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO              ?= go
RACE_FLAGS      ?= -short
FUZZTIME        ?= 10s
SIM_SEEDS       ?= 1000000
RECOVERY_CYCLES ?= 5000
DAMAGES         ?= 500
RECOVERY_POWER_CUTS ?= 200
BENCH_ARGS      ?=
DEMO_ARGS       ?=

GOLANGCI_VERSION := v2.15.0
GOLANGCI         := .bin/golangci-lint-$(GOLANGCI_VERSION)

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# Folders whose tests run under the race detector, and packages with tests of
# the fault points; only those that exist.
RACE_PKGS  = $(patsubst %,./%/...,$(wildcard messages connectors epochs actors runtime))
FAULT_PKGS = $(addprefix ./,$(sort $(dir $(shell grep -rlE --include='*_test.go' '^//go:build .*\bfault\b' . 2>/dev/null | sed 's,^\./,,'))))

.PHONY: help build check test race lint sim damage recovery bench fuzz demo docs size

help: ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

build: ## build the static binary ./streamd
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o streamd ./cmd/streamd

check: ## before every commit: format, vet, rules, short tests; no network
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "run gofmt -w on:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) test -short -timeout 5m ./...

test: ## all tests, and those of the fault points
	$(GO) test -timeout 15m ./...
	$(if $(FAULT_PKGS),$(GO) test -tags fault -timeout 5m $(FAULT_PKGS))

race: ## tests under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race $(RACE_FLAGS) -timeout 15m $(RACE_PKGS)

lint: $(GOLANGCI) ## golangci-lint; the first run builds it (some minutes)
	$(GOLANGCI) run ./...

$(GOLANGCI):
	GOBIN=$(CURDIR)/.bin $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv .bin/golangci-lint $@

sim: ## whole-engine simulation with SIM_SEEDS seeds
	SIM_SEEDS=$(SIM_SEEDS) $(GO) test -timeout 2h ./test/sim

damage: ## DAMAGES seeded damages of checkpoint directories
	DAMAGES=$(DAMAGES) $(GO) test -v -timeout 2h ./test/damage

recovery: ## the real binary killed RECOVERY_CYCLES times, its disk cut RECOVERY_POWER_CUTS times (as root), and all other faults
	RECOVERY_CYCLES=$(RECOVERY_CYCLES) RECOVERY_POWER_CUTS=$(RECOVERY_POWER_CUTS) $(GO) test -timeout 4h ./test/recovery

bench: ## benchmarks from outside; BENCH_ARGS=-json for one JSON object a line
	$(GO) run ./test/bench $(BENCH_ARGS)

fuzz: ## each fuzz target for FUZZTIME
	@{ grep -rnoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . || true; } | sed -E 's,^(.*)/[^/]+_test\.go:[0-9]+:func (.*),\1 \2,' | \
	while read -r dir target; do \
		echo "fuzz $$dir $$target"; \
		$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s "$$dir"; \
	done

demo: build ## embedded NATS server, generator, queries and sinks
	./streamd demo $(DEMO_ARGS)

docs: ## write the generated reference pages again
	$(GO) generate ./...

size: build ## size of the binary, and what its packages and dependencies add to it
	@ls -l streamd | awk '{printf "streamd %.1f MB\n", $$5 / 1048576}'
	@CGO_ENABLED=0 $(GO) build -trimpath -o .bin/streamd-symbols ./cmd/streamd
	@$(GO) tool nm -size -sort size .bin/streamd-symbols > .bin/streamd-symbols.txt
	@echo "modules linked: $$($(GO) list -deps -f '{{with .Module}}{{.Path}}{{end}}' ./cmd/streamd | sort -u | grep -c .), packages: $$($(GO) list -deps ./cmd/streamd | wc -l)"
	@echo "by module:"
	@awk '$$3 ~ /[tTrRdD]/ && $$4 !~ /drbg.memory$$/ {n = $$4; gsub(/%2e/, ".", n); sub(/^(type:\.eq\.|type:|go:itab\.)[*.]*/, "", n); sub(/[\[(].*/, "", n); k = split(n, p, "/"); m = "std and generated"; \
		if (p[1] ~ /\./ && k > 1) {m = p[1] "/" p[2]; if (p[1] == "github.com" && k > 2) {m = m "/" p[3]}; sub(/\.[^\/.]*$$/, "", m)} \
		sum[m] += $$2} END {for (m in sum) printf "%8.1f KB  %s\n", sum[m] / 1024, m}' .bin/streamd-symbols.txt | sort -rn | head -25 || true
	@echo "largest packages:"
	@awk '$$3 ~ /[tTrR]/ {n = $$4; sub(/\.[^\/]*$$/, "", n); sum[n] += $$2} END {for (n in sum) printf "%8.1f KB  %s\n", sum[n] / 1024, n}' .bin/streamd-symbols.txt | sort -rn | head -20 || true
