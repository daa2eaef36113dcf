#!/usr/bin/env bash
# All tests. Sets up what it needs: a Rust toolchain must be there, Python packages go into target/.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s\n' "$*"; }

step "format"
cargo fmt --all --check

step "lints"
cargo clippy --workspace --all-targets --release -- -D warnings

step "tests"
cargo test --workspace --release

step "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --release -q

step "corpus against numpy"
cargo build --release -q
py=python3
if ! $py -c 'import numpy, ml_dtypes' 2>/dev/null; then
  python3 -m pip install -q --disable-pip-version-check --target target/python numpy ml_dtypes
  export PYTHONPATH="$PWD/target/python${PYTHONPATH:+:$PYTHONPATH}"
fi
$py testdata/goldens/make_goldens.py --check
bin="${CARGO_TARGET_DIR:-target}/release/tandem"
for level in bir lowered linked bundles; do
  $py tools/corpus.py --tandem "$bin" --extra "--level $level"
  $py tools/corpus.py --tandem "$bin" --dir examples/kernels --extra "--level $level"
done

step "traces and reports"
# Perfetto's message classes decode the traces; Chromium shows the pages. Both are installed when missing.
if ! $py -c 'import perfetto.protos.perfetto.trace.perfetto_trace_pb2, selenium' 2>/dev/null; then
  python3 -m pip install -q --disable-pip-version-check --target target/python-report perfetto selenium
  export PYTHONPATH="$PWD/target/python-report${PYTHONPATH:+:$PYTHONPATH}"
fi
mkdir -p target
if ! command -v chromium >/dev/null || ! command -v chromedriver >/dev/null; then
  { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends chromium chromium-driver fonts-dejavu-core; } >target/chromium.log 2>&1 || {
    tail -5 target/chromium.log
    echo "the pages of tandem report cannot be tested: Debian's packages chromium and chromium-driver are missing and could not be installed" >&2
    exit 1
  }
fi
$py tools/check_trace.py --tandem "$bin"
$py tools/check_report.py --tandem "$bin"

step "README example"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
"$bin" run examples/rmsnorm_2core.klr --random 42 -o "$out"
test -s "$out/out.npy"

step "Python package"
# A clean environment; only Rust and Python are needed, nothing of the steps above. The extension has a workspace and a target folder of its own.
unset PYTHONPATH
own="$(realpath -m "${CARGO_TARGET_DIR:-target}")/python"
(cd python && cargo fmt --check && CARGO_TARGET_DIR="$own" cargo clippy -q --release -- -D warnings)
python3 -m venv --clear target/venv
CARGO_TARGET_DIR="$own" \
  target/venv/bin/pip install -q --disable-pip-version-check './python[test]'
target/venv/bin/pytest -q python/tests
target/venv/bin/python python/benches/tracing.py

step "book"
# mdBook is taken from the path, or else built into target/tools once.
python3 tools/book.py

printf '\nall passed\n'
