#!/usr/bin/env bash
# Section: buckets
# Inputs: replica/s3 replica/bucket test/linear
#
# The tests of a bucket, and those of machines that take over from each other, on servers of others, which it installs:
# versitygw and moto. With the argument liar, which make torture gives it, also S3Mock, which the probe has to refuse;
# that needs Maven.
#
#   SERVER_TAKE_OVERS  take-overs on each server (default: 4)
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"
. "$(git rev-parse --show-toplevel)/.ci/machine.sh"

readonly versitygw=v1.8.0 moto=5.2.5 s3mock=4.9.1
servers='Versitygw|Moto'

GOBIN=$work/bin GOWORK=off GOFLAGS=-mod=mod go install "github.com/versity/versitygw/cmd/versitygw@$versitygw"
environment "$work/moto.venv" "moto[server,s3]==$moto"
export STELE_VERSITYGW=$work/bin/versitygw STELE_MOTO_PYTHON=$work/moto.venv/bin/python
if [ "${1:-}" = liar ]; then
	packages java:default-jre-headless mvn:maven
	mvn -q -B dependency:get -Dartifact="com.adobe.testing:s3mock:$s3mock:jar:exec" -Dtransitive=false
	mvn -q -B dependency:copy -Dartifact="com.adobe.testing:s3mock:$s3mock:jar:exec" -DoutputDirectory="$work/s3mock"
	export STELE_S3MOCK_JAR=$work/s3mock/s3mock-$s3mock-exec.jar
	servers+='|S3Mock'
fi
go test -count=1 -vet=off -timeout "${TEST_TIMEOUT:-40m}" -run "Test($servers)\$" -v . >"$work/buckets.out" 2>&1 || {
	cat -- "$work/buckets.out"
	exit 1
}
(cd -- ../../test/linear && go test -count=1 -vet=off -timeout "${TEST_TIMEOUT:-40m}" -run 'TestServers/(versitygw|moto)' -v .) >>"$work/buckets.out" 2>&1 || {
	cat -- "$work/buckets.out"
	exit 1
}
grep -E ' turns: ' "$work/buckets.out"
! grep -q -- '--- SKIP' "$work/buckets.out" || {
	echo "a server was left out:"
	grep -- '--- SKIP' "$work/buckets.out"
	exit 1
}
echo "ran $(grep -cE "^--- PASS: Test($servers)" "$work/buckets.out") servers of others"
