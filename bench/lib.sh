# What the benchmarks share. Sourced by them, from the repository's root.
# shellcheck shell=bash

export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() {
    say "$*"
    exit 1
}

# vk_setup: finds vk (VK, else the release build) and the images (VK_IMAGES_DIR, else images/out), and makes the
# folder $work, gone at the end, where vk keeps its state, too.
vk_setup() {
    vk=${VK:-${CARGO_TARGET_DIR:-target}/release/vk}
    [[ -x $vk ]] || die "no $vk: run ./setup first, or name a release build with VK"
    vk=$(realpath -- "$vk")
    export VK_IMAGES_DIR=${VK_IMAGES_DIR:-$PWD/images/out}
    [[ -e $VK_IMAGES_DIR/manifest.json ]] || die "no images in $VK_IMAGES_DIR: run images/build"
    work=$(mktemp -d "${TMPDIR:-/tmp}/vk-bench.XXXXXX")
    export VK_STATE_DIR=$work/state
    trap 'rm -rf -- "$work"' EXIT
}

# number_of_runs DEFAULT "$@": reads the option -n; any other argument is a mistake.
number_of_runs() {
    local option OPTARG OPTIND=1
    runs=$1
    shift
    while getopts n: option; do
        [[ $option == n && $OPTARG =~ ^[1-9][0-9]*$ ]] || die 'usage: '"$0"' [-n RUNS]'
        runs=$OPTARG
    done
    ((OPTIND > $#)) || die 'usage: '"$0"' [-n RUNS]'
}

# milliseconds CMD...: sets `took` to how long it takes, by the wall clock. Its output goes to $work/output, its
# failure is fatal.
milliseconds() {
    local start=${EPOCHREALTIME/./}
    "$@" >"$work/output" 2>&1 </dev/null || {
        cat -- "$work/output" >&2
        die "failed: $*"
    }
    # shellcheck disable=SC2034 # read by the benchmarks
    took=$(((${EPOCHREALTIME/./} - start) / 1000))
}

# serve_registry: starts Debian's docker-registry with its store in $work; sets `address` to its host:port. The script's
# trap calls stop_registry.
serve_registry() {
    local try
    cat >"$work/registry.yml" <<CONFIG
version: 0.1
log: {accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: $work/registry}}
http: {addr: "127.0.0.1:0", secret: bench}
CONFIG
    docker-registry serve "$work/registry.yml" 2>"$work/registry.log" &
    registry=$!
    address=
    for ((try = 0; try < 100; try++)); do
        address=$(sed -n 's/.*listening on \([0-9.:]*\).*/\1/p' "$work/registry.log")
        [[ -z $address ]] || return 0
        sleep 0.1
    done
    die "docker-registry does not start: $(cat -- "$work/registry.log")"
}

stop_registry() {
    [[ -z ${registry-} ]] || kill "$registry"
    registry=
}

# push_layer LAYER.tar IMAGE: pushes an image of this one layer, gzipped, to the registry; sets `packed` to the layer's
# size then, in bytes.
push_layer() {
    umoci init --layout "$work/made"
    umoci new --image "$work/made:latest"
    umoci raw add-layer --image "$work/made:latest" "$1" >"$work/output" 2>&1
    skopeo copy -q --dest-tls-verify=false "oci:$work/made:latest" "docker://$2"
    # shellcheck disable=SC2034 # read by the benchmarks
    packed=$(find "$work/made/blobs" -type f -printf '%s\n' | sort -n | tail -n 1)
    rm -rf -- "$work/made"
}

# median NUMBER...: the lower one of two in the middle.
median() {
    printf '%s\n' "$@" | sort -n | sed -n "$((($# + 1) / 2))p"
}

# quotient A B DIGITS
quotient() { awk -v a="$1" -v b="$2" -v digits="$3" 'BEGIN { printf "%.*f", digits, a / b }'; }

# The host, for whoever reads the figures later.
describe_host() {
    printf 'host: %s CPUs, load %s\n' "$(nproc)" "$(cut -d' ' -f1-3 /proc/loadavg)"
}
