# shellcheck shell=bash
# The set-up that demo and test share: Debian packages, a virtual environment, the build.
# Sourced, never run. Each part looks first and does nothing where all is there already, so a second
# run costs less than a second. Every long step says when it begins and how long it took.

REPOSITORY_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
VENV=${RLSCOPE_VENV:-$REPOSITORY_DIR/.venv}
[[ $VENV == /* ]] || VENV=$PWD/$VENV
LOG_DIR=$REPOSITORY_DIR/.setup
TRACEFS=/sys/kernel/tracing
cd "$REPOSITORY_DIR" || exit 1
# Under sudo the traced program runs as the invoking user, who must be able to read what root makes.
umask 022

# Lists of Debian packages; `a|b` is a where the release has it, else b.
# libelf1 and zlib1g, all that is needed at run time, come with their -dev packages.
# shellcheck disable=SC2034  # read by the scripts that source this file
BUILD_PACKAGES=(clang llvm libbpf-dev libelf-dev libzydis-dev zlib1g-dev rapidjson-dev pkg-config
  cmake ninja-build g++ git)
# shellcheck disable=SC2034
TEST_PACKAGES=('bpftool|linux-tools-generic' bpftrace sudo shellcheck clang-format procps util-linux
  python3-bpfcc nodejs chromium 'chromium-driver|chromium-chromedriver'
  'firefox-esr|firefox')

say() { printf '%s\n' "$*"; }

# fail MESSAGE [HINT]
fail() {
  printf 'error: %s\n' "$1" >&2
  if [[ -n ${2:-} ]]; then printf 'hint: %s\n' "$2" >&2; fi
  exit 1
}

is_root() { [[ $(id -u) == 0 ]]; }

TICKER=
stop_ticker() {
  if [[ -z $TICKER ]]; then return 0; fi
  kill "$TICKER" 2>/dev/null || true
  wait "$TICKER" 2>/dev/null || true
  TICKER=
  if [[ -t 1 ]]; then printf '\r\033[K'; fi
}
trap stop_ticker EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# step NAME TITLE HINT COMMAND...: run one long step with its output in .setup/NAME.log
step() {
  local name=$1 title=$2 hint=$3 log=$LOG_DIR/$1.log status=0 started
  started=$(now_us)
  shift 3
  mkdir -p "$LOG_DIR"
  : >"$log"
  say "$title ..."
  show_progress "$log" &
  TICKER=$!
  # In the foreground, so that Ctrl-C ends it with us: bash makes background commands ignore it.
  "$@" >"$log" 2>&1 </dev/null || status=$?
  stop_ticker
  if ((status != 0)); then
    printf '%s\n' "--- the end of .setup/$name.log:" >&2
    tail -n 20 "$log" >&2
    printf '%s\n' "---" >&2
    fail "$title: exit code $status after $(seconds_since "$started") s" "$hint"
  fi
  say "$title: done in $(seconds_since "$started") s"
}

# Some locales write the point of EPOCHREALTIME as a comma.
now_us() { say "${EPOCHREALTIME//[^0-9]/}"; }

seconds_since() {
  local tenths=$((($(now_us) - $1) / 100000))
  say "$((tenths / 10)).$((tenths % 10))"
}

# On a terminal one line that lives; in a log one line every half minute.
show_progress() {
  local log=$1 begun=$SECONDS pause=30 line never
  if [[ -t 1 ]]; then pause=1; fi
  # A pipe that never has anything to read: unlike a sleep no child, which would outlive us.
  exec {never}<> <(:)
  until read -r -t "$pause" -u "$never"; do
    kill -0 "$$" 2>/dev/null || return 0
    line=$(tail -c 300 "$log" 2>/dev/null | tr '\r' '\n' | tr -cd '[:print:]\n' | tail -n 1)
    if [[ -t 1 ]]; then
      printf '\r\033[K  %d s: %s' $((SECONDS - begun)) "${line:0:70}"
    else
      printf '  %d s: %s\n' $((SECONDS - begun)) "${line:0:100}"
    fi
  done
}

# missing_packages PACKAGE...: those of which no alternative is installed, one a line
missing_packages() {
  local installed package
  command -v dpkg-query >/dev/null || return 0
  installed=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' 2>/dev/null)
  for package in "$@"; do
    grep -Eqx "(${package//+/[+]}) installed" <<<"$installed" || say "$package"
  done
}

# Debian's python3 comes in parts; other Pythons bring all of them.
python_packages() {
  local python
  python=$(find_python) || python=
  if [[ ${use_wheel:-no} == yes ]]; then
    if [[ -z $python ]] || ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
      printf '%s\n' python3 python3-venv
    fi
  elif [[ -z $python ]]; then
    printf '%s\n' python3 python3-venv python3-dev
  elif ! "$python" -c 'import ensurepip, pathlib, sysconfig, venv
assert pathlib.Path(sysconfig.get_path("include"), "Python.h").exists()' 2>/dev/null; then
    printf '%s\n' python3-venv python3-dev
  fi
}

# The first Python that is new enough: a name on PATH may be a shim that runs nothing.
find_python() {
  local name names=(python3 /usr/bin/python3 python3.{14,13,12,11,10})
  if [[ -n ${RLSCOPE_PYTHON:-} ]]; then names=("$RLSCOPE_PYTHON"); fi
  for name in "${names[@]}"; do
    if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
      command -v "$name"
      return 0
    fi
  done
  return 1
}

# bcc compiles at run time against some kernel headers; these need not be the running kernel's.
kernel_headers_packages() {
  if [[ -e /lib/modules/$(uname -r)/build || -e /sys/kernel/kheaders.tar.xz ]] ||
    compgen -G '/usr/src/linux-headers-*/include' >/dev/null; then
    return 0
  fi
  say "linux-headers-$(uname -r)|linux-headers-$(dpkg --print-architecture)|linux-headers-generic"
}

# clang's runtimes for fuzzing come apart from it, in a package of its version; see scripts/fuzz.
fuzzer_packages() {
  local runtime
  command -v clang >/dev/null || return 0
  runtime=$(clang --print-file-name="libclang_rt.fuzzer-$(uname -m).a")
  if [[ $runtime == /* && -e $runtime ]]; then return 0; fi
  say "libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev"
}

# The first of the alternatives that this release offers.
available_package() { # A|B|C
  local name names
  IFS='|' read -ra names <<<"$1"
  for name in "${names[@]}"; do
    if [[ $(apt-cache policy "$name" 2>/dev/null) == *"Candidate: "[0-9]* ]]; then
      say "$name"
      return 0
    fi
  done
  say "${names[0]}"
}

apt_install() { # PACKAGE...
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    -o DPkg::Lock::Timeout=300 "$@"
}

ensure_packages() { # PACKAGE...
  local missing package packages=()
  mapfile -t missing < <(missing_packages "$@" && python_packages)
  if ((${#missing[@]} == 0)); then return 0; fi
  command -v apt-get >/dev/null ||
    fail "this is no Debian or Ubuntu, and something is missing: ${missing[*]}" \
      "install the counterparts of these Debian packages"
  is_root || fail "installing Debian packages needs root: ${missing[*]}" "sudo $0"
  step apt-update "reading the package lists" "check the network, then run again" \
    apt-get update -o DPkg::Lock::Timeout=300
  for package in "${missing[@]}"; do packages+=("$(available_package "$package")"); done
  step apt-install "installing ${#packages[@]} Debian packages: ${packages[*]}" \
    "apt-get install ${packages[*]}" apt_install "${packages[@]}"
}

ensure_venv() {
  local python
  if [[ -x $VENV/bin/python ]] && "$VENV/bin/python" -c 'import pip' 2>/dev/null; then return 0; fi
  python=$(find_python) ||
    fail "no Python of version 3.10 or newer was found" "set RLSCOPE_PYTHON=/path/to/python3"
  step venv "making the virtual environment ${VENV##*/} ($("$python" -V 2>&1))" \
    "rm -rf ${VENV@Q}; $0" "$python" -m venv --clear "$VENV"
}

pip_install() { "$VENV/bin/python" -m pip --disable-pip-version-check --no-input install "$@"; }

# Stamps lie in the environment they speak of, so that a removed environment is filled again.
stamp_is() { [[ $(cat "$VENV/.stamp-$1" 2>/dev/null) == "$2" ]]; }
set_stamp() { printf '%s\n' "$2" >"$VENV/.stamp-$1"; }

# What the build reads. By name and content, not by git: a source archive has no git.
source_hash() {
  find pyproject.toml bpf cupti tracer analysis -type f ! -path '*/__pycache__/*' ! -name '*.md' -print0 |
    sort -z | xargs -0 sha256sum | sha256sum | cut -d' ' -f1
}

ensure_package() {
  local hash
  hash=$(source_hash)
  if stamp_is package "$hash"; then return 0; fi
  step build "building and installing rlscope-trace" "read .setup/build.log, then run again" \
    pip_install .
  set_stamp package "$hash"
}

# Another build of the same version replaces the one that is there; what it needs stays.
install_wheel() { pip_install "$1" && pip_install --force-reinstall --no-deps "$1"; }

# The wheel in dist/ for the Python of the environment.
ensure_wheel() {
  local tag wheels hash
  tag=$("$VENV/bin/python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
  mapfile -t wheels < <(compgen -G "dist/rlscope_trace-*-$tag-$tag-*_$(uname -m).whl")
  ((${#wheels[@]} == 1)) ||
    fail "${#wheels[@]} wheels for $tag on $(uname -m) in dist/" "scripts/release build"
  hash=$(sha256sum "${wheels[0]}")
  if stamp_is package "$hash"; then return 0; fi
  step wheel "installing ${wheels[0]}" "read .setup/wheel.log, then run again" \
    install_wheel "${wheels[0]}"
  set_stamp package "$hash"
}

# ensure_requirements NAME TITLE PIP-ARGUMENTS...: install once per change of the arguments or files
ensure_requirements() {
  local name=$1 title=$2 hash
  shift 2
  hash=$({ say "$*" && cat pyproject.toml tests/workloads/requirements*.txt; } | sha256sum)
  if stamp_is "$name" "$hash"; then return 0; fi
  step "$name" "$title" "check the network and the disk, then run again" pip_install "$@"
  set_stamp "$name" "$hash"
}

ensure_truth_requirements() {
  ensure_requirements truth "installing what the programs of the tests need (SB3, MuJoCo, ALE)" \
    -r tests/workloads/requirements-truth.txt
}

ensure_fleet_requirements() {
  ensure_requirements fleet "installing what the fleet of the demo needs (Ray, RLlib)" \
    -r tests/workloads/requirements-fleet.txt
}

ensure_workload_requirements() {
  ensure_requirements workloads "installing what the training program needs (PyTorch, Gymnasium)" \
    -r tests/workloads/requirements.txt
}

# NVIDIA's own libcupti, in several versions, which need no driver for what the tests ask of them.
download_cupti() {
  local wheel
  while read -r wheel; do
    "$VENV/bin/python" -m pip --disable-pip-version-check --no-input download --no-deps \
      --only-binary=:all: --dest "$VENV/cupti" "$wheel" </dev/null || return 1
  done < <(grep -v '^#' tests/fakes/requirements-cupti.txt)
}

ensure_cupti() {
  local hash
  if [[ $(uname -m) != x86_64 ]]; then return 0; fi
  hash=$(sha256sum tests/fakes/requirements-cupti.txt)
  if stamp_is cupti "$hash"; then return 0; fi
  step cupti "fetching the versions of CUPTI that records are held to" \
    "check the network and the disk, then run again" download_cupti
  set_stamp cupti "$hash"
}

# Kernels without BTF are read through tracefs, and the tests look at both ways.
ensure_tracefs() {
  if [[ -e $TRACEFS/events ]] || ! is_root; then return 0; fi
  if mount -t tracefs nodev "$TRACEFS" 2>/dev/null; then
    say "mounted tracefs at $TRACEFS"
  else
    say "warning: tracefs could not be mounted at $TRACEFS: only kernels with BTF can be traced"
  fi
}

# Made files belong to root also when sudo was used: said, because it surprises later.
tell_ownership() { # FILE...
  if [[ -z ${SUDO_USER:-} ]] || ! is_root; then return 0; fi
  say "note: made as root: $*"
  say "hint: sudo chown -R $SUDO_USER $*"
}
