# Everything here is one command you could type. `make ci` is what a change must pass.
.PHONY: test race ci lint fuzz parity crash bench compare cover mutants torture

# Of the main module; `bash .ci/run test` and `bash .ci/run race` take all.
test:
	go test -count=1 ./...

race:
	go test -race -count=1 ./...

ci:
	bash .ci/run

lint:
	bash .ci/run format vet lint modules

fuzz:
	bash test/fuzz.sh

parity:
	bash .ci/run parity

crash:
	go run ./examples/crash

# Takes one safeguard after another out of the code and runs the whole suite
# against each. CI runs only the test that each names.
mutants:
	go run ./test/mutants -all

torture:
	bash test/torture.sh

bench:
	go test -run '^$$' -bench . -benchmem ./bench

compare:
	cd bench/compare && go run . -quick

cover:
	mkdir -p bin
	go test -count=1 -coverpkg=./... -coverprofile=bin/cover.out ./...
	go tool cover -func=bin/cover.out | tail -n 1
