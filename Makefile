FUZZTIME ?= 30s

.PHONY: build sbom test lint generate fuzz bench screenshots

build:
	go build -trimpath -o bin/executor ./cmd/executor

# The modules in the program, with their versions and sums, as CycloneDX. The same
# program gives the same file.
sbom: build
	go tool -modfile=tools/go.mod cyclonedx-gomod bin -json -std -noserial -notimestamp -output bin/executor.cdx.json bin/executor

test:
	go run ./internal/testkit/withpg go test -race ./...

lint:
	.ci/run lint vulns

generate:
	go generate ./...

# Every fuzz target in turn, each for FUZZTIME.
fuzz:
	@grep -rHoE '^func Fuzz[A-Za-z0-9_]+' --include='*_test.go' . | sed 's/:func / /' | while read -r file target; do \
		go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")" || exit 1; \
	done

# Beside a plain River worker, on a durable PostgreSQL of its own.
bench:
	go run ./bench

# Of every page of the dashboard, for the manual.
screenshots:
	EXECUTOR_SCREENSHOTS=$(CURDIR)/docs/screenshots go run ./internal/testkit/withpg go test -count=1 -run TestEveryPageIsAccessible ./web
