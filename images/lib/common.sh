# shellcheck shell=bash disable=SC2154 # here, cache, work and refresh are set by build
# What all parts of the build share: messages, checks of the host, hashes of inputs, the cache of finished parts.

say() {
    printf 'images: %s\n' "$*" >&2
}

die() {
    printf 'images: error: %s\n' "$*" >&2
    exit 1
}

# need COMMAND:PACKAGE...: ends the build if commands are missing, and names the Debian packages that have them.
need() {
    local pair commands=() packages=()
    for pair; do
        if ! command -v "${pair%%:*}" >/dev/null; then
            commands+=("${pair%%:*}")
            packages+=("${pair##*:}")
        fi
    done
    if ((${#commands[@]})); then
        die "not installed: ${commands[*]}; install with: sudo apt-get install ${packages[*]}"
    fi
}

# sha256 FILE
sha256() {
    local sum
    sum=$(sha256sum <"$1")
    printf '%s\n' "${sum%% *}"
}

# inputs_hash WORD-OR-FILE...: one hash over the content of the files and over the other words as they are.
inputs_hash() {
    local input
    for input; do
        if [[ -f $input ]]; then
            sha256 "$input"
        else
            printf '%s\n' "$input"
        fi
    done | sha256sum | cut -d' ' -f1
}

# entries FILE: the lines of a list without comments and blank lines.
entries() {
    sed -e 's/[[:space:]]*#.*//' -e '/^[[:space:]]*$/d' -- "$1"
}

# part_is_current PART STAMP: whether the cached part was made from the inputs with this hash.
part_is_current() {
    [[ -f $cache/$1/stamp && $(<"$cache/$1/stamp") == "$2" ]]
}

# begin_part PART: an empty folder to make the part in.
begin_part() {
    rm -rf -- "${work:?}/$1"
    mkdir -p -- "$work/$1"
}

# store_part PART STAMP FILE...: the finished folder $work/PART becomes the cached part; "sums" tells name, size
# and SHA256 of the files that are published.
store_part() {
    local part=$1 stamp=$2 file
    shift 2
    for file; do
        printf '%s %s %s\n' "$file" "$(stat -c %s -- "$work/$part/$file")" "$(sha256 "$work/$part/$file")"
    done >"$work/$part/sums"
    printf '%s\n' "$stamp" >"$work/$part/stamp"
    if [[ -e $cache/$part ]]; then
        mv -- "$cache/$part" "$work/$part.old"
    fi
    mv -- "$work/$part" "$cache/$part"
}
