#!/usr/bin/env bash
# The long tests: the ordinary ones, with more of everything. On two cores they
# take about 40 minutes. Every part prints its figures and, if it fails, how to
# repeat what failed; the exit code is that of the whole.
#
#   test/torture.sh              all parts
#   test/torture.sh PART...      some of: crash faults rot sealed kills programs logs devices runs fleet takeovers restored adapters systems parity buckets fuzz
#
#   CRASH_STATES   distinct crash states                  (default 300000)
#   ROT_FLIPS      flipped bits                           (default 2000000)
#   KILLS          killed processes                       (default 1000)
#   MODEL_CHECKS   random programs under random options   (default 4000)
#   POWER_LOSSES   power losses of a real file system     (default 100)
#   RUNS           durable runs on each thread of killed programs (default 300)
#   FLEET_RUNS     the same of a fleet on PostgreSQL      (default 125: 4,000 runs)
#   TAKE_OVERS     servers that are killed while another takes over (default 200)
#   SIMULATED_TAKE_OVERS  of simulated machines, whose clients' histories are checked (default 500)
#   SERVER_TAKE_OVERS  of processes on each server of others behind proxies, whose clients' histories are checked (default 40)
#   RESTORES       at how many calls of LangGraph's own tests a server is killed, and restored from its bucket (default 10)
#   PARITY         random programs beside LangGraph       (default 1000; 10000 take hours)
#   FUZZTIME       of each fuzz target                    (default 60s)
set -uo pipefail

cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." || exit 2
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
failed=()

# run PACKAGE TEST [VARIABLE=VALUE...] runs one test and prints its figures.
run() {
	local package=$1 test=$2
	shift 2
	env "$@" go test -count=1 -timeout 60m -run "^($test)\$" "$package" -v >"$work/out" 2>&1 || {
		grep -vE '^(=== |--- PASS)' "$work/out" | tail -n 200
		return 1
	}
	grep -E '^(crash states|faults|disk full|bit flips|rot |[0-9]+ (runs|damages)|recovered|readers|race|power loss|full device|fleet|killed|ok| +(takeover_kill|linear|servers)_test.go)' "$work/out"
}

part_crash() { run ./test/crash TestCrashStates CRASH_STATES="${CRASH_STATES:-300000}"; }

part_faults() { run ./test/crash 'TestFaults|TestDiskFull' FAULTS_PER_KIND=1000000; }

part_rot() {
	run ./test/crash TestEveryBit ROT_FLIPS="${ROT_FLIPS:-2000000}" &&
		run ./test/crash TestRot ROT_BYTES=600 ROT_BITS=2
}

part_sealed() {
	run ./test/crash 'TestSealedFaults|TestSealedRot' SEALED_FAULTS=100 SEALED_ROT=12000 &&
		run ./segment 'TestSealed.*' SEGMENT_SEALED_STRIDE=1
}

part_kills() {
	run ./test/kill TestKilledProcessesLoseNothing KILLS="${KILLS:-1000}" &&
		run ./test/crash 'TestReaderBesideKilledWriter|TestReaderBesideWriter|TestProcessesRaceForTheLock' READER_KILLS=100 READER_MS=10000
}

part_programs() {
	run ./test/model 'TestMetamorphic|TestSimulatedDisk' MODEL_CHECKS="${MODEL_CHECKS:-4000}" &&
		run ./test/model TestMetamorphicDisk &&
		run ./engine TestModel ENGINE_RUNS=1000
}

part_logs() { run ./wal TestCrash WAL_CRASH_SCALE=4 SEED="${RANDOM}"; }

part_devices() { run ./test/crash 'TestPowerLossOnDevice|TestFullDevice' POWER_LOSSES="${POWER_LOSSES:-100}"; }

part_runs() {
	(cd runs && run . 'TestKills|TestKillsAtFire' STELE_TORTURE_RUNS="${RUNS:-300}" STELE_FIRE_KILLS="${RUNS:-300}" &&
		run . TestStorm STELE_STORM_RUNS="${RUNS:-300}")
}

part_fleet() { (cd postgres && run . TestFleet STELE_TORTURE_RUNS="${FLEET_RUNS:-125}" STELE_REQUIRE_POSTGRES=1); }

part_takeovers() {
	run ./test/linear TestLinearizable TAKE_OVERS="${SIMULATED_TAKE_OVERS:-500}" &&
		run ./test/linear TestServers SERVER_TAKE_OVERS="${SERVER_TAKE_OVERS:-40}" &&
		(cd server && run . TestTakeOverKills TAKE_OVERS="${TAKE_OVERS:-200}")
}

# LangGraph's own tests, and its conformance suite, on stores that are restored from their buckets at every few calls.
part_restored() {
	STELE_RESTORES=${RESTORES:-10} STELE_UPSTREAM="-n 2 --restores ${RESTORES:-10}" sh wire/python/check.sh >"$work/out" 2>&1 || {
		tail -n 200 "$work/out"
		return 1
	}
	grep -E '^conformance:|passed|restored' "$work/out"
}

# What .ci/run does not race: the adapters of providers.
part_adapters() {
	local dir
	for dir in agent/providers examples/chat test/guide/agents; do
		(cd -- "$dir" && go test -race -count=1 ./...) || return 1
	done
}

# What .ci/run only type-checks: the command for other systems.
part_systems() {
	local target
	for target in darwin/arm64 windows/amd64 linux/386; do
		GOOS=${target%/*} GOARCH=${target#*/} CGO_ENABLED=0 go build -o "$work/stele" ./cmd/stele || return 1
	done
}

# Without a Python that has LangGraph it makes one, as CI does.
part_parity() {
	local python=${STELE_PARITY_PYTHON:-} n
	if [ -z "$python" ]; then
		python3.11 -m venv "$work/venv" && python=$work/venv/bin/python &&
			"$python" -m pip install --quiet --disable-pip-version-check --requirement test/parity/requirements.txt || return 1
	fi
	for ((n = ${PARITY:-1000}; n > 0; n -= 100)); do
		STELE_PARITY_PYTHON=$python sh test/parity/pregel/fresh.sh "$((n < 100 ? n : 100))" || return 1
	done
}

part_buckets() { SERVER_TAKE_OVERS=${SERVER_TAKE_OVERS:-40} bash replica/s3/check.sh liar; }

part_fuzz() { FUZZTIME="${FUZZTIME:-60s}" bash test/fuzz.sh; }

main() {
	local parts=("$@") part start
	[ "$#" -gt 0 ] || parts=(crash faults rot sealed kills programs logs devices runs fleet takeovers restored adapters systems parity buckets fuzz)
	for part in "${parts[@]}"; do
		declare -F "part_$part" >/dev/null || {
			echo "no part $part" >&2
			return 2
		}
	done
	for part in "${parts[@]}"; do
		start=$SECONDS
		printf '== %s\n' "$part"
		if "part_$part"; then
			printf -- '-- %s: ok (%d s)\n' "$part" "$((SECONDS - start))"
		else
			failed+=("$part")
			printf -- '-- %s: FAILED (%d s)\n' "$part" "$((SECONDS - start))"
		fi
	done
	if [ "${#failed[@]}" -gt 0 ]; then
		echo "FAILED: ${failed[*]} ($SECONDS s)"
		return 1
	fi
	echo "all parts passed (${parts[*]}; $SECONDS s)"
}

main "$@"
